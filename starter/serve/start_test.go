package serve

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/worker/config"
)

// documentedStart is the request body in the framework's documentation.
const documentedStart = `{"type": "start_session", "agent_name": "parametric-agent",
 "parameters": {"prompt": "Create content about this topic.", "topic": "Machine Learning in Healthcare", "format": "bullet_points"}}`

func TestStartAgent(t *testing.T) {
	b := newBench(t)
	got := b.call("POST", "/runs", documentedStart).expect(201, `"status":"pending"`)
	id, _ := got.field("run_id").(string)
	if id != "run_parametric-agent-1" || got.field("session_id") != "ses_parametric-agent-1" || got.Header().Get("Location") != "/runs/"+id {
		t.Errorf("response = %s with headers %v", got.Body, got.Header())
	}
	in := b.runs.inputs[id]
	if in == nil || in.Flow.Plan.Name != "parametric-agent" || in.Flow.Plan.Nodes[0].Agent.System != "You write." {
		t.Fatalf("input of the run = %+v", in)
	}
	if want := `{"prompt":"Create content about this topic.","topic":"Machine Learning in Healthcare","format":"bullet_points"}`; string(in.Params) != want {
		t.Errorf("Params = %s, want %s", in.Params, want)
	}
}

// TestInvalidParameters checks the error body in the style of the framework's code and in the documented one.
func TestInvalidParameters(t *testing.T) {
	const schema = `{"type":"object","required":["topic","format","prompt"],"properties":{"topic":{"type":"string"},"format":{"type":"string","enum":["summary","bullet_points","essay"]},` +
		`"tags":{"type":"array","items":{"type":"string"}},"prompt":{"type":"string","minLength":1}},"additionalProperties":false}`
	const body = `{"type": "start_session", "agent_name": "parametric-agent", "parameters": {"prompt": "x", "format": "invalid", "tags": [1]}}`
	want := func(errors string) string {
		return `{"error":"parameter_validation_failed","message":"Parameters do not match agent's parameters_schema","agent_name":"parametric-agent","validation_errors":[` +
			errors + `],"parameters_schema":` + schema + "}\n"
	}
	tests := map[string]struct{ profile, want string }{
		"default profile": {"default", want(`{"path":"$","message":"'topic' is a required property","schema_path":"required"},` +
			`{"path":"$.format","message":"'invalid' is not one of ['summary', 'bullet_points', 'essay']","schema_path":"properties/format/enum"},` +
			`{"path":"$.tags.0","message":"1 is not of type 'string'","schema_path":"properties/tags/items/type"}`)},
		"documented profile": {"documented", want(`{"path":"$.topic","message":"'topic' is a required property","schema_path":"required"},` +
			`{"path":"$.format","message":"'invalid' is not one of ['summary', 'bullet_points', 'essay']","schema_path":"properties.format.enum"},` +
			`{"path":"$.tags[0]","message":"1 is not of type 'string'","schema_path":"properties.tags.items.type"}`)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(o *Options) { o.Settings.Profile = tc.profile })
			got := b.call("POST", "/runs", body).expect(400, "")
			if diff := cmp.Diff(tc.want, got.Body.String()); diff != "" || got.Header().Get("Content-Type") != "application/json" {
				t.Errorf("body mismatch, Content-Type %s (-want +got):\n%s", got.Header().Get("Content-Type"), diff)
			}
			if len(b.runs.byID) > 0 {
				t.Error("a run was started")
			}
		})
	}
}

func TestStartWithoutAgent(t *testing.T) {
	b := newBench(t)
	for params, path := range map[string]string{`{}`: `"$","message":"'prompt' is a required property"`, `{"prompt":123}`: `"$.prompt"`, `{"prompt":""}`: `"$.prompt","message":"'' should be non-empty"`,
		`{"prompt":"x","more":1}`: `"$","message":"Additional properties`} {
		b.call("POST", "/runs", `{"type":"start_session","parameters":`+params+`}`).expect(400, `"agent_name":"(no agent)","validation_errors":[{"path":`+path)
	}
	got := b.call("POST", "/runs", `{"type":"start_session","parameters":{"prompt":"Hello"}}`).expect(201, "run_session-1")
	if in := b.runs.inputs[got.field("run_id").(string)]; in.Flow.Plan.Nodes[0].Agent.System != "" {
		t.Errorf("system prompt = %q, want none", in.Flow.Plan.Nodes[0].Agent.System)
	}
}

