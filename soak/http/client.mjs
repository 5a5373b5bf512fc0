// The client of the TypeScript SDK: connect, list, call, and say what came of it.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, token] = process.argv.slice(2);
const headers = token ? { Authorization: `Bearer ${token}` } : {};
const client = new Client({ name: "soak", version: "1" });
await client.connect(
  new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }),
);
const { tools } = await client.listTools();
const progress = [];
await client.callTool({ name: "refresh_skills", arguments: {} }, undefined, {
  onprogress: (report) => progress.push(report.message),
});
const call = { name: "get_skill", arguments: { context: "add auth to a react component" } };
const [{ text }] = (await client.callTool(call)).content;
const { resources } = await client.listResources();
await client.close();
console.log(
  JSON.stringify({
    tools: tools.map((tool) => tool.name),
    progress: progress.length,
    skill: JSON.parse(text).skill_path,
    resources: resources.length,
  }),
);
