// Opens files in yaml-language-server with the published schema of weft.yaml and compares its diagnostics with those planted.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";
import * as rpc from "vscode-jsonrpc/node";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const schema = pathToFileURL(here("../../worker/config/schema.json")).href;
// documented are the files that the documentation shows.
const documented = () =>
  ["README.md", "worker/README.md"].flatMap((name) =>
    [...readFileSync(here(`../../${name}`), "utf8").matchAll(/^```yaml\n(# weft\.yaml[^]*?)^```/gm)].map((m, i) => [`block ${i + 1} of ${name}`, m[1], []]));
const cases = [
  ...documented(),
  ["every kind of value", `$schema: ${schema}\nmodel: ollama/qwen3\nworker: { activities: 7, log: json, stop_timeout: 30s, sticky_cache: 0 }\n` +
    "codec: { compress: true }\nserve: { origins: [a] }\nconnections:\n  web: { url: 'https://x.example/mcp', headers: { A: b } }\n", []],
  ["an unknown setting", "worker:\n  logs: text\n", [1]],
  ["a value that is too small", "worker:\n\n  activities: 0\n", [2]],
  ["an unknown word", "worker:\n  log: xml\n", [1]],
  ["a duration without a unit", "timeouts:\n  model: 90\n", [1]],
  ["an unknown setting of an entry", "connections:\n  web:\n    urll: x\n", [2]],
];

const server = spawn(process.execPath, [here("node_modules/yaml-language-server/bin/yaml-language-server"), "--stdio"], { stdio: ["pipe", "pipe", "inherit"] });
const client = rpc.createMessageConnection(new rpc.StreamMessageReader(server.stdout), new rpc.StreamMessageWriter(server.stdin));
const settings = { validate: true, hover: true, schemaStore: { enable: false }, schemas: { [schema]: "*.yaml" } };
const waiting = new Map();
client.onRequest("workspace/configuration", ({ items }) => items.map(({ section }) => (section === "yaml" ? settings : null)));
client.onRequest("client/registerCapability", () => null);
client.onNotification("textDocument/publishDiagnostics", ({ uri, diagnostics }) => waiting.get(uri)?.(diagnostics));
client.listen();
await client.sendRequest("initialize", { processId: process.pid, rootUri: null, capabilities: { workspace: { configuration: true } } });
client.sendNotification("initialized", {});
client.sendNotification("workspace/didChangeConfiguration", { settings: { yaml: settings } });

let failed = 0;
const open = (i, text) => {
  const uri = `file:///work${i}/weft.yaml`;
  const found = new Promise((resolve, reject) => {
    waiting.set(uri, resolve);
    setTimeout(() => reject(new Error(`no diagnostics of ${uri} within 60 s`)), 60_000).unref();
  });
  client.sendNotification("textDocument/didOpen", { textDocument: { uri, languageId: "yaml", version: 1, text } });
  return found;
};
for (const [i, [name, text, want]] of cases.entries()) {
  const found = await open(i, text);
  const lines = found.map((d) => d.range.start.line);
  if (lines.join() !== want.join()) {
    failed++;
    console.log(`${name}: diagnostics at lines ${lines}, want ${want}: ${found.map((d) => d.message).join("; ")}`);
  }
}
const small = cases.findIndex(([name]) => name === "a value that is too small");
const hover = await client.sendRequest("textDocument/hover", { textDocument: { uri: `file:///work${small}/weft.yaml` }, position: { line: 2, character: 4 } });
if (!JSON.stringify(hover).includes("most activities that run at the same time")) {
  failed++;
  console.log(`the hover of worker.activities is ${JSON.stringify(hover)}`);
}
console.log(`${cases.length + 1} checks, ${failed} failed`);
client.dispose();
server.kill();
process.exit(failed ? 1 : 0);