func TestInvalidStarts(t *testing.T) {
	tests := map[string]struct {
		body    string
		headers []string
		status  int
		part    string
	}{
		"invalid JSON":                       {`{"type": }`, nil, 400, `"diagnostics":["body:1:10: `},
		"duplicate key":                      {`{"type": "a", "type": "b"}`, nil, 400, "body:1:15: "},
		"array":                              {`[1]`, nil, 422, "the body is an array, expected an object"},
		"unsupported media type":             {documentedStart, []string{"Content-Type: text/plain"}, 415, `unsupported Content-Type \"text/plain\"`},
		"too long":                           {`{"type": "` + strings.Repeat("x", 1<<20) + `"}`, nil, 413, "exceeds 1048576 bytes"},
		"misspelled field":                   {"{\"type\": \"start_session\",\n \"agent_nam\": \"x\", \"parameters\": {}}", nil, 422, `body:2:2: unknown field \"agent_nam\"; did you mean \"agent_name\"?`},
		"no parameters":                      {`{"type": "start_session"}`, nil, 422, `the body has no parameters`},
		"unknown session":                    {`{"type": "resume_session", "session_id": "s", "parameters": {"prompt": "x"}}`, nil, 404, "Session 's' not found"},
		"resume without a session":           {`{"type": "resume_session", "parameters": {"prompt": "x"}}`, nil, 400, "session_id is required for resume_session"},
		"no type":                            {`{"parameters": {"prompt": "x"}}`, nil, 422, `expected \"start_session\"`},
		"callback":                           {`{"type": "start_session", "execution_mode": "async_callback", "parameters": {}}`, nil, 422, "callbacks are not supported"},
		"parent session":                     {`{"type": "start_session", "parent_session_id": "ses_1", "parameters": {}}`, nil, 422, "parent_session_id has no effect here"},
		"unknown agent":                      {`{"type": "start_session", "agent_name": "parametric-agnt", "parameters": {}}`, nil, 404, `did you mean \"parametric-agent\"?`},
		"agent outside the folder":           {`{"type": "start_session", "agent_name": "../../etc", "parameters": {}}`, nil, 404, "unknown-agent"},
		"invalid agent":                      {`{"type": "start_session", "agent_name": "broken", "parameters": {}}`, nil, 422, "agents/broken/agent.json:1:1: "},
		"model without a provider":           {`{"type": "start_session", "model": "gpt", "parameters": {}}`, nil, 422, "is not provider/model"},
		"invalid script":                     {`{"type": "start_session", "script": "rules: [{sai: x}]", "parameters": {}}`, nil, 422, "body:1:37: the script: script:1:"},
		"script and model":                   {`{"type": "start_session", "model": "a/b", "script": "rules: [{say: x}]", "parameters": {}}`, nil, 422, "remove one of them"},
		"id and idempotency key":             {`{"type": "start_session", "id": "x", "parameters": {}}`, []string{"Idempotency-Key: k"}, 400, "both identify the run"},
		"id that is not ASCII":               {`{"type": "start_session", "id": "é", "parameters": {}}`, nil, 400, "printable ASCII"},
		"id that cannot be in a URL":         {`{"type": "start_session", "id": "..", "parameters": {}}`, nil, 400, "cannot be part of a URL"},
		"session id that cannot be in a URL": {`{"type": "start_session", "session_id": ".", "parameters": {}}`, nil, 400, "cannot be part of a URL"},
		"id of a turn":                       {`{"type": "start_session", "id": "run_1~turn-2", "parameters": {}}`, nil, 400, "a session's later turn"},
		"no body":                            {"\n", nil, 400, "the body is empty"},
		"number out of range":                {`{"type": "start_session", "parameters": {"prompt": "x", "n": 1e999}}`, nil, 422, "is out of range [number-range]; use a smaller number"},
		"no flow":                            {`{"flow": {}}`, nil, 422, "neither text nor name"},
		"plan":                               {`{"flow": {"plan": {}}}`, nil, 422, `unknown field \"plan\"`},
		"text that is a number":              {`{"flow": {"text": 7}}`, nil, 422, "body:1:19: flow.text is a number, expected a string"},
		"invalid flow":                       {`{"flow": {"text": "{\"name\": \"x\", \"nodes\": []}", "name": "x.json"}}`, nil, 422, "invalid-flow"},
		"unknown flow":                       {`{"flow": {"name": "triag"}}`, nil, 404, `did you mean \"triage\"?`},
		"flow outside the folder":            {`{"flow": {"name": "../triage"}}`, nil, 404, "not a plain file name"},
		"params for no inputs":               {`{"flow": {"name": "triage"}, "params": {"a": 1}}`, nil, 422, "declares no inputs"},
		"typed value for an untyped flow":    {`{"flow": {"name": "triage"}, "value": 42}`, nil, 422, "has no typed values"},
		"fallback model without a provider":  {`{"flow": {"name": "triage"}, "model": "a/b,gpt"}`, nil, 422, `the model \"gpt\" is not provider/model`},
		"field that only the engine sets":    {`{"flow": {"name": "triage"}, "depth": 1}`, nil, 422, `unknown field \"depth\"`},
		"several errors":                     {`{"flow": {"name": "triage", "fils": []}, "inptu": {}, "input": 5}`, nil, 422, `"diagnostics":["body:1:42: unknown field \"inptu\"; did you mean \"input\"?","body:1:29: unknown field \"fils\"; did you mean \"files\"?","body:1:64: input is a number, expected a string"]`},
		"unknown nested field":               {`{"flow": {"name": "triage"}, "history": [{"role": "user", "content": "x", "more": 1}]}`, nil, 422, `unknown field \"more\"`},
		"unknown role":                       {`{"flow": {"name": "triage"}, "history": [{"role": "bot", "content": "x"}]}`, nil, 422, `history[0].role must be user, assistant, system or tool, got \"bot\"`},
		"negative max_steps":                 {`{"flow": {"name": "triage"}, "max_steps": -1}`, nil, 422, "max_steps is -1"},
		"unknown type of connection":         {`{"flow": {"name": "triage"}, "data_connections": [{"id": "x", "type": 9}]}`, nil, 422, "has type 9"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.put("agents/broken/agent.json", `{"name": "broken"}`)
			b.call("POST", "/runs", tc.body, tc.headers...).expect(tc.status, tc.part)
			if len(b.runs.byID) > 0 {
				t.Error("a run was started")
			}
		})
	}
}

