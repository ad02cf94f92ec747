package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// This file tests the cases, visible to clients, of the framework that the blueprint dialect is based on, numbered as in the framework's
// tests and documents (Z, U). Where the framework has a bug, the test expects what Weft does instead. The cases about callbacks are
// in tests/e2e/callback_rows_test.go.
//
// These cases do not apply to Weft, which has neither runners nor a session store:
//   - U6 deletes sessions: Temporal's retention does that, and the HTTP API cannot.
//   - U13, U14 and U15 match runs with runners: a task queue dispatches each task to one worker, and
//     demands are reported as having no effect.
//   - U20 and U21 are about the text protocol between a runner and its executor's process.

// rowAgents are the files of agents for the rows, in addition to the examples.
var rowAgents = map[string]string{
	"agents/topical/agent.json": `{"name":"topical","description":"d","parameters_schema":{"type":"object","properties":{"topic":{"type":"string"}},"required":["topic"]}}`,
	"agents/strict/agent.json":  `{"name":"strict","description":"d","input_mode":"authoritative","parameters_schema":{"type":"object","properties":{"topic":{"type":"string"}},"required":["topic"]}}`,
	"agents/judge/agent.json": `{"name":"judge","description":"d","system_prompt":"Decide.","output_schema":{"type":"object","required":["verdict"],` +
		`"properties":{"verdict":{"type":"string"},"marks":{"type":"array","items":{"type":"number"}},"final":{"type":"boolean"}}}}`,
	"agents/open/agent.json":     openAgent,
	"agents/plain/agent.json":    `{"name":"plain","description":"d"}`,
	"agents/boss/agent.json":     `{"name":"boss","description":"d","system_prompt":"Lead."}`,
	"agents/boss/agent.mcp.json": `{"mcpServers":{"orchestrator":{"ref":"orchestrator"}}}`,
	"agents/placed/agent.json": `{"name":"placed","description":"d","parameters_schema":{"type":"object","properties":{"topic":{}}},"output_schema":{"type":"object","required":["a"],` +
		`"description":"About ${params.topic}, ${params.topic} for ${scope.tenant} in ${runtime.session_id}; ${params.none} in ${runner.dir}."}}`,
	"agents/program/agent.json":         `{"name":"program","description":"d","type":"procedural","script":"says"}`,
	"scripts/says/script.json":          `{"name":"says","description":"d","script_file":"says.sh"}`,
	"scripts/says/says.sh":              "#!/bin/sh\nprintf '%s' \"$2\"\nprintf '%s' \"${4-}\" >&2\nexit \"${6-0}\"\n",
	"mcp-servers/shelf/mcp-server.json": `{"id":"shelf","name":"Shelf","url":"http://127.0.0.1:9/mcp","config_schema":{"X-Tenant":{"type":"string","required":true}}}`,
	"agents/unset/agent.json":           `{"name":"unset","description":"d"}`,
	"agents/unset/agent.mcp.json":       `{"mcpServers":{"books":{"ref":"shelf"}}}`,
	"agents/unfilled/agent.json":        `{"name":"unfilled","description":"d"}`,
	"agents/unfilled/agent.mcp.json":    `{"mcpServers":{"books":{"ref":"shelf","config":{"X-Tenant":"${scope.tenant}"}}}}`,
	"agents/unknown-ref/agent.json":     `{"name":"unknown-ref","description":"d"}`,
	"agents/unknown-ref/agent.mcp.json": `{"mcpServers":{"books":{"ref":"nowhere"}}}`,
	"agents/own-command/agent.json":     `{"name":"own-command","description":"d"}`,
	"agents/own-command/agent.mcp.json": `{"mcpServers":{"books":{"command":"npx","args":["x"]}}}`,
	"agents/guarded/agent.json":         `{"name":"guarded","description":"d","hooks":{"on_run_start":{"type":"agent","agent_name":"guard"},"on_run_finish":{"type":"agent","agent_name":"audit"}}}`,
	"agents/guard/agent.json":           `{"name":"guard","description":"d"}`,
	"agents/audit/agent.json":           `{"name":"audit","description":"d"}`,
}

// TestEndToEndBlueprintRows runs the test of each row.
func TestEndToEndBlueprintRows(t *testing.T) {
	d := startServers(t, rowAgents)
	t.Parallel() // after the start: servers that start concurrently may take each other's ports
	for _, row := range slices.Concat(inputRows, outputRows, sessionRows, programRows, hookRows) {
		t.Run(row.name, func(t *testing.T) { row.test(&servers{t, d.temporal, d.urls, d.checker}) })
	}
}

