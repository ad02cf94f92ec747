// The client that MCP's conformance suite tests: a flow whose scripted model calls the scenario's tools, run with starter -dev against the
// server whose URL is the last argument. A page to log in at is opened as a browser would.
import { spawn } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const url = process.argv.at(-1);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}");
const bin = process.env.WEFT_BIN;
const calls = context.toolCalls ?? {
  tools_call: [{ name: "add_numbers", arguments: { a: 5, b: 3 } }],
  "sse-retry": [{ name: "test_reconnection", arguments: {} }],
  "elicitation-sep1034-client-defaults": [{ name: "test_client_elicitation_defaults", arguments: {} }],
  "http-standard-headers": [{ name: "test_headers", arguments: {} }],
  "http-invalid-tool-headers": [{ name: "valid_tool", arguments: { region: "us-west1" } }],
  "json-schema-ref-no-deref": [{ name: "lookup_user", arguments: { id: "1" } }],
  "sep-2322-client-request-state": ["test_mrtr_echo_state", "test_mrtr_unrelated", "test_mrtr_no_state", "test_mrtr_no_result_type"]
    .map((name) => ({ name, arguments: {} })),
}[scenario] ?? [{ name: "test-tool", arguments: {} }];

const dir = mkdtempSync(join(tmpdir(), "weft-mcp-"));
const file = (name, text) => (writeFileSync(join(dir, name), text), join(dir, name));
const connection = { url };
if (scenario.startsWith("elicitation")) connection.session_stream = true; // these servers ask there
if (scenario.startsWith("auth/")) {
  connection.oauth = scenario.includes("client-credentials") ? "client" : "login";
  connection.oauth_client_url = "https://conformance-test.local/client-metadata.json";
  connection.oauth_client_id = context.client_id;
  if (context.client_secret) connection.oauth_client_secret = context.client_secret;
  if (context.private_key_pem) connection.oauth_key_file = file("key.pem", context.private_key_pem);
}
file("weft.yaml", JSON.stringify({ connections: { server: connection }, task_queue: "q" + process.pid }));
file("flow.json", JSON.stringify({
  name: "Conformance",
  nodes: [{ id: "ask", name: "Ask", prompt: "Call the tools.", is_exit_node: true, max_iterations: 9,
    tools: calls.map((c) => c.name).filter((n, i, all) => all.indexOf(n) === i).map((name) => ({ name, description: "a tool", data_connection_id: "server" })) }],
  edges: [{ id: "in", source: "START", target: "ask" }, { id: "out", source: "ask", target: "END" }],
}));
const rules = calls.map((c, i) => ({ turn: i + 1, call: [{ tool: c.name, arguments: c.arguments }] }));
file("flow.script", JSON.stringify({ rules: [...rules, { turn: calls.length + 1, say: "Done." }] }));

const env = { ...process.env, XDG_STATE_HOME: join(dir, "state"), HOME: dir, WEFT_STORE_DIR: join(dir, "store"), WEFT_FLOWS_SCRIPTS: "true",
  WEFT_SEAL_KEYS: "test:YSBrZXkgb2YgdGhpcnR5LXR3byBieXRlcywgdGVzdHM=" };

// run runs a program, shows what it says, and gives its exit code.
function run(program, args, heard = () => {}) {
  const child = spawn(join(bin, program), args, { cwd: dir, env, stdio: ["ignore", "pipe", "pipe"] });
  process.on("exit", () => child.kill());
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (data) => (process.stderr.write(data), heard(String(data), child)));
  }
  return new Promise((resolve) => child.on("close", resolve));
}

let opened = false;
const login = () => (opened = false, run("worker", ["login", "server"], async (text) => {
  const page = text.match(/^https?:\S+$/m)?.[0];
  if (!page || opened) return;
  opened = true;
  await fetch(page).catch((e) => console.error(String(e)));
}));

setTimeout(() => process.exit(1), 40_000).unref();
process.on("SIGTERM", () => process.exit(1));

// What a server asks before it answers is answered as a person would.
const answered = new Set();
function answer(text) {
  for (const [, id, request] of text.matchAll(/starter (?:-dev )?tool-result (\S+) '?([^' ]+)'? -result JSON/g)) {
    if (answered.has(request)) continue;
    answered.add(request);
    run("starter", ["tool-result", id, request, "-result", scenario.startsWith("elicitation-") ? "{}" : '{"confirmed":true}']);
  }
}

// A run that waits for a login goes on with it; one that ended for want of it is started again.
let failed = connection.oauth === "login" && (await login()) !== 0;
for (let attempt = 1; !failed; attempt++) {
  const id = `run${process.pid}-${attempt}`;
  let again, retried;
  const code = await run("starter", ["-dev", "-flow", "flow.json", "-input", "go", "-model", "script", "-script", "flow.script", "-id", id], (text, child) => {
    answer(text);
    if (!/worker login server/.test(text) || (again && !retried)) return;
    if (attempt > 1 || retried) return child.kill("SIGTERM");
    again = login().then(() => run("starter", ["retry", id])).then(() => (retried = true));
  });
  await again;
  failed = code !== 0 && (!again || attempt > 1);
  if (code === 0) break;
}
process.exit(failed ? 1 : 0);
