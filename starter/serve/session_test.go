package serve

import (
	"encoding/json"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// TestResumeAsDocumented resumes a session with the parameters of its start, if it was started so: the server's own profile is
// that of later starts.
func TestResumeAsDocumented(t *testing.T) {
	b := newBench(t)
	made := b.call("POST", "/runs", `{"type": "start_session", "parameters": {"prompt": "one"}}`).is(201, "pending")
	id, session := made.field("run_id").(string), made.field("session_id").(string)
	b.runs.byID[id].IsTurn = true
	b.runs.flow = &plan.Flow{Name: "session", Inputs: &plan.Inputs{Mode: plan.InputsMerged, Style: plan.StyleDocumented,
		Schema: json.RawMessage(`{"type":"object","required":["topic"],"properties":{"topic":{"type":"string"},"n":{"type":["null","object"],"properties":{"a":{"enum":[1]}}}}}`)}}
	resume := `{"type": "resume_session", "session_id": "` + session + `", "parameters": `
	b.call("POST", "/runs", resume+`{"prompt": "two"}}`).is(400, `{"path":"$.topic","message":"'topic' is a required property","schema_path":"required"}`)
	b.call("POST", "/runs", resume+`{"prompt": "two", "topic": "AI", "n": {"a": 2}}}`).is(400, `"schema_path":"properties.n.properties.a.enum"`)
	b.call("POST", "/runs", resume+`{"prompt": "two", "topic": "AI", "n": null}}`).is(201, session)
	if text := b.runs.answers[0].(contract.PromptInput).Prompt; text != "<inputs>\ntopic: AI\nn: None\n</inputs>\n\ntwo" {
		t.Errorf("the prompt is %q", text)
	}
	b = newBench(t, func(o *Options) { o.Settings.Profile = "documented" })
	made = b.call("POST", "/runs", `{"type": "start_session", "parameters": {"prompt": "one"}}`).is(201, "pending")
	id, session = made.field("run_id").(string), made.field("session_id").(string)
	b.runs.byID[id].IsTurn = true
	b.runs.flow = &plan.Flow{Name: "session", Inputs: &plan.Inputs{Mode: plan.InputsMerged, Schema: json.RawMessage(`{"type":"object","required":["topic"]}`)}}
	resume = `{"type": "resume_session", "session_id": "` + session + `", "parameters": `
	b.call("POST", "/runs", resume+`{"prompt": "two", "topic": "AI"}}`).is(400, `('topic' was unexpected)`)
	b.call("POST", "/runs", resume+`{"prompt": "two"}}`).is(201, session)
}

func TestSessions(t *testing.T) {
	b := newBench(t)
	made := b.call("POST", "/runs", `{"type": "start_session", "parameters": {"prompt": "one"}}`).is(201, "pending")
	id, session := made.field("run_id").(string), made.field("session_id").(string)
	if in := b.runs.inputs[id]; !in.Session {
		t.Error("the run is not a session")
	}
	resume := `{"type": "resume_session", "session_id": "` + session + `", "parameters": `
	b.call("POST", "/runs", resume+`{"prompt": "two"}}`).is(400, "not-resumable")
	b.runs.byID[id].IsTurn = true
	b.call("GET", "/sessions/"+session+"/result", "").is(400, "Session not finished or idle")
	text, begun := "first", noon
	b.runs.turns = []contract.Turn{{N: 1, Status: contract.TurnCompleted, ResultText: &text, StartedAt: &begun, EndedAt: &begun}}
	b.call("GET", "/sessions/"+session+"/status", "").is(200, `"status":"idle"`)
	b.call("GET", "/sessions/"+session+"/result", "").is(200, `"result_text":"first","result_data":null`)

	next := b.call("POST", "/runs", resume+`{"prompt": "two"}}`).is(201, session)
	if workflow, turn := SplitTurn(next.field("run_id").(string)); workflow != id || turn != b.runs.answers[0].(contract.PromptInput).ID {
		t.Errorf("the turn is %s of %s", turn, workflow)
	}
	for body, part := range map[string]string{
		`{}`:                             `'prompt' is a required property`,
		`{"prompt": ""}`:                 `"path":"$.prompt"`,
		`{"prompt": 1}`:                  `1 is not of type 'string'`,
		`{"prompt": "x", "topic": "AI"}`: `('topic' was unexpected)`,
	} {
		b.call("POST", "/runs", resume+body+"}").is(400, "parameter_validation_failed").is(400, part)
	}
	b.call("POST", "/runs", `{"type": "resume_session", "session_id": "x", "parameters": null}`).is(422, "the body has no parameters")
	b.call("POST", "/runs", `{"type": "start_session", "parameters": null}`).is(422, "body:1:41: the body has no parameters")
	b.call("POST", "/runs", `{"type": "start_session", "session_id": "`+session+`", "parameters": {"prompt": "x"}}`).is(409, "continue with resume_session")
	b.runs.add(TurnID(id, "later"))
	b.call("GET", "/runs/"+TurnID(id, "later"), "").is(200, `"session_id":"`+session+`"`)
	again := []string{resume + `{"prompt": "x"}}`, "Idempotency-Key: k"}
	if one, two := b.call("POST", "/runs", again[0], again[1]), b.call("POST", "/runs", again[0], again[1]); one.field("run_id") != two.field("run_id") {
		t.Error("the key makes two turns")
	}
	b.runs.refuses = NewProblem(AlreadyAnswered, "", "another prompt has the id")
	b.call("POST", "/runs", resume+`{"prompt": "y"}}`, "Idempotency-Key: k").is(422, "key-reused")
	b.runs.refuses = nil
	b.runs.turns = append(b.runs.turns, contract.Turn{N: 2, ID: b.runs.answers[len(b.runs.answers)-1].(contract.PromptInput).ID, Status: contract.TurnRunning, StartedAt: &begun})
	if again := b.call("POST", "/runs", resume+`{"prompt": "x"}}`, "Idempotency-Key: k").is(201, session); again.Header().Get("Idempotent-Replayed") != "true" {
		t.Error("the repetition is not marked")
	}
	b.call("POST", "/runs", resume+`{"prompt": "x"}}`, "Idempotency-Key: "+strings.Repeat("k", 201)).is(400, "at most 200 bytes")
	b.call("POST", "/runs", resume+`{"prompt": "x"}, "agent_name": "session", "execution_mode": "async_poll", "project_dir": ""}`).is(201, session)
	for field, part := range map[string]string{
		`"agent_name": "other"`:              `belongs to the agent \"session\"`,
		`"execution_mode": "async_callback"`: "callbacks are not supported",
		`"execution_mode": "soon"`:           "expected sync or async_poll",
		`"project_dir": "/srv"`:              "project_dir has no effect here",
		`"additional_demands": {"a": 1}`:     "any worker may execute a run",
		`"model": "openai/x"`:                "the session has its model",
		`"scope": {"a": "b"}`:                "the session has its scope",
	} {
		b.call("POST", "/runs", resume+`{"prompt": "x"}, `+field+"}").is(422, part)
	}
	b.runs.turns = append(b.runs.turns, contract.Turn{N: 2, Status: contract.TurnRunning, StartedAt: &begun})
	b.call("GET", "/sessions/"+session+"/status", "").is(200, `"status":"running"`)
	b.call("GET", "/sessions/"+session+"/result", "").is(400, "Session not finished or idle")
	b.runs.turns = append(b.runs.turns[:1], contract.Turn{ID: "queued", Status: contract.TurnQueued})
	b.call("GET", "/sessions/"+session+"/status", "").is(200, `"turns":1`)
	b.call("GET", "/sessions/"+session+"/result", "").is(200, `"result_text":"first"`)
	b.call("POST", "/sessions/"+session+"/stop", "").is(202, "stopping")
	if strings.Join(b.runs.cancelled, " ") != id {
		t.Errorf("stopped: %v", b.runs.cancelled)
	}
	for _, call := range [][2]string{{"GET", "/sessions/ses_none/status"}, {"GET", "/sessions/none/result"}, {"POST", "/sessions/none/stop"}} {
		b.call(call[0], call[1], "").is(404, "not found")
	}
}

// A start and a resumption show images; what is none is refused with its place.
func TestSessionsTakeImages(t *testing.T) {
	const dot = `{"media_type": "image/gif", "data": "R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs="}`
	b := newBench(t)
	made := b.call("POST", "/runs", `{"type": "start_session", "parameters": {"prompt": "one"}, "images": [`+dot+`]}`).is(201, "pending")
	id := made.field("run_id").(string)
	if in := b.runs.inputs[id]; len(in.Media) != 1 || in.Media[0].MediaType != "image/gif" {
		t.Errorf("the run is given %v", in.Media)
	}
	b.runs.byID[id].IsTurn = true
	resume := `{"type": "resume_session", "session_id": "` + made.field("session_id").(string) + `", "parameters": {"prompt": "two"}, "images": `
	b.call("POST", "/runs", resume+`[`+dot+`, `+dot+`]}`).is(201, "pending")
	if in := b.runs.answers[0].(contract.PromptInput); len(in.Media) != 2 || in.Prompt != "two" {
		t.Errorf("the session is given %+v", in)
	}
	for images, part := range map[string]string{
		`[{"media_type": "image/png", "data": "R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs="}]`: `images[0].media_type is \"image/png\", but data is image/gif`,
		`[{"media_type": "image/png", "data": "?"}]`:                                        "images[0].data is not base64",
		`{"url": "http://example.com/x.png"}`:                                               "images is an object, expected an array",
		`[{"url": "http://example.com/x.png"}]`:                                             `unknown field \"url\"`,
		`[` + strings.Repeat(dot+",", 20) + dot + `]`:                                       "images has 21 files, at most 20 are allowed",
	} {
		b.call("POST", "/runs", resume+images+"}").is(422, part)
		b.call("POST", "/runs", `{"type": "start_session", "parameters": {"prompt": "one"}, "images": `+images+"}").is(422, part)
	}
	if n := len(b.runs.answers); n != 1 {
		t.Errorf("%d prompts were taken", n)
	}
}

// An agent whose MCP server cannot be had is refused in the framework's words, before a run.
func TestUnresolvedServers(t *testing.T) {
	b := newBench(t)
	b.put("mcp-servers/shelf/mcp-server.json", `{"id": "shelf", "name": "Shelf", "url": "http://127.0.0.1:1/mcp", "config_schema":
		{"X-Tenant": {"type": "string", "required": true}, "X-Key": {"type": "string", "required": true}, "X-Area": {"type": "string"}}}`)
	for name, servers := range map[string]string{"lost": `{"store": {"ref": "nowhere"}}`, "bare": `{"books": {"ref": "shelf"}}`} {
		b.put("agents/"+name+"/agent.json", `{"name": "`+name+`", "description": "Reads"}`)
		b.put("agents/"+name+"/agent.mcp.json", `{"mcpServers": `+servers+`}`)
	}
	start := func(name string) *response {
		return b.call("POST", "/runs", `{"type": "start_session", "agent_name": "`+name+`", "parameters": {"prompt": "x"}}`)
	}
	start("lost").is(400, `{"error":"mcp_ref_resolution_failed","message":"agents/lost/agent.mcp.json:1:`).is(400, `"server_name":"store","ref":"nowhere"}`)
	start("bare").is(400, `{"error":"missing_required_mcp_config","message":"agents/bare/agent.mcp.json:1:`).is(400, `"server_name":"books","missing_fields":["X-Key","X-Tenant"]}`)
	if len(b.runs.inputs) != 0 {
		t.Errorf("%d runs were started", len(b.runs.inputs))
	}
}