// tableRow is the test of a row; the name starts with the row's number, if it has one.
type tableRow struct {
	name string
	test func(d *servers)
}

// startBody returns the body of a request that starts a session with a script's rules.
func startBody(agent, params, script string) string {
	body := `{"type": "start_session", "parameters": ` + params
	if agent != "" {
		body += `, "agent_name": "` + agent + `"`
	}
	raw, _ := json.Marshal("rules:\n" + script)
	return body + `, "model": "script", "script": ` + string(raw) + `}`
}

// startedRun is a started run.
type startedRun struct {
	d            *servers
	run, session string
}

// startRun starts a run of an agent with a script's rules.
func (d *servers) startRun(agent, params, script string) *startedRun {
	d.Helper()
	started := d.call(0, 201, "POST", "/runs", startBody(agent, params, script))
	return &startedRun{d, started["run_id"].(string), started["session_id"].(string)}
}

// answerRule returns the script rule of a model that always answers with text.
func answerRule(text string) string {
	raw, _ := json.Marshal(text)
	return "- {say: " + string(raw) + "}"
}

// startRejected sends a start that must be rejected, and returns the body of the response.
func (d *servers) startRejected(status int, agent, params string) map[string]any {
	d.Helper()
	return d.call(1, status, "POST", "/runs", startBody(agent, params, answerRule("x")))
}

// validationErrors returns the validation errors of a body, one per line.
func validationErrors(body map[string]any) string {
	var out []string
	list, _ := body["validation_errors"].([]any)
	for _, e := range list {
		e := e.(map[string]any)
		out = append(out, fmt.Sprint(e["path"], " ", e["message"], " ", e["schema_path"]))
	}
	return strings.Join(out, "\n")
}

// wait waits for the end of the run and returns it.
func (b *startedRun) wait() map[string]any {
	b.d.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		if out := b.d.call(1, 200, "GET", "/runs/"+b.run+"?wait=30s", ""); out["status"] != "running" {
			return out
		}
	}
	b.d.Fatalf("run %s did not end", b.run)
	return nil
}

// conversation returns the messages of the session's conversation, each with its role.
func (b *startedRun) conversation() []string {
	b.d.Helper()
	var page struct {
		Messages []struct {
			Thread  string
			Message struct{ Role, Text string }
		}
	}
	if err := json.Unmarshal(b.d.raw(0, 200, "GET", "/runs/"+b.run+"/transcript?limit=100", ""), &page); err != nil {
		b.d.Fatal(err)
	}
	var out []string
	for _, m := range page.Messages {
		if m.Thread == "conversation" {
			out = append(out, m.Message.Role+": "+m.Message.Text)
		}
	}
	return out
}

// modelCalls returns the number of model calls.
func (b *startedRun) modelCalls() int {
	b.d.Helper()
	var out struct{ Usage struct{ Calls int } }
	if err := json.Unmarshal(b.d.raw(0, 200, "GET", "/runs/"+b.run+"/status", ""), &out); err != nil {
		b.d.Fatal(err)
	}
	return out.Usage.Calls
}

// firstPrompt waits for the end of the run, and returns the first prompt of the session's agent.
func (b *startedRun) firstPrompt() string {
	b.d.Helper()
	b.wait()
	for _, m := range b.conversation() {
		if text, ok := strings.CutPrefix(m, "user: "); ok {
			return text
		}
	}
	b.d.Fatalf("no prompt in the conversation: %q", b.conversation())
	return ""
}

// waitIdle waits until the session is idle after at least that many turns.
func (b *startedRun) waitIdle(turns float64) {
	b.d.Helper()
	var now map[string]any
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if now = b.d.call(0, 200, "GET", "/sessions/"+b.session+"/status", ""); now["turns"].(float64) >= turns && now["status"] == "idle" {
			return
		}
	}
	b.d.Fatalf("session = %v, want %v turns; conversation = %q", now, turns, b.conversation())
}

// child returns the id of the session that the agent boss started with its n-th call.
func (b *startedRun) child(n int) string { return fmt.Sprintf("%s/boss#1:call_%d", b.run, n) }

