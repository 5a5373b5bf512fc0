// A real identity provider on the loopback: oidc-provider, with JWT access tokens.
//
// node provider.mjs FOLDER PORT KEYS RESOURCE [PEOPLE]
//   FOLDER    where oidc-provider is installed
//   KEYS      a file with the private keys as a JWK set; the first one signs
//   RESOURCE  the only resource that tokens are for
//   PEOPLE    a file with the client of pages, and the groups of each person
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, port, keys, resource, people] = process.argv.slice(2);
const read = (file) => JSON.parse(readFileSync(file, "utf-8"));
const { client, groups } = people ? read(people) : { groups: {} };
const found = createRequire(`${folder}/package.json`).resolve("oidc-provider");
const { default: Provider, errors } = await import(pathToFileURL(found));

const scopes = "skills:read skills:feedback skills:refresh skills:report";
const issuer = `http://127.0.0.1:${port}`;

const provider = new Provider(issuer, {
  jwks: read(keys),
  scopes: ["openid", "offline_access", ...scopes.split(" ")],
  claims: { openid: ["sub", "groups"], profile: ["name"] },
  conformIdTokenClaims: false, // as most providers: what is asked for is in it
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, name: `Name of ${id}`, groups: groups[id] ?? [] }),
  }),
  clients: [
    {
      client_id: "robot",
      client_secret: "only-for-this-test",
      grant_types: ["client_credentials"],
      redirect_uris: [],
      response_types: [],
    },
    ...(client ? [client] : []),
  ],
  cookies: { keys: ["only-for-this-test"] },
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: true },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo(context, named) {
        if (named !== resource) throw new errors.InvalidTarget();
        return { scope: scopes, audience: named, accessTokenFormat: "jwt" };
      },
    },
  },
});

provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));
