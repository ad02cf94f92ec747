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

// The rows of the blueprint dialect's conformance table that clients see, as its framework's own
// tests and documents state them (Z, U), each on a real Temporal behind two doors. Where the
// framework's behaviour is a fault, the row says what happens here instead. Its rows of callbacks
// are in tests/e2e/callback_rows_test.go.
//
// These rows say nothing of an engine without runners of its own:
//   - U6 deletes sessions: Temporal's retention does, and the door has no such call.
//   - U13, U14 and U15 match runs with runners: a task queue gives each task to one worker, and
//     demands are reported as having no effect.
//   - U20 and U21 are the text protocol between a runner and its executor's process.

// rowAgents are the agents of the rows, beside the examples.
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

// TestEndToEndBlueprintRows has a test for each row.
func TestEndToEndBlueprintRows(t *testing.T) {
	d := openDoors(t, rowAgents)
	t.Parallel() // after the start: servers that start at once may take each other's ports
	for _, row := range slices.Concat(inputRows, outputRows, sessionRows, programRows, hookRows) {
		t.Run(row.name, func(t *testing.T) { row.test(&doors{t, d.temporal, d.urls, d.checker}) })
	}
}

// tableRow is a row of the table, by its number.
type tableRow struct {
	name string
	test func(d *doors)
}

// starting is the body of a start.
func starting(agent, params, script string) string {
	body := `{"type": "start_session", "parameters": ` + params
	if agent != "" {
		body += `, "agent_name": "` + agent + `"`
	}
	raw, _ := json.Marshal("rules:\n" + script)
	return body + `, "model": "script", "script": ` + string(raw) + `}`
}

// begun is a run that is started, and what is known of its end.
type begun struct {
	d            *doors
	run, session string
}

// begin starts an agent with a script's rules.
func (d *doors) begin(agent, params, script string) *begun {
	d.Helper()
	made := d.call(0, 201, "POST", "/runs", starting(agent, params, script))
	return &begun{d, made["run_id"].(string), made["session_id"].(string)}
}

// says is the rule of a model that always says the same.
func says(text string) string {
	raw, _ := json.Marshal(text)
	return "- {say: " + string(raw) + "}"
}

// refused starts an agent that cannot be started so, and gives the error's body.
func (d *doors) refused(status int, agent, params string) map[string]any {
	d.Helper()
	return d.call(1, status, "POST", "/runs", starting(agent, params, says("x")))
}

// places are the errors of a body, a line each.
func places(body map[string]any) string {
	var out []string
	list, _ := body["validation_errors"].([]any)
	for _, e := range list {
		e := e.(map[string]any)
		out = append(out, fmt.Sprint(e["path"], " ", e["message"], " ", e["schema_path"]))
	}
	return strings.Join(out, "\n")
}

// ends waits for the run's end.
func (b *begun) ends() map[string]any {
	b.d.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		if out := b.d.call(1, 200, "GET", "/runs/"+b.run+"?wait=30s", ""); out["status"] != "running" {
			return out
		}
	}
	b.d.Fatalf("the run %s did not end", b.run)
	return nil
}

// said are the messages of the session's conversation, each with its role.
func (b *begun) said() []string {
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

// calls is how often a model was asked.
func (b *begun) calls() int {
	b.d.Helper()
	var out struct{ Usage struct{ Calls int } }
	if err := json.Unmarshal(b.d.raw(0, 200, "GET", "/runs/"+b.run+"/status", ""), &out); err != nil {
		b.d.Fatal(err)
	}
	return out.Usage.Calls
}

// given is the prompt that the session's agent was given first.
func (b *begun) given() string {
	b.d.Helper()
	b.ends()
	for _, m := range b.said() {
		if text, ok := strings.CutPrefix(m, "user: "); ok {
			return text
		}
	}
	b.d.Fatalf("nobody was asked: %q", b.said())
	return ""
}

// idle waits until a session has had so many turns and is idle.
func (b *begun) idle(turns float64) {
	b.d.Helper()
	var now map[string]any
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if now = b.d.call(0, 200, "GET", "/sessions/"+b.session+"/status", ""); now["turns"].(float64) >= turns && now["status"] == "idle" {
			return
		}
	}
	b.d.Fatalf("the session is %v, want %v turns; it has %q", now, turns, b.said())
}