// equal compares the JSON encodings of two values.
func (d *servers) equal(what string, got, want any) {
	d.Helper()
	g, _ := json.Marshal(got)
	w, _ := json.Marshal(want)
	if raw, ok := want.(json.RawMessage); ok {
		var v any
		_ = json.Unmarshal(raw, &v)
		w, _ = json.Marshal(v)
	}
	if string(g) != string(w) {
		d.Errorf("%s = %s, want %s", what, g, w)
	}
}

var inputRows = []tableRow{
	{"Z1 the schema of an agent in merged mode includes the prompt", func(d *servers) {
		schema := d.startRejected(400, "topical", `{"topic":"AI"}`)["parameters_schema"]
		d.equal("schema", schema, json.RawMessage(`{"type":"object","properties":{"topic":{"type":"string"},"prompt":{"type":"string","minLength":1}},"required":["topic","prompt"]}`))
	}},
	{"Z2 prompt and topic are accepted", func(d *servers) {
		if end := d.startRun("topical", `{"prompt":"hello","topic":"AI"}`, answerRule("fine")).wait(); end["status"] != "completed" {
			d.Errorf("run = %v, want completed", end)
		}
	}},
	{"Z3 without a prompt", func(d *servers) {
		d.equal("errors", validationErrors(d.startRejected(400, "topical", `{"topic":"AI"}`)), "$ 'prompt' is a required property required")
		d.equal("prompt in authoritative mode", d.startRun("strict", `{"topic":"AI"}`, answerRule("fine")).firstPrompt(), "<inputs>\ntopic: AI\n</inputs>")
	}},
	{"Z4 a prompt without inputs is not changed", func(d *servers) {
		d.equal("prompt", d.startRun("plain", `{"prompt":"Hello"}`, answerRule("fine")).firstPrompt(), "Hello")
	}},
	{"Z5 inputs precede the prompt", func(d *servers) {
		d.equal("prompt", d.startRun("parametric-agent", `{"prompt":"Write.","topic":"AI","format":"essay"}`, answerRule("fine")).firstPrompt(),
			"<inputs>\ntopic: AI\nformat: essay\n</inputs>\n\nWrite.")
	}},
	{"Z6 a value outside an enum", func(d *servers) {
		body := d.startRejected(400, "parametric-agent", `{"prompt":"x","topic":"AI","format":"invalid"}`)
		d.equal("errors", validationErrors(body), "$.format 'invalid' is not one of ['summary', 'bullet_points', 'essay'] properties/format/enum")
		d.equal("error", body["error"], "parameter_validation_failed")
		d.equal("agent", body["agent_name"], "parametric-agent")
	}},
	{"the same inputs through every API", wireStarts},
	{"U1 a start without an agent", func(d *servers) {
		for n, tc := range [][2]string{
			{`{}`, "$ 'prompt' is a required property required"},
			{`{"prompt":123}`, "$.prompt 123 is not of type 'string' properties/prompt/type"},
			{`{"prompt":""}`, "$.prompt '' should be non-empty properties/prompt/minLength"},
			{`{"prompt":"x","topic":"y"}`, "$ Additional properties are not allowed ('topic' was unexpected) additionalProperties"},
		} {
			session := fmt.Sprintf("nobody-%d", n)
			body := d.call(0, 400, "POST", "/runs", strings.Replace(startBody("", tc[0], answerRule("x")), "{", `{"session_id": "`+session+`", `, 1))
			d.equal("errors of "+tc[0], validationErrors(body), tc[1])
			d.equal("agent", body["agent_name"], "(no agent)")
			d.call(1, 404, "GET", "/sessions/"+session+"/status", "") // no run was created
		}
	}},
	{"U2 a start returns immediately", func(d *servers) {
		started := d.call(0, 201, "POST", "/runs", startBody("", `{"prompt":"x"}`, answerRule("fine")))
		for key, want := range map[string]string{"run_id": "^run_session-[a-z0-9]{8}$", "session_id": "^ses_session-[a-z0-9]{8}$", "status": "^pending$"} {
			if !regexp.MustCompile(want).MatchString(started[key].(string)) {
				d.Errorf("%s = %v, want %s", key, started[key], want)
			}
		}
		now := d.call(1, 200, "GET", "/sessions/"+started["session_id"].(string)+"/status", "")
		if !slices.Contains([]any{"pending", "running", "idle"}, now["status"]) {
			d.Errorf("session = %v", now)
		}
	}},
	{"U3 invalid bodies", func(d *servers) {
		d.call(0, 422, "POST", "/runs", `{"type": "start_session", "agent_name": "plain"}`)
		d.call(0, 422, "POST", "/runs", `{"type": "resume_session", "session_id": "x"}`)
		d.call(0, 422, "POST", "/runs", `{"type": "begin", "agent_name": "plain", "parameters": {"prompt": "x"}}`)
	}},
	{"U4 unknown sessions", func(d *servers) {
		d.equal("error", d.call(0, 400, "POST", "/runs", `{"type": "resume_session", "parameters": {"prompt": "x"}}`)["detail"], "session_id is required for resume_session")
		d.equal("error", d.call(1, 404, "POST", "/runs", resumeBody("ses_none", "x"))["detail"], "Session 'ses_none' not found")
	}},
	{"U5 no result yet", func(d *servers) {
		b := d.startRun("plain", `{"prompt":"x"}`, "- {delay: 10m, say: late}")
		d.equal("error", d.call(0, 400, "GET", "/sessions/"+b.session+"/result", "")["detail"], "Session not finished or idle")
		d.call(1, 404, "GET", "/sessions/ses_none/result", "")
		d.call(1, 202, "POST", "/sessions/"+b.session+"/stop", "")
		d.equal("run's status", b.wait()["status"], "cancelled")
	}},
	{"U7 the result and the events before it", func(d *servers) {
		b := d.startRun("plain", `{"prompt":"ping"}`, answerRule("pong"))
		end := d.result(0, b.run)
		d.equal("text", end["result_text"], "pong")
		d.equal("data", end["result_data"], nil)
		var kinds []string
		for _, e := range <-d.follow(1, b.run, "", nil) {
			kinds = append(kinds, e.kind)
		}
		if got := strings.Join(kinds, " "); !strings.HasSuffix(got, "node_started message model node_finished message result") {
			d.Errorf("events = %s", got)
		}
	}},
	{"U18 placeholders", func(d *servers) {
		body := strings.Replace(startBody("placed", `{"prompt":"x","topic":["a",1.0,true]}`, "- {turn: 1, say: x}\n- {json: {a: 1}}"), "{", `{"scope": {"tenant": "acme"}, `, 1)
		b := &startedRun{d, d.call(0, 201, "POST", "/runs", body)["run_id"].(string), ""}
		b.wait()
		// The prompt that reports the invalid answer contains the schema.
		want := `"description": "About ['a', 1.0, True], ['a', 1.0, True] for acme in ` + b.run + `; ${params.none} in ${runner.dir}."`
		if all := strings.Join(b.conversation(), "\n"); !strings.Contains(all, want) {
			d.Errorf("conversation = %s, want %s in it", all, want)
		}
		if raw := d.raw(0, 200, "GET", "/agents/placed", ""); !strings.Contains(string(raw), "About ${params.topic}, ") {
			d.Errorf("the agent was changed: %s", raw)
		}
	}},
	{"U19 MCP servers by reference", func(d *servers) {
		for agent, want := range map[string]string{
			"unset":       `{"error":"missing_required_mcp_config","missing_fields":["X-Tenant"],"server_name":"books"}`,
			"unfilled":    `{"error":"missing_required_mcp_config","missing_fields":["X-Tenant"],"server_name":"books"}`,
			"unknown-ref": `{"error":"mcp_ref_resolution_failed","ref":"nowhere","server_name":"books"}`,
		} {
			body := d.startRejected(400, agent, `{"prompt":"x"}`)
			delete(body, "message")
			d.equal("error of "+agent, body, json.RawMessage(want))
		}
		if p := d.startRejected(422, "own-command", `{"prompt":"x"}`); !strings.Contains(fmt.Sprint(p["detail"]), "command") {
			d.Errorf("response for a command as MCP server = %v", p)
		}
	}},
}

