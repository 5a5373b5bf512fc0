// A real identity provider on the loopback: oidc-provider, with JWT access tokens.
//
// node provider.mjs FOLDER PORT KEYS RESOURCE
//   FOLDER    where oidc-provider is installed
//   KEYS      a file with the private keys as a JWK set; the first one signs
//   RESOURCE  the only resource that tokens are for
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, port, keys, resource] = process.argv.slice(2);
const found = createRequire(`${folder}/package.json`).resolve("oidc-provider");
const { default: Provider, errors } = await import(pathToFileURL(found));

const scopes = "skills:read skills:feedback skills:refresh";
const issuer = `http://127.0.0.1:${port}`;

const provider = new Provider(issuer, {
  jwks: JSON.parse(readFileSync(keys, "utf-8")),
  scopes: ["openid", "offline_access", ...scopes.split(" ")],
  clients: [
    {
      client_id: "robot",
      client_secret: "only-for-this-test",
      grant_types: ["client_credentials"],
      redirect_uris: [],
      response_types: [],
    },
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
