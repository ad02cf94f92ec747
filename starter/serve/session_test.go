package serve

import (
	"encoding/json"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// TestResumeDocumentedProfile checks that the prompts of a session follow the profile with which the session was started,
// not the server's current one.
func TestResumeDocumentedProfile(t *testing.T) {
	b := newBench(t)
	started := b.call("POST", "/runs", `{"type": "start_session", "parameters": {"prompt": "one"}}`).expect(201, "pending")
	id, session := started.field("run_id").(string), started.field("session_id").(string)
	b.runs.byID[id].IsTurn = true
	b.runs.flow = &plan.Flow{Name: "session", Inputs: &plan.Inputs{Mode: plan.InputsMerged, Style: plan.StyleDocumented,
		Schema: json.RawMessage(`{"type":"object","required":["topic"],"properties":{"topic":{"type":"string"},"n":{"type":["null","object"],"properties":{"a":{"enum":[1]}}}}}`)}}
	resume := `{"type": "resume_session", "session_id": "` + session + `", "parameters": `
	b.call("POST", "/runs", resume+`{"prompt": "two"}}`).expect(400, `{"path":"$.topic","message":"'topic' is a required property","schema_path":"required"}`)
	b.call("POST", "/runs", resume+`{"prompt": "two", "topic": "AI", "n": {"a": 2}}}`).expect(400, `"schema_path":"properties.n.properties.a.enum"`)
	b.call("POST", "/runs", resume+`{"prompt": "two", "topic": "AI", "n": null}}`).expect(201, session)
	if text := b.runs.answers[0].(contract.PromptInput).Prompt; text != "<inputs>\ntopic: AI\nn: None\n</inputs>\n\ntwo" {
		t.Errorf("Prompt = %q", text)
	}
	b = newBench(t, func(o *Options) { o.Settings.Profile = "documented" })
	started = b.call("POST", "/runs", `{"type": "start_session", "parameters": {"prompt": "one"}}`).expect(201, "pending")
	id, session = started.field("run_id").(string), started.field("session_id").(string)
	b.runs.byID[id].IsTurn = true
	b.runs.flow = &plan.Flow{Name: "session", Inputs: &plan.Inputs{Mode: plan.InputsMerged, Schema: json.RawMessage(`{"type":"object","required":["topic"]}`)}}
	resume = `{"type": "resume_session", "session_id": "` + session + `", "parameters": `
	b.call("POST", "/runs", resume+`{"prompt": "two", "topic": "AI"}}`).expect(400, `('topic' was unexpected)`)
	b.call("POST", "/runs", resume+`{"prompt": "two"}}`).expect(201, session)
}

func TestSessions(t *testing.T) {
	b := newBench(t)
	started := b.call("POST", "/runs", `{"type": "start_session", "parameters": {"prompt": "one"}}`).expect(201, "pending")
	id, session := started.field("run_id").(string), started.field("session_id").(string)
	if in := b.runs.inputs[id]; !in.Session {
		t.Error("Session = false, want true")
	}
	resume := `{"type": "resume_session", "session_id": "` + session + `", "parameters": `
	b.call("POST", "/runs", resume+`{"prompt": "two"}}`).expect(400, "not-resumable")
	b.runs.byID[id].IsTurn = true
	b.call("GET", "/sessions/"+session+"/result", "").expect(400, "Session not finished or idle")
	text, startedAt := "first", noon
	b.runs.turns = []contract.Turn{{N: 1, Status: contract.TurnCompleted, ResultText: &text, StartedAt: &startedAt, EndedAt: &startedAt}}
	b.call("GET", "/sessions/"+session+"/status", "").expect(200, `"status":"idle"`)
	b.call("GET", "/sessions/"+session+"/result", "").expect(200, `"result_text":"first","result_data":null`)

	next := b.call("POST", "/runs", resume+`{"prompt": "two"}}`).expect(201, session)
	if workflow, turn := SplitTurn(next.field("run_id").(string)); workflow != id || turn != b.runs.answers[0].(contract.PromptInput).ID {
		t.Errorf("SplitTurn = %q, %q", workflow, turn)
	}
	for body, part := range map[string]string{
		`{}`:                             `'prompt' is a required property`,
		`{"prompt": ""}`:                 `"path":"$.prompt"`,
		`{"prompt": 1}`:                  `1 is not of type 'string'`,
		`{"prompt": "x", "topic": "AI"}`: `('topic' was unexpected)`,
	} {
		b.call("POST", "/runs", resume+body+"}").expect(400, "parameter_validation_failed").expect(400, part)
	}
	b.call("POST", "/runs", `{"type": "resume_session", "session_id": "x", "parameters": null}`).expect(422, "the body has no parameters")
	b.call("POST", "/runs", `{"type": "start_session", "parameters": null}`).expect(422, "body:1:41: the body has no parameters")
	b.call("POST", "/runs", `{"type": "start_session", "session_id": "`+session+`", "parameters": {"prompt": "x"}}`).expect(409, "continue with resume_session")
	b.runs.add(TurnID(id, "later"))
	b.call("GET", "/runs/"+TurnID(id, "later"), "").expect(200, `"session_id":"`+session+`"`)
	repeated := []string{resume + `{"prompt": "x"}}`, "Idempotency-Key: k"}
	if one, two := b.call("POST", "/runs", repeated[0], repeated[1]), b.call("POST", "/runs", repeated[0], repeated[1]); one.field("run_id") != two.field("run_id") {
		t.Error("one key started two turns")
	}
	b.runs.resumeErr = NewProblem(AlreadyAnswered, "", "another prompt has the id")
	b.call("POST", "/runs", resume+`{"prompt": "y"}}`, "Idempotency-Key: k").expect(422, "key-reused")
	b.runs.resumeErr = nil
	b.runs.turns = append(b.runs.turns, contract.Turn{N: 2, ID: b.runs.answers[len(b.runs.answers)-1].(contract.PromptInput).ID, Status: contract.TurnRunning, StartedAt: &startedAt})
	if again := b.call("POST", "/runs", resume+`{"prompt": "x"}}`, "Idempotency-Key: k").expect(201, session); again.Header().Get("Idempotent-Replayed") != "true" {
		t.Error("Idempotent-Replayed is not set")
	}
	b.call("POST", "/runs", resume+`{"prompt": "x"}}`, "Idempotency-Key: "+strings.Repeat("k", 201)).expect(400, "at most 200 bytes")
	b.call("POST", "/runs", resume+`{"prompt": "x"}, "agent_name": "session", "execution_mode": "async_poll", "project_dir": ""}`).expect(201, session)
	for field, part := range map[string]string{
		`"agent_name": "other"`:              `belongs to the agent \"session\"`,
		`"execution_mode": "async_callback"`: "callbacks are not supported",
		`"execution_mode": "soon"`:           "expected sync or async_poll",
		`"project_dir": "/srv"`:              "project_dir has no effect here",
		`"additional_demands": {"a": 1}`:     "any worker may execute a run",
		`"model": "openai/x"`:                "the session has its model",
		`"scope": {"a": "b"}`:                "the session has its scope",
	} {
		b.call("POST", "/runs", resume+`{"prompt": "x"}, `+field+"}").expect(422, part)
	}
	b.runs.turns = append(b.runs.turns, contract.Turn{N: 2, Status: contract.TurnRunning, StartedAt: &startedAt})
	b.call("GET", "/sessions/"+session+"/status", "").expect(200, `"status":"running"`)
	b.call("GET", "/sessions/"+session+"/result", "").expect(400, "Session not finished or idle")
	b.runs.turns = append(b.runs.turns[:1], contract.Turn{ID: "queued", Status: contract.TurnQueued})
	b.call("GET", "/sessions/"+session+"/status", "").expect(200, `"turns":1`)
	b.call("GET", "/sessions/"+session+"/result", "").expect(200, `"result_text":"first"`)
	b.call("POST", "/sessions/"+session+"/stop", "").expect(202, "stopping")
	if strings.Join(b.runs.cancelled, " ") != id {
		t.Errorf("stopped sessions = %v, want %s", b.runs.cancelled, id)
	}
	for _, call := range [][2]string{{"GET", "/sessions/ses_none/status"}, {"GET", "/sessions/none/result"}, {"POST", "/sessions/none/stop"}} {
		b.call(call[0], call[1], "").expect(404, "not found")
	}
}

// TestSessionImages checks that the start of a session and later prompts accept images, and that invalid images are rejected with their position.
func TestSessionImages(t *testing.T) {
	const dot = `{"media_type": "image/gif", "data": "R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs="}`
	b := newBench(t)
	started := b.call("POST", "/runs", `{"type": "start_session", "parameters": {"prompt": "one"}, "images": [`+dot+`]}`).expect(201, "pending")
	id := started.field("run_id").(string)
	if in := b.runs.inputs[id]; len(in.Media) != 1 || in.Media[0].MediaType != "image/gif" {
		t.Errorf("Media of the run = %v", in.Media)
	}
	b.runs.byID[id].IsTurn = true
	resume := `{"type": "resume_session", "session_id": "` + started.field("session_id").(string) + `", "parameters": {"prompt": "two"}, "images": `
	b.call("POST", "/runs", resume+`[`+dot+`, `+dot+`]}`).expect(201, "pending")
	if in := b.runs.answers[0].(contract.PromptInput); len(in.Media) != 2 || in.Prompt != "two" {
		t.Errorf("prompt sent to the session = %+v", in)
	}
	for images, part := range map[string]string{
		`[{"media_type": "image/png", "data": "R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs="}]`: `images[0].media_type is \"image/png\", but data is image/gif`,
		`[{"media_type": "image/png", "data": "?"}]`:                                        "images[0].data is not base64",
		`{"url": "http://example.com/x.png"}`:                                               "images is an object, expected an array",
		`[{"url": "http://example.com/x.png"}]`:                                             `unknown field \"url\"`,
		`[` + strings.Repeat(dot+",", 20) + dot + `]`:                                       "images has 21 files, at most 20 are allowed",
	} {
		b.call("POST", "/runs", resume+images+"}").expect(422, part)
		b.call("POST", "/runs", `{"type": "start_session", "parameters": {"prompt": "one"}, "images": `+images+"}").expect(422, part)
	}
	if n := len(b.runs.answers); n != 1 {
		t.Errorf("%d prompts were sent, want 1", n)
	}
}

// TestUnresolvedServers checks that a start fails with the framework's error if the agent refers to an MCP server that is unknown or lacks settings.
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
	start("lost").expect(400, `{"error":"mcp_ref_resolution_failed","message":"agents/lost/agent.mcp.json:1:`).expect(400, `"server_name":"store","ref":"nowhere"}`)
	start("bare").expect(400, `{"error":"missing_required_mcp_config","message":"agents/bare/agent.mcp.json:1:`).expect(400, `"server_name":"books","missing_fields":["X-Key","X-Tenant"]}`)
	if len(b.runs.inputs) != 0 {
		t.Errorf("%d runs were started, want none", len(b.runs.inputs))
	}
}