// child is a session that the agent boss started with its n-th call.
func (b *begun) child(n int) string { return fmt.Sprintf("%s/boss#1:call_%d", b.run, n) }

func (d *doors) same(what string, got, want any) {
	d.Helper()
	g, _ := json.Marshal(got)
	w, _ := json.Marshal(want)
	if raw, ok := want.(json.RawMessage); ok {
		var v any
		_ = json.Unmarshal(raw, &v)
		w, _ = json.Marshal(v)
	}
	if string(g) != string(w) {
		d.Errorf("%s is %s, want %s", what, g, w)
	}
}

var inputRows = []tableRow{
	{"Z1 merging adds the prompt", func(d *doors) {
		schema := d.refused(400, "topical", `{"topic":"AI"}`)["parameters_schema"]
		d.same("the schema", schema, json.RawMessage(`{"type":"object","properties":{"topic":{"type":"string"},"prompt":{"type":"string","minLength":1}},"required":["topic","prompt"]}`))
	}},
	{"Z2 prompt and topic are accepted", func(d *doors) {
		if end := d.begin("topical", `{"prompt":"hello","topic":"AI"}`, says("fine")).ends(); end["status"] != "completed" {
			d.Errorf("the run is %v", end)
		}
	}},
	{"Z3 without a prompt", func(d *doors) {
		d.same("the errors", places(d.refused(400, "topical", `{"topic":"AI"}`)), "$ 'prompt' is a required property required")
		d.same("the agent in mode authoritative is given", d.begin("strict", `{"topic":"AI"}`, says("fine")).given(), "<inputs>\ntopic: AI\n</inputs>")
	}},
	{"Z4 a prompt alone is given as it is", func(d *doors) {
		d.same("the agent is given", d.begin("plain", `{"prompt":"Hello"}`, says("fine")).given(), "Hello")
	}},
	{"Z5 inputs stand before the prompt", func(d *doors) {
		d.same("the agent is given", d.begin("parametric-agent", `{"prompt":"Write.","topic":"AI","format":"essay"}`, says("fine")).given(),
			"<inputs>\ntopic: AI\nformat: essay\n</inputs>\n\nWrite.")
	}},
	{"Z6 a value outside an enum", func(d *doors) {
		body := d.refused(400, "parametric-agent", `{"prompt":"x","topic":"AI","format":"invalid"}`)
		d.same("the errors", places(body), "$.format 'invalid' is not one of ['summary', 'bullet_points', 'essay'] properties/format/enum")
		d.same("the error", body["error"], "parameter_validation_failed")
		d.same("the agent", body["agent_name"], "parametric-agent")
	}},
	{"the same inputs by every way in", wireStarts},
	{"U1 a start without an agent", func(d *doors) {
		for n, tc := range [][2]string{
			{`{}`, "$ 'prompt' is a required property required"},
			{`{"prompt":123}`, "$.prompt 123 is not of type 'string' properties/prompt/type"},
			{`{"prompt":""}`, "$.prompt '' should be non-empty properties/prompt/minLength"},
			{`{"prompt":"x","topic":"y"}`, "$ Additional properties are not allowed ('topic' was unexpected) additionalProperties"},
		} {
			session := fmt.Sprintf("nobody-%d", n)
			body := d.call(0, 400, "POST", "/runs", strings.Replace(starting("", tc[0], says("x")), "{", `{"session_id": "`+session+`", `, 1))
			d.same("the errors of "+tc[0], places(body), tc[1])
			d.same("the agent", body["agent_name"], "(no agent)")
			d.call(1, 404, "GET", "/sessions/"+session+"/status", "") // no run was created
		}
	}},
	{"U2 a start is answered at once", func(d *doors) {
		made := d.call(0, 201, "POST", "/runs", starting("", `{"prompt":"x"}`, says("fine")))
		for key, want := range map[string]string{"run_id": "^run_session-[a-z0-9]{8}$", "session_id": "^ses_session-[a-z0-9]{8}$", "status": "^pending$"} {
			if !regexp.MustCompile(want).MatchString(made[key].(string)) {
				d.Errorf("%s is %v, want %s", key, made[key], want)
			}
		}
		now := d.call(1, 200, "GET", "/sessions/"+made["session_id"].(string)+"/status", "")
		if !slices.Contains([]any{"pending", "running", "idle"}, now["status"]) {
			d.Errorf("the session is %v", now)
		}
	}},
	{"U3 a body that is none", func(d *doors) {
		d.call(0, 422, "POST", "/runs", `{"type": "start_session", "agent_name": "plain"}`)
		d.call(0, 422, "POST", "/runs", `{"type": "resume_session", "session_id": "x"}`)
		d.call(0, 422, "POST", "/runs", `{"type": "begin", "agent_name": "plain", "parameters": {"prompt": "x"}}`)
	}},
	{"U4 a session that is not there", func(d *doors) {
		d.same("the error", d.call(0, 400, "POST", "/runs", `{"type": "resume_session", "parameters": {"prompt": "x"}}`)["detail"], "session_id is required for resume_session")
		d.same("the error", d.call(1, 404, "POST", "/runs", resumption("ses_none", "x"))["detail"], "Session 'ses_none' not found")
	}},
	{"U5 a result that is not there yet", func(d *doors) {
		b := d.begin("plain", `{"prompt":"x"}`, "- {delay: 10m, say: late}")
		d.same("the error", d.call(0, 400, "GET", "/sessions/"+b.session+"/result", "")["detail"], "Session not finished or idle")
		d.call(1, 404, "GET", "/sessions/ses_none/result", "")
		d.call(1, 202, "POST", "/sessions/"+b.session+"/stop", "")
		d.same("the run's status", b.ends()["status"], "cancelled")
	}},
	{"U7 an answer and the events before it", func(d *doors) {
		b := d.begin("plain", `{"prompt":"ping"}`, says("pong"))
		end := d.result(0, b.run)
		d.same("the text", end["result_text"], "pong")
		d.same("the data", end["result_data"], nil)
		var kinds []string
		for _, e := range <-d.follow(1, b.run, "", nil) {
			kinds = append(kinds, e.kind)
		}
		if got := strings.Join(kinds, " "); !strings.HasSuffix(got, "node_started message model node_finished message result") {
			d.Errorf("the events are %s", got)
		}
	}},
	{"U18 placeholders", func(d *doors) {
		body := strings.Replace(starting("placed", `{"prompt":"x","topic":["a",1.0,true]}`, "- {turn: 1, say: x}\n- {json: {a: 1}}"), "{", `{"scope": {"tenant": "acme"}, `, 1)
		b := &begun{d, d.call(0, 201, "POST", "/runs", body)["run_id"].(string), ""}
		b.ends()
		// The schema goes back to the model with what is wrong.
		want := `"description": "About ['a', 1.0, True], ['a', 1.0, True] for acme in ` + b.run + `; ${params.none} in ${runner.dir}."`
		if all := strings.Join(b.said(), "\n"); !strings.Contains(all, want) {
			d.Errorf("the conversation is %s, want %s in it", all, want)
		}
		if raw := d.raw(0, 200, "GET", "/agents/placed", ""); !strings.Contains(string(raw), "About ${params.topic}, ") {
			d.Errorf("the agent itself has been changed: %s", raw)
		}
	}},
	{"U19 MCP servers by reference", func(d *doors) {
		for agent, want := range map[string]string{
			"unset":       `{"error":"missing_required_mcp_config","missing_fields":["X-Tenant"],"server_name":"books"}`,
			"unfilled":    `{"error":"missing_required_mcp_config","missing_fields":["X-Tenant"],"server_name":"books"}`,
			"unknown-ref": `{"error":"mcp_ref_resolution_failed","ref":"nowhere","server_name":"books"}`,
		} {
			body := d.refused(400, agent, `{"prompt":"x"}`)
			delete(body, "message")
			d.same("the error of "+agent, body, json.RawMessage(want))
		}
		if p := d.refused(422, "own-command", `{"prompt":"x"}`); !strings.Contains(fmt.Sprint(p["detail"]), "command") {
			d.Errorf("a server that is a command is refused with %v", p)
		}
	}},
}

