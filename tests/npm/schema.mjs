// Opens files in yaml-language-server with the published schemas of weft.yaml and of the dialects and compares its diagnostics with
// those planted.
import { spawn } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";
import * as rpc from "vscode-jsonrpc/node";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const href = (path) => pathToFileURL(here(path)).href;
// schemas are the published schemas by the kind of file.
const schemas = { settings: href("../../worker/config/schema.json") };
for (const dialect of ["continuum", "koog", "agentspec", "blueprint"]) schemas[dialect] = href(`../../specadapter/${dialect}/schema.json`);
// documented are the files that the documentation shows.
const documented = () =>
  ["README.md", "worker/README.md"].flatMap((name) =>
    [...readFileSync(here(`../../${name}`), "utf8").matchAll(/^```yaml\n(# weft\.yaml[^]*?)^```/gm)].map((m, i) => ["settings", `block ${i + 1} of ${name}`, m[1], []]));
// examples are the example flows of a dialect.
const examples = (dialect, pattern) =>
  readdirSync(here(`../examples/${dialect}`), { recursive: true }).filter((name) => pattern.test(name))
    .map((name) => [dialect, `example ${name}`, readFileSync(here(`../examples/${dialect}/${name}`), "utf8"), []]);
const cases = [
  ...documented(),
  ["settings", "every kind of value", `$schema: ${schemas.settings}\nmodel: ollama/qwen3\nworker: { activities: 7, log: json, stop_timeout: 30s, sticky_cache: 0 }\n` +
    "codec: { compress: true }\nserve: { origins: [a] }\nconnections:\n  web: { url: 'https://x.example/mcp', headers: { A: b } }\n", []],
  ["settings", "an unknown setting", "worker:\n  logs: text\n", [1]],
  ["settings", "a value that is too small", "worker:\n\n  activities: 0\n", [2]],
  ["settings", "an unknown word", "worker:\n  log: xml\n", [1]],
  ["settings", "a duration without a unit", "timeouts:\n  model: 90\n", [1]],
  ["settings", "an unknown setting of an entry", "connections:\n  web:\n    urll: x\n", [2]],
  ...examples("continuum", /\.json$/),
  ["continuum", "an unknown field of a node", "nodes:\n- {id: a, name: A, prompt: p,\n   promt: x}\nedges: []\n", [2]],
  ["continuum", "a bound that is no number", "nodes:\n- {id: a, name: A, prompt: p,\n   max_iterations: many}\nedges: []\n", [2]],
  ["continuum", "an edge without a target", "nodes: []\nedges:\n- {id: e, source: START}\n", [2]],
  ["continuum", "an unknown format", "nodes: []\nedges: []\nresponse_format:\n  type: 3\n", [3]],
  ["continuum", "its schema named", `$schema: ${schemas.continuum}\nnodes: []\nedges: []\n`, []],
  ...examples("koog", /\.json$/),
  ["koog", "an unknown type of agent", "id: a\nagents:\n- name: x\n  type: tsk\n", [3]],
  ["koog", "a field of another type of agent", "id: a\nagents:\n- name: x\n  type: transform\n  params:\n    task: x\n", [5]],
  ["koog", "a temperature that is too high", "id: a\nagents:\n- name: x\n  type: task\n  config:\n    temperature: 3\n", [5]],
  ["koog", "an unknown operation", "id: a\nagents: []\ntransitions:\n- from: a\n  to: b\n  condition:\n    variable: input.data\n    operation: like\n    value: 1\n", [7]],
  ["koog", "letter case of types", "id: a\nversion: '1'\nagents: [{name: x, type: TASK, params: {task: t}}]\ntools: [{name: t, type: Mcp, parameters: {transport: SSE, url: 'http://x'}}]\n", []],
  ...examples("agentspec", /\.yaml$/),
  ["agentspec", "an unknown component", "component_type: Agnt\nname: a\n", [0]],
  ["agentspec", "an unknown field", "component_type: ToolNode\nname: a\ntool: {$component_ref: t}\ntoool: x\n", [3]],
  ["agentspec", "a component of another type", "component_type: ToolNode\nname: a\ntool:\n  component_type: StartNode\n  name: s\n", [3]],
  ["agentspec", "a flag that is a text", "component_type: Agent\nname: a\nsystem_prompt: p\nllm_config: {$component_ref: m}\nhuman_in_the_loop: often\n", [4]],
  ["agentspec", "a missing field of a referenced component", "agentspec_version: 26.2.0\n$component_ref: t\n$referenced_components:\n  t:\n    component_type: OllamaConfig\n    name: m\n    url: http://localhost\n", [3]],
  ...examples("blueprint", /agent\.json$|^[^/]+\.json$/),
  ["blueprint", "an unknown type", "name: a\ndescription: d\ntype: auto\n", [2]],
  ["blueprint", "an unknown hook", "name: a\ndescription: d\nhooks:\n  on_start: {agent_name: b}\n", [3]],
  ["blueprint", "a timeout that is too long", "name: a\ndescription: d\nhooks:\n  on_run_start: {agent_name: b,\n    timeout_seconds: 90000}\n", [4]],
  ["blueprint", "no description", "name: a\n", [0]],
];

