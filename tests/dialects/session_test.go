package dialects

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/workflows/plan"
)

// timestamps matches the times in tool results.
var timestamps = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)

// sessionRun runs a session and executes the steps, one per hour.
func sessionRun(t *testing.T, f *plan.Flow, script string, set func(*contract.RunInput), steps ...func(p harness.Outcome)) harness.Outcome {
	t.Helper()
	var p harness.Outcome
	r := harness.TestRun{Script: script, SetInput: func(in *contract.RunInput) {
		in.Flow, in.Params, in.Session = contract.FlowRef{Plan: f}, json.RawMessage(`{"prompt":"one"}`), true
		if set != nil {
			set(in)
		}
	}}
	r.BeforeStart = func(env harness.Outcome) {
		for i, step := range steps {
			harness.AtTime(env.Env, time.Duration(i+1)*time.Hour, func() { step(env) })
		}
	}
	p = r.Execute(t)
	return p
}

// updateResult is the outcome of an Update.
type updateResult struct {
	t    *testing.T
	out  contract.Turn
	err  error
	done bool
}

func (*updateResult) Accept() {}

func (r *updateResult) Reject(err error) { r.err, r.done = err, true }

func (r *updateResult) Complete(v any, err error) {
	r.err, r.done = err, true
	if err != nil {
		return
	}
	raw, err := json.Marshal(v)
	if err != nil {
		r.t.Error(err)
	}
	harness.DecodeJSON(r.t, raw, &r.out)
}

// resume sends a session a prompt by Update.
func resume(t *testing.T, p harness.Outcome, id, body string) *updateResult {
	t.Helper()
	r := &updateResult{t: t}
	p.Env.UpdateWorkflow(contract.UpdatePrompt, id, r, json.RawMessage(body))
	return r
}

func stop(t *testing.T) func(harness.Outcome) {
	return func(p harness.Outcome) {
		p.Env.UpdateWorkflow(contract.UpdateCloseSession, "stop", &updateResult{t: t}, json.RawMessage(`{}`))
	}
}

func TestSessionTurns(t *testing.T) {
	t.Parallel()
	var second, third, again, other, invalid, unknown *updateResult
	var idle contract.Status
	p := sessionRun(t, harness.AgentFlow("talker"), `rules:
- {turn: 3, say: "third"}
- {contains: two, say: "second"}
- {match: ^one$, say: "first"}`, nil,
		func(p harness.Outcome) {
			harness.Query(t, p.Env, contract.QueryStatus, &idle)
			second = resume(t, p, "u1", `{"id":"a","prompt":"two"}`)
		},
		func(p harness.Outcome) {
			again, other = resume(t, p, "u2", `{"id":"a","prompt":"two"}`), resume(t, p, "u3", `{"id":"a","prompt":"else"}`)
			invalid, unknown = resume(t, p, "u4", `{"prompt":""}`), resume(t, p, "u5", `{"prompt":"x","topic":"y"}`)
			third = resume(t, p, "u6", `{"prompt":"three"}`)
		},
		stop(t))
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	if idle.Status != contract.StatusIdle || idle.Session.Turns != 1 {
		t.Errorf("status between turns = %q, %+v", idle.Status, idle.Session)
	}
	for name, r := range map[string]struct {
		got  *updateResult
		n    int
		text string
	}{"second": {second, 2, "second"}, "again": {again, 2, "second"}, "third": {third, 3, "third"}} {
		if r.got.err != nil || r.got.out.N != r.n || r.got.out.ResultText == nil || *r.got.out.ResultText != r.text {
			t.Errorf("%s: %+v, %v", name, r.got.out, r.got.err)
		}
	}
	for name, r := range map[string]*updateResult{"already_answered": other, "bad_request": invalid} {
		if r.err == nil || contract.FailureOf(r.err).Class != name {
			t.Errorf("class of %v, want %s", r.err, name)
		}
	}
	if unknown.err == nil || !strings.Contains(unknown.err.Error(), "topic") {
		t.Errorf("a prompt with other parameters: %v", unknown.err)
	}
	if p.Result.Status != "stopped" || len(p.Result.Turns) != 3 || *p.Result.ResultText != "third" {
		t.Errorf("result = %+v", p.Result)
	}
	var texts []string
	for _, m := range p.Messages(t, "conversation") {
		texts = append(texts, m.Role+":"+harness.MessageText(m))
	}
	if got := strings.Join(texts, " "); got != "user:one assistant:first user:two assistant:second user:three assistant:third" {
		t.Errorf("conversation = %s", got)
	}
}