var outputRows = []tableRow{
	{"Z7 no JSON twice", func(d *doors) {
		b := d.begin("judge", `{"prompt":"x"}`, says("I cannot say."))
		end := b.ends()
		d.same("the status", end["status"], "failed")
		d.same("the error", end["error"], json.RawMessage(`{"error":"OutputSchemaValidationError","message":"Output validation failed after 1 retry",`+
			`"errors":[{"path":"$","message":"No JSON output found but output_schema requires structured output"}]}`))
		d.same("the number of calls", b.calls(), 2)
	}},
	{"Z8 valid at the second attempt", func(d *doors) {
		b := d.begin("judge", `{"prompt":"x"}`, "- {turn: 1, json: {verdict: 7}}\n- {turn: 2, json: {verdict: \"yes\"}}")
		b.ends()
		end := d.result(0, b.run)
		d.same("the data", end["result_data"], json.RawMessage(`{"verdict":"yes"}`))
		d.same("the text", end["result_text"], nil)
		d.same("the number of calls", b.calls(), 2)
	}},
	{"Z9 invalid twice", func(d *doors) {
		b := d.begin("judge", `{"prompt":"x"}`, "- {json: {verdict: 7}}")
		end := b.ends()
		d.same("the error", end["error"], json.RawMessage(`{"error":"OutputSchemaValidationError","message":"Output validation failed after 1 retry",`+
			`"errors":[{"path":"$.verdict","message":"7 is not of type 'string'"}]}`))
		d.same("the number of calls", b.calls(), 2)
	}},
	{"Z10 without an output schema", func(d *doors) {
		b := d.begin("plain", `{"prompt":"x"}`, `- {json: {verdict: "yes"}}`)
		b.ends()
		end := d.result(1, b.run)
		d.same("the text", end["result_text"], `{"verdict":"yes"}`)
		d.same("the data", end["result_data"], nil)
	}},
	{"Z12 two nodes and their join", func(d *doors) {
		d.same("the executions", d.graph(`{"nodes": [{"id": "statisticalAnalysis", "name": "A", "prompt": "a"}, {"id": "semanticAnalysis", "name": "B", "prompt": "b"},
 {"id": "synthesize", "name": "C", "prompt": "c", "defer": true, "is_exit_node": true}],
 "edges": [{"id": "1", "source": "START", "target": "statisticalAnalysis"}, {"id": "2", "source": "START", "target": "semanticAnalysis"},
 {"id": "3", "source": "statisticalAnalysis", "target": "synthesize"}, {"id": "4", "source": "semanticAnalysis", "target": "synthesize"}, {"id": "5", "source": "synthesize", "target": "END"}]}`,
			"- {node: synthesize, say: both}\n- {say: one}", "both"), "semanticAnalysis statisticalAnalysis synthesize")
	}},
	{"Z13 an edge whose condition is null", func(d *doors) {
		d.same("the executions", d.graph(`{"nodes": [{"id": "first", "name": "A", "prompt": "a"}, {"id": "always", "name": "B", "prompt": "b", "is_exit_node": true}, {"id": "never", "name": "C", "prompt": "c"}],
 "edges": [{"id": "1", "source": "START", "target": "first", "condition_prompt": null}, {"id": "2", "source": "first", "target": "always", "condition_prompt": null},
 {"id": "3", "source": "first", "target": "never", "condition_prompt": "Is it bad?"}, {"id": "4", "source": "always", "target": "END"}]}`,
			"- {kind: judge, yes: false}\n- {node: always, say: taken}\n- {say: one}", "taken"), "always first")
	}},
	{"U22 an answer in a fence", func(d *doors) {
		want := `{"verdict":"yes","marks":[1,2.5],"final":true}`
		b := d.begin("judge", `{"prompt":"x"}`, says("Here it is:\n```json\n"+want+"\n```\nThat is all."))
		b.ends()
		end := d.result(0, b.run)
		d.same("the data", end["result_data"], json.RawMessage(want))
		d.same("the text", end["result_text"], nil)
	}},
}

// graph runs a Continuum document to its text and gives the nodes that ran.
func (d *doors) graph(document, script, text string) string {
	d.Helper()
	body, err := json.Marshal(map[string]any{"flow": map[string]string{"name": "graph.json", "text": strings.Replace(document, "{", `{"name": "Graph", `, 1)},
		"input": "go", "model": "script", "script": "rules:\n" + script})
	if err != nil {
		d.Fatal(err)
	}
	b := &begun{d, d.call(0, 201, "POST", "/runs", string(body))["run_id"].(string), ""}
	b.ends()
	d.same("the text", d.result(1, b.run)["result_text"], text)
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