func TestStartFlow(t *testing.T) {
	b := newBench(t)
	b.call("POST", "/runs", `{"flow": {"name": "triage"}, "input": "hi", "state": {"a": 1}, "script": {"rules": [{"say": "x"}]}}`).expect(201, `"run_id":"triage-1","session_id":"triage-1"`)
	if in := b.runs.inputs["triage-1"]; in.Input != "hi" || in.Model != "script" || len(in.Script) == 0 || string(in.State["a"]) != "1" || in.V != contract.Version {
		t.Errorf("input of the run = %+v", in)
	}
	body := `{"id": "mine", "flow": {"text": ` + quote(triageFlow) + `, "name": "t.json"}, "input": "hi"}`
	b.call("POST", "/runs", body).expect(201, `"run_id":"mine"`)
	if at := b.runs.inputs["mine"].Flow.Source.At("nodes/a"); at != "t.json:1" {
		t.Errorf("position of node a = %s, want t.json:1", at)
	}
	b.call("POST", "/runs", `{"flow": {"name": "parametric-agent"}, "params": {"topic": "x"}}`).expect(400, "parameter_validation_failed")
	b.call("POST", "/runs", `{"flow": {"name": "parametric-agent"}, "input": "Write.", "params": {"topic": "x", "format": "essay"}}`).expect(201, "parametric-agent-1")

	writer := `"flow": {"text": "{\"name\": \"writer\", \"description\": \"x\"}", "name": "agents/writer/agent.json", "files": [{"name": "agents/writer/agent.system-prompt.md", "text": "You write."}]}`
	b.call("POST", "/runs", `{"input": "hi", `+writer+`}`).expect(201, "writer-1")
	if in := b.runs.inputs["writer-1"]; in.Flow.Plan.Nodes[0].Agent.System != "You write." || len(in.Flow.Files) > 0 {
		t.Errorf("flow of the run = %+v", in.Flow)
	}
	b.call("POST", "/runs", `{"flow": {"text": `+quote(triageFlow)+`, "files": [{"name": "x", "text": "y"}]}}`).expect(422, `does not support additional files, but flow.files has \"x\"`)
	b.call("POST", "/runs", `{"flow": {"name": "triage", "files": [{"name": "x", "text": "y"}]}}`).expect(422, "flow.files require flow.text")

	named := newBench(t, func(o *Options) { o.Flows.Accept = config.AcceptNamed })
	named.call("POST", "/runs", body).expect(403, "flows.accept: named")
	named.call("POST", "/runs", `{"flow": {"name": "triage"}, "components": [{"name": "c.json", "text": "{}"}]}`).expect(403, "without components")
	named.call("POST", "/runs", `{"flow": {"name": "triage"}}`).expect(201, "triage-1")
	noFolder := newBench(t, func(o *Options) { o.Flows.Dir = "" })
	noFolder.call("POST", "/runs", `{"flow": {"name": "triage"}}`).expect(404, "flows.dir is not set")
	noFolder.call("POST", "/runs", documentedStart).expect(404, "no folder of agents is configured")
	noFolder.call("GET", "/agents", "").expect(200, `{"agents":[]}`)
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// TestRepeatedStarts checks that a repeated start returns the same run, and that a different start with its key or id is rejected.
func TestRepeatedStarts(t *testing.T) {
	b := newBench(t, func(o *Options) {
		o.Tokens = []config.Token{{Name: "kim", Value: "kimkimkimkimkimkim", Principal: config.Principal{Scopes: defaultScopes}}, {Name: "ann", Value: "annannannannannann", Principal: config.Principal{Scopes: defaultScopes}}}
	})
	kim, ann, key := "Authorization: Bearer kimkimkimkimkimkim", "Authorization: Bearer annannannannannann", "Idempotency-Key: k1"
	first := b.call("POST", "/runs", documentedStart, kim, key).expect(201, "")
	again := b.call("POST", "/runs", strings.Replace(documentedStart, `{"type": "start_session", `, `{"type":"start_session",`, 1), kim, key).expect(201, "")
	if first.Body.String() != again.Body.String() || first.Header().Get("Idempotent-Replayed") != "" || again.Header().Get("Idempotent-Replayed") != "true" {
		t.Errorf("responses to the same start = %s, then %s with headers %v", first.Body, again.Body, again.Header())
	}
	b.call("POST", "/runs", strings.Replace(documentedStart, "bullet_points", "essay", 1), kim, key).expect(422, "idempotency-key-reused")
	other := b.call("POST", "/runs", documentedStart, ann, key).expect(201, "")
	if other.field("run_id") == first.field("run_id") {
		t.Error("two clients got the same run for the same key")
	}
	// A repeated start returns the run even if its agent no longer exists.
	if err := os.RemoveAll(b.dir + "/agents/parametric-agent"); err != nil {
		t.Fatal(err)
	}
	b.call("POST", "/runs", documentedStart, kim, key).expect(201, first.field("run_id").(string))

	mine := `{"id": "mine", "flow": {"name": "triage"}, "input": "a"}`
	b.call("POST", "/runs", mine, kim).expect(201, `"mine"`)
	if got := b.call("POST", "/runs", mine, kim).expect(201, `"mine"`); got.Header().Get("Idempotent-Replayed") != "true" {
		t.Error("Idempotent-Replayed is not set for the same id and body")
	}
	b.call("POST", "/runs", strings.Replace(mine, `"a"`, `"b"`, 1), kim).expect(409, "run-exists")

	session := `{"type": "start_session", "session_id": "ses_mine", "parameters": {"prompt": "x"}}`
	b.call("POST", "/runs", session, kim).expect(201, `"session_id":"ses_mine"`)
	b.call("POST", "/runs", session, kim).expect(409, "run-exists")
	if n := len(b.runs.byID); n != 4 {
		t.Errorf("%d runs, want 4", n)
	}
}