const server = spawn(process.execPath, [here("node_modules/yaml-language-server/bin/yaml-language-server"), "--stdio"], { stdio: ["pipe", "pipe", "inherit"] });
const client = rpc.createMessageConnection(new rpc.StreamMessageReader(server.stdout), new rpc.StreamMessageWriter(server.stdin));
const settings = { validate: true, hover: true, schemaStore: { enable: false }, schemas: Object.fromEntries(Object.entries(schemas).map(([kind, schema]) => [schema, `*.${kind}.yaml`])) };
const waiting = new Map();
client.onRequest("workspace/configuration", ({ items }) => items.map(({ section }) => (section === "yaml" ? settings : null)));
client.onRequest("client/registerCapability", () => null);
client.onNotification("textDocument/publishDiagnostics", ({ uri, diagnostics }) => waiting.get(uri)?.(diagnostics));
client.listen();
await client.sendRequest("initialize", { processId: process.pid, rootUri: null, capabilities: { workspace: { configuration: true } } });
client.sendNotification("initialized", {});
client.sendNotification("workspace/didChangeConfiguration", { settings: { yaml: settings } });

let failed = 0;
const address = (i) => `file:///flows/${i}.${cases[i][0]}.yaml`;
const open = (i, text) => {
  const uri = address(i);
  const found = new Promise((resolve, reject) => {
    waiting.set(uri, resolve);
    setTimeout(() => reject(new Error(`no diagnostics of ${uri} within 60 s`)), 60_000).unref();
  });
  client.sendNotification("textDocument/didOpen", { textDocument: { uri, languageId: "yaml", version: 1, text } });
  return found;
};
for (const [i, [kind, name, text, want]] of cases.entries()) {
  const found = await open(i, text);
  const lines = [...new Set(found.map((d) => d.range.start.line))];
  if (lines.join() !== want.join()) {
    failed++;
    console.log(`${kind}, ${name}: diagnostics at lines ${lines}, want ${want}: ${found.map((d) => d.message).join("; ")}`);
  }
}
const hovers = [
  ["a value that is too small", 2, 4, "maximum concurrent activities"],
  ["a bound that is no number", 2, 6, "Maximum number of tool calls per execution"],
  ["a temperature that is too high", 5, 6, "Sampling temperature"],
  ["a flag that is a text", 4, 4, "Whether the agent may ask a person"],
  ["a timeout that is too long", 4, 8, "Timeout of the hook"],
];
for (const [name, line, character, want] of hovers) {
  const uri = address(cases.findIndex((c) => c[1] === name));
  const hover = await client.sendRequest("textDocument/hover", { textDocument: { uri }, position: { line, character } });
  if (!JSON.stringify(hover).includes(want)) {
    failed++;
    console.log(`${name}: the hover is ${JSON.stringify(hover)}, want ${want}`);
  }
}
console.log(`${cases.length + hovers.length} checks, ${failed} failed`);
client.dispose();
server.kill();
process.exit(failed ? 1 : 0);