var outputRows = []tableRow{
	{"Z7 no JSON in two attempts", func(d *servers) {
		b := d.startRun("judge", `{"prompt":"x"}`, answerRule("I cannot say."))
		end := b.wait()
		d.equal("status", end["status"], "failed")
		d.equal("error", end["error"], json.RawMessage(`{"error":"OutputSchemaValidationError","message":"Output validation failed after 1 retry",`+
			`"errors":[{"path":"$","message":"No JSON output found but output_schema requires structured output"}]}`))
		d.equal("number of calls", b.modelCalls(), 2)
	}},
	{"Z8 valid JSON in the second attempt", func(d *servers) {
		b := d.startRun("judge", `{"prompt":"x"}`, "- {turn: 1, json: {verdict: 7}}\n- {turn: 2, json: {verdict: \"yes\"}}")
		b.wait()
		end := d.result(0, b.run)
		d.equal("data", end["result_data"], json.RawMessage(`{"verdict":"yes"}`))
		d.equal("text", end["result_text"], nil)
		d.equal("number of calls", b.modelCalls(), 2)
	}},
	{"Z9 invalid JSON in two attempts", func(d *servers) {
		b := d.startRun("judge", `{"prompt":"x"}`, "- {json: {verdict: 7}}")
		end := b.wait()
		d.equal("error", end["error"], json.RawMessage(`{"error":"OutputSchemaValidationError","message":"Output validation failed after 1 retry",`+
			`"errors":[{"path":"$.verdict","message":"7 is not of type 'string'"}]}`))
		d.equal("number of calls", b.modelCalls(), 2)
	}},
	{"Z10 without an output schema", func(d *servers) {
		b := d.startRun("plain", `{"prompt":"x"}`, `- {json: {verdict: "yes"}}`)
		b.wait()
		end := d.result(1, b.run)
		d.equal("text", end["result_text"], `{"verdict":"yes"}`)
		d.equal("data", end["result_data"], nil)
	}},
	{"Z12 two nodes and a join", func(d *servers) {
		d.equal("executions", d.graph(`{"nodes": [{"id": "statisticalAnalysis", "name": "A", "prompt": "a"}, {"id": "semanticAnalysis", "name": "B", "prompt": "b"},
 {"id": "synthesize", "name": "C", "prompt": "c", "defer": true, "is_exit_node": true}],
 "edges": [{"id": "1", "source": "START", "target": "statisticalAnalysis"}, {"id": "2", "source": "START", "target": "semanticAnalysis"},
 {"id": "3", "source": "statisticalAnalysis", "target": "synthesize"}, {"id": "4", "source": "semanticAnalysis", "target": "synthesize"}, {"id": "5", "source": "synthesize", "target": "END"}]}`,
			"- {node: synthesize, say: both}\n- {say: one}", "both"), "semanticAnalysis statisticalAnalysis synthesize")
	}},
	{"Z13 an edge whose condition is null", func(d *servers) {
		d.equal("executions", d.graph(`{"nodes": [{"id": "first", "name": "A", "prompt": "a"}, {"id": "always", "name": "B", "prompt": "b", "is_exit_node": true}, {"id": "never", "name": "C", "prompt": "c"}],
 "edges": [{"id": "1", "source": "START", "target": "first", "condition_prompt": null}, {"id": "2", "source": "first", "target": "always", "condition_prompt": null},
 {"id": "3", "source": "first", "target": "never", "condition_prompt": "Is it bad?"}, {"id": "4", "source": "always", "target": "END"}]}`,
			"- {kind: judge, yes: false}\n- {node: always, say: taken}\n- {say: one}", "taken"), "always first")
	}},
	{"U22 JSON in a code block", func(d *servers) {
		want := `{"verdict":"yes","marks":[1,2.5],"final":true}`
		b := d.startRun("judge", `{"prompt":"x"}`, answerRule("Here it is:\n```json\n"+want+"\n```\nThat is all."))
		b.wait()
		end := d.result(0, b.run)
		d.equal("data", end["result_data"], json.RawMessage(want))
		d.equal("text", end["result_text"], nil)
	}},
}

// graph runs a Continuum document, checks the text of its result, and returns the nodes that ran.
func (d *servers) graph(document, script, text string) string {
	d.Helper()
	body, err := json.Marshal(map[string]any{"flow": map[string]string{"name": "graph.json", "text": strings.Replace(document, "{", `{"name": "Graph", `, 1)},
		"input": "go", "model": "script", "script": "rules:\n" + script})
	if err != nil {
		d.Fatal(err)
	}
	b := &startedRun{d, d.call(0, 201, "POST", "/runs", string(body))["run_id"].(string), ""}
	b.wait()
	d.equal("text", d.result(1, b.run)["result_text"], text)
	var out struct{ Executions []struct{ Node string } }
	if err := json.Unmarshal(d.raw(1, 200, "GET", "/runs/"+b.run+"/status", ""), &out); err != nil {
		d.Fatal(err)
	}
	var ran []string
	for _, e := range out.Executions {
		ran = append(ran, e.Node)
	}
	slices.Sort(ran)
	return strings.Join(ran, " ")
}
