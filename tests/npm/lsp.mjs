// Drives starter lsp with the client side of vscode-languageserver-protocol: diagnostics as a flow is typed, of the files beside
// it, and hover. The argument is the program.
import { spawn } from "node:child_process";
import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import * as lsp from "vscode-languageserver-protocol/node";

const folder = mkdtempSync(join(tmpdir(), "weft-lsp-"));
const server = spawn(process.argv[2], ["lsp"], { cwd: folder, stdio: ["pipe", "pipe", "inherit"] });
const ended = new Promise((resolve) => server.on("exit", resolve));
const client = lsp.createProtocolConnection(new lsp.StreamMessageReader(server.stdout), new lsp.StreamMessageWriter(server.stdin));
const found = new Map();
let heard = () => {};
client.onNotification(lsp.PublishDiagnosticsNotification.type, (params) => {
  found.set(params.uri, params);
  heard();
});
client.listen();

let checks = 0, failed = 0;
const check = (name, got, want) => {
  checks++;
  if (JSON.stringify(got) !== JSON.stringify(want)) {
    failed++;
    console.log(`${name}: ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
  }
};
// seen waits until the diagnostics of a document are those wanted: where each begins and ends, how severe it is, and its code.
const seen = async (name, uri, want, version) => {
  const brief = () => {
    const params = found.get(uri);
    return params && (version === undefined || params.version === version)
      ? params.diagnostics.map((d) => [d.range.start.line, d.range.start.character, d.range.end.character, d.severity, d.code]) : undefined;
  };
  const end = Date.now() + 20_000;
  while (JSON.stringify(brief()) !== JSON.stringify(want) && Date.now() < end) {
    await new Promise((resolve) => { heard = resolve; setTimeout(resolve, 1000).unref(); });
  }
  check(name, brief(), want);
};
const address = (name) => pathToFileURL(join(folder, name)).href;
const open = (uri, languageId, text) => client.sendNotification(lsp.DidOpenTextDocumentNotification.type, { textDocument: { uri, languageId, version: 1, text } });
const change = (uri, version, text) => client.sendNotification(lsp.DidChangeTextDocumentNotification.type, { textDocument: { uri, version }, contentChanges: [{ text }] });
const hover = async (uri, line, character) => {
  const got = await client.sendRequest(lsp.HoverRequest.type, { textDocument: { uri }, position: { line, character } });
  return got && [got.contents.value.split("\n")[0], got.range.start.line, got.range.start.character, got.range.end.character];
};

const begun = await client.sendRequest(lsp.InitializeRequest.type, { processId: process.pid, rootUri: pathToFileURL(folder).href, capabilities: {} });
check("its name", begun.serverInfo.name, "weft");
check("what it does", begun.capabilities, { hoverProvider: true, positionEncoding: "utf-16", textDocumentSync: { change: 1, openClose: true } });
client.sendNotification(lsp.InitializedNotification.type, {});

// A graph, typed: the place behind a character of two code units, a syntax error while typing, then nothing.
const flow = address("flow.json");
const graph = (key) => `{"name": "x", "generation_prompt": "p", "execution_plan": "", "response_format": {"type": 1, "payload": null},\n "nodes": [{"id": "a", "name": "😀", "prompt": "p", "is_exit_node": true, "${key}": 3}],\n "edges": [{"id": "1", "source": "START", "target": "a"}, {"id": "2", "source": "a", "target": "END"}]}\n`;
open(flow, "json", graph("max_iteration"));
await seen("an unknown field", flow, [[1, 74, 89, 2, "unknown-field"]], 1);
change(flow, 2, graph("max_iterations").slice(0, 160));
await seen("a text that is cut off", flow, [[1, 49, 49, 1, "syntax"]], 2);
change(flow, 3, graph("max_iterations"));
await seen("a flow without a mistake", flow, [], 3);
check("hover of a key", await hover(flow, 1, 55), ["**is_exit_node**: true: the node produces the flow's result, in the response format.", 1, 52, 66]);
check("hover of a value", await hover(flow, 2, 35), ["**source**: Id of the source node, or START.", 2, 23, 31]);
check("hover where nothing is", await hover(address("none.json"), 0, 0), null);

// YAML, with fields by the type of an agent.
const koog = address("flow.yaml");
open(koog, "yaml", "id: a\nversion: '1'\nagents:\n- name: x\n  type: task\n  params:\n    task: Say hello.\n- name: y\n  type: transform\n  params: {transformations: []}\n");
await seen("a flow in YAML", koog, [], 1);
check("hover by the type of an agent", await hover(koog, 6, 6), ["**task**: What the agent should do.", 6, 4, 8]);
check("hover of another type", await hover(koog, 9, 14), ["**transformations**: At most one selection. Default or []: the whole value.", 9, 11, 26]);

// Open Agent Spec: a field by the type of a component.
const spec = address("spec.yaml");
open(spec, "yaml", "agentspec_version: 26.2.0\ncomponent_type: Agent\nname: a\nsystem_prompt: p\nllm_config:\n  component_type: OllamaConfig\n  name: m\n  url: https://models.example/v1\n  model_id: m\n");
await seen("a component", spec, [[7, 7, 32, 2, "model-url"]], 1);
check("hover in a component inside another", await hover(spec, 8, 5), ["**model_id**: Id of the model.", 8, 2, 10]);

// A blueprint: what another file of its folder says, as it is typed.
mkdirSync(join(folder, "agents", "x"), { recursive: true });
mkdirSync(join(folder, "capabilities", "c"), { recursive: true });
const agent = { name: "x", description: "d", capabilities: ["c"] };
writeFileSync(join(folder, "agents", "x", "agent.json"), JSON.stringify(agent));
writeFileSync(join(folder, "agents", "x", "agent.system-prompt.md"), "Help.");
writeFileSync(join(folder, "capabilities", "c", "capability.json"), JSON.stringify({ name: "c", description: "d", type: "klingon" }));
writeFileSync(join(folder, "capabilities", "c", "capability.text.md"), "More.");
const main = address("agents/x/agent.json"), part = address("capabilities/c/capability.json");
open(main, "json", JSON.stringify(agent));
await seen("an agent", main, [], 1);
await seen("a file beside it", part, [[0, 37, 46, 1, "capability"]]);
open(part, "json", JSON.stringify({ name: "c", description: "d", type: "text" }));
await seen("that file as it is typed", part, [], 1);

// An agent whose folder is not saved.
const unsaved = address("new/agents/y/agent.json");
open(unsaved, "json", `{"name": "y", "description": 7}`);
await seen("an agent that is not saved", unsaved, [[0, 0, 1, 2, "no-prompt"], [0, 29, 30, 1, "wrong-type"]], 1);

// What is no flow has no diagnostics; a closed document's go away.
const other = address("package.json");
open(other, "json", `{"private": true}`);
await seen("a file that is no flow", other, [], 1);
change(flow, 4, graph("max_iteration"));
await seen("before it is closed", flow, [[1, 74, 89, 2, "unknown-field"]], 4);
client.sendNotification(lsp.DidCloseTextDocumentNotification.type, { textDocument: { uri: flow } });
await seen("after it is closed", flow, []);
check("an unknown method", await client.sendRequest("textDocument/definition", {}).catch((err) => err.code), -32601);

await client.sendRequest(lsp.ShutdownRequest.type);
client.sendNotification(lsp.ExitNotification.type);
check("its exit code", await ended, 0);
console.log(`${checks} checks, ${failed} failed`);
rmSync(folder, { recursive: true });
process.exit(failed ? 1 : 0);