// TestSessionStoppedWithPromptsQueued checks that prompts queued when a session is closed are listed as stopped turns that never started.
func TestSessionStoppedWithPromptsQueued(t *testing.T) {
	t.Parallel()
	var queued []*updateResult
	var last []contract.Turn
	p := sessionRun(t, harness.AgentFlow("talker"), `rules: [{say: "said"}]`, nil, func(p harness.Outcome) {
		resume(t, p, "u1", `{"id":"a","prompt":"two"}`)
		queued = append(queued, resume(t, p, "u2", `{"id":"b","prompt":"three"}`), resume(t, p, "u3", `{"id":"c","prompt":"four"}`))
		stop(t)(p)
	})
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	harness.Query(t, p.Env, contract.QueryTurns, &last)
	if len(last) != 4 || len(p.Result.Turns) != 4 {
		t.Errorf("query has %d turns, result %d, want 4", len(last), len(p.Result.Turns))
	}
	for i, id := range []string{"b", "c"} {
		for source, turns := range map[string][]contract.Turn{"the result": p.Result.Turns, "the query": last, "the answer": {queued[i].out}} {
			n := slices.IndexFunc(turns, func(t contract.Turn) bool { return t.ID == id })
			if n < 0 || turns[n].N != 0 || turns[n].Status != contract.TurnStopped || turns[n].EndedAt == nil || turns[n].Failure == nil || turns[n].Hash != "" {
				t.Errorf("turns in %s = %+v", source, turns)
			}
		}
		if queued[i].err != nil {
			t.Error(queued[i].err)
		}
	}
}

// TestSessionContinuesAfterFailure checks that a session remains open after a failed turn.
func TestSessionContinuesAfterFailure(t *testing.T) {
	t.Parallel()
	f := harness.AgentFlow("talker")
	f.Nodes[0].Agent.Output = &plan.Output{Schema: json.RawMessage(`{"type":"object","required":["n"]}`), Repairs: 1}
	var second *updateResult
	p := sessionRun(t, f, `rules:
- {contains: two, json: {n: 2}}
- {say: "nothing"}`, nil, func(p harness.Outcome) { second = resume(t, p, "u1", `{"prompt":"two"}`) }, stop(t))
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	if first := p.Result.Turns[0]; first.Status != contract.TurnFailed || first.Failure.Class != contract.ClassOutputSchema || first.ResultText != nil {
		t.Errorf("first turn = %+v", first)
	}
	if second.err != nil || string(second.out.ResultData) != `{"n":2}` || second.out.ResultText != nil {
		t.Errorf("second turn = %+v, %v", second.out, second.err)
	}
}

func TestSessionStarts(t *testing.T) {
	t.Parallel()
	start := func(mode string) string {
		return fmt.Sprintf(`{tool: start_agent_session, arguments: {agent_name: helper, mode: %s, parameters: {prompt: help}}}`, mode)
	}
	p := sessionRun(t, harness.Orchestrator(), `rules:
- {node: helper, contains: more, say: "even more"}
- {node: helper, say: "helped"}
- {node: boss, turn: 1, call: [{tool: list_agent_blueprints}, `+start("sync")+`, {tool: start_agent_session, arguments: {agent_name: nobody, parameters: {prompt: x}}}, {tool: start_agent_session, arguments: {agent_name: helper, mode: soon, parameters: {prompt: x}}}, {tool: start_agent_session, arguments: {agent_name: helper, parameters: {}}}, {tool: start_agent_session, arguments: {parameters: {prompt: x}}}]}
- {node: agent, say: plain}
- {node: boss, turn: 2, call: [{tool: list_agent_sessions}, `+start("async_callback")+`, `+start("async_poll")+`]}
- {node: boss, contains: agent-callback, say: "all done"}
- {node: boss, say: "waiting"}`, nil, stop(t))
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	var got []string
	for _, m := range p.Messages(t, "conversation") {
		if m.Role != contract.RoleAssistant {
			got = append(got, timestamps.ReplaceAllString(harness.MessageText(m), "TIME"))
		}
	}
	want := []string{"one",
		`[{"name":"helper","description":"","type":"autonomous","tags":["external"],"parameters_schema":null}]`,
		`{"session_id":"default-test-workflow-id/boss#1:call_2","result_text":"helped","result_data":null}`,
		`{"error":"Agent 'nobody' not found"}`,
		`{"error":"Invalid mode: soon. Must be one of: sync, async_poll, async_callback"}`,
		`{"error":"bad_request: Parameters do not match agent's parameters_schema (\"helper\"): $: 'prompt' is a required property"}`,
		`{"session_id":"default-test-workflow-id/boss#1:call_6","result_text":"plain","result_data":null}`,
		`[{"session_id":"default-test-workflow-id/boss#1:call_2","status":"finished","agent_name":"helper","created_at":"TIME","last_resumed_at":null},` +
			`{"session_id":"default-test-workflow-id/boss#1:call_6","status":"finished","agent_name":null,"created_at":"TIME","last_resumed_at":null}]`,
		`{"session_id":"default-test-workflow-id/boss#1:call_8","status":"pending"}`,
		`{"session_id":"default-test-workflow-id/boss#1:call_9","status":"pending"}`,
		"<agent-callback session=\"default-test-workflow-id/boss#1:call_8\" status=\"completed\">\n## Child Result\n\nhelped\n</agent-callback>\n\n" +
			"Please continue with the orchestration based on this result.",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := *p.Result.ResultText; got != "all done" || len(p.Result.Turns) != 2 {
		t.Errorf("result = %s after %d turns", got, len(p.Result.Turns))
	}
}
