package dialects

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/specadapter"
	"weft/specadapter/source"
	"weft/tests/harness"
	"weft/workflows/plan"
)

// childID returns the id of the session that the boss's n-th call started.
func childID(n int) string { return fmt.Sprintf("default-test-workflow-id/boss#1:call_%d", n) }

// sessionToolReplies returns the texts of the tool messages in a session's conversation.
func sessionToolReplies(t *testing.T, p harness.Outcome) []string {
	t.Helper()
	var out []string
	for _, m := range p.Messages(t, "conversation") {
		if m.Role == contract.RoleTool {
			out = append(out, timestamps.ReplaceAllString(harness.MessageText(m), "TIME"))
		}
	}
	return out
}

// TestSessionTools checks the session tools on sessions that are idle, failed, deleted or unknown.
func TestSessionTools(t *testing.T) {
	t.Parallel()
	first, none := childID(1), "nowhere"
	on := func(tool, id, more string) string {
		return fmt.Sprintf(`{tool: %s, arguments: {session_id: "%s"%s}}`, tool, id, more)
	}
	ask := func(prompt string) string { return `, parameters: ` + prompt }
	p := sessionRun(t, harness.Orchestrator(), `rules:
- {node: helper, match: ^more$, say: "even more"}
- {node: helper, match: ^wrong$, fail: {class: refused, text: "I will not"}}
- {node: helper, say: "helped"}
- {node: boss, turn: 1, call: [{tool: start_agent_session, arguments: {agent_name: helper, parameters: {prompt: help}}}]}
- {node: boss, turn: 2, call: [`+strings.Join([]string{on("get_agent_session_status", first, ""), on("get_agent_session_result", first, ""),
		on("get_agent_session_status", none, ""), on("get_agent_session_result", none, ""), on("resume_agent_session", none, ask("{prompt: x}")),
		on("resume_agent_session", first, ask("{prompt: more, topic: x}")), on("resume_agent_session", first, ask("{prompt: more}"))}, ", ")+`]}
- {node: boss, turn: 3, call: [`+on("resume_agent_session", first, ask("{prompt: wrong}"))+`]}
- {node: boss, turn: 4, call: [`+on("get_agent_session_status", first, "")+`, `+on("get_agent_session_result", first, "")+`]}
- {node: boss, turn: 5, call: [`+on("resume_agent_session", first, ask("{prompt: more}")+", mode: async_callback")+`]}
- {node: boss, turn: 6, say: "asked"}
- {node: boss, turn: 7, call: [{tool: delete_all_agent_sessions}]}
- {node: boss, turn: 8, call: [`+on("get_agent_session_status", first, "")+`, {tool: list_agent_sessions}]}
- {node: boss, say: "done"}`, nil, stop(t))
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	helped := `{"session_id":"` + first + `","result_text":"helped","result_data":null}`
	more := `{"session_id":"` + first + `","result_text":"even more","result_data":null}`
	want := []string{helped,
		`{"session_id":"` + first + `","status":"finished"}`, helped,
		`{"session_id":"nowhere","status":"not_existent"}`, `{"error":"Session 'nowhere' not found"}`, `{"error":"Session 'nowhere' not found"}`,
		`{"error":"parameter_validation_failed: a session is resumed with {\"prompt\": \"…\"} and nothing else"}`, more,
		`{"error":"refused: script: I will not (attempt 1)"}`,
		`{"session_id":"` + first + `","status":"failed"}`, `{"error":"Session failed: refused: script: I will not (attempt 1)"}`,
		`{"session_id":"` + first + `","status":"pending"}`,
		`{"deleted_count":1}`,
		`{"session_id":"` + first + `","status":"not_existent"}`, `[]`,
	}
	if diff := cmp.Diff(want, sessionToolReplies(t, p)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if n := len(p.Result.Turns); n != 2 || *p.Result.ResultText != "done" {
		t.Errorf("%d turns: %+v", n, p.Result)
	}
}

// TestSessionLimits checks the limits on nested sessions: the flow's depth, and 100 open children of a session.
func TestSessionLimits(t *testing.T) {
	t.Parallel()
	t.Run("depth", func(t *testing.T) {
		f := harness.AgentFlow("boss", plan.Startable{Agent: "boss", Type: "autonomous"})
		f.Limits.MaxDepth = 2
		p := sessionRun(t, f, `rules:
- {contains: "nested at most", say: "at the bottom"}
- {contains: result_text, say: "back"}
- {call: [{tool: start_agent_session, arguments: {agent_name: boss, parameters: {prompt: go}}}]}`, nil, stop(t))
		if p.Err != nil {
			t.Fatal(p.Err)
		}
		want := []string{`{"session_id":"` + childID(1) + `","result_text":"back","result_data":null}`}
		if diff := cmp.Diff(want, sessionToolReplies(t, p)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if p.Status.Usage.Calls != 6 {
			t.Errorf("three sessions made %d calls, want 6", p.Status.Usage.Calls)
		}
	})
	t.Run("breadth", func(t *testing.T) {
		calls := strings.Repeat(`{tool: start_agent_session, arguments: {agent_name: helper, mode: async_poll, parameters: {prompt: x}}}, `, 25)
		p := sessionRun(t, harness.Orchestrator(), `rules:
- {node: helper, say: "here"}
- {node: boss, turn: 5, say: "enough"}
- {node: boss, turn: 4, call: [`+strings.Repeat(`{tool: start_agent_session, arguments: {agent_name: helper, mode: async_poll, parameters: {prompt: x}}}, `, 26)+`]}
- {node: boss, call: [`+calls+`]}`, func(in *contract.RunInput) { in.Flow.Plan.Nodes[0].Agent.MaxCalls = 200 }, stop(t))
		if p.Err != nil {
			t.Fatal(p.Err)
		}
		got := sessionToolReplies(t, p)
		if len(got) != 101 || !strings.Contains(got[100], "100 sessions are open") || !strings.Contains(got[99], `"pending"`) {
			t.Errorf("%d results, the last: %s", len(got), got[len(got)-1])
		}
	})
}

// childInputs records the inputs of started child workflows by workflow id.
func childInputs(r *harness.TestRun) map[string]*contract.RunInput {
	out := map[string]*contract.RunInput{}
	r.Wrap = func(reg worker.ActivityRegistry) worker.ActivityRegistry {
		env := reg.(*testsuite.TestWorkflowEnvironment)
		env.SetOnChildWorkflowStartedListener(func(info *workflow.Info, _ workflow.Context, args converter.EncodedValues) {
			var in contract.RunInput
			if args.Get(&in) == nil {
				out[info.WorkflowExecution.ID] = &in
			}
		})
		return env
	}
	return out
}

// TestSessionHooks checks that a session's hooks run for every prompt, and can change and block it.
func TestSessionHooks(t *testing.T) {
	t.Parallel()
	res := agentWithHooks(t, "block")
	var second, third, fourth *updateResult
	r := harness.TestRun{Script: `rules:
- {node: guard, match: ^two$, json: {action: continue, parameters: {prompt: changed}}}
- {node: guard, match: ^three$, json: {action: block, block_reason: no threes}}
- {node: guard, match: ^four$, json: {action: continue, parameters: {topic: x}}}
- {node: guard, json: {action: continue}}
- {node: audit, say: Fine.}
- {node: writer, say: Written.}`}
	inputs := childInputs(&r)
	r.SetInput = func(in *contract.RunInput) {
		in.Flow, in.Params, in.Session = contract.FlowRef{Plan: res.Flow, Source: &res.Source}, json.RawMessage(`{"topic":"abc","prompt":"Go."}`), true
		in.Scope = json.RawMessage(`{"tenant":"x"}`)
	}
	p := playSteps(t, r, func(p harness.Outcome) { second = resume(t, p, "a", `{"prompt":"two"}`) }, func(p harness.Outcome) { third = resume(t, p, "b", `{"prompt":"three"}`) },
		func(p harness.Outcome) { fourth = resume(t, p, "c", `{"prompt":"four"}`) }, stop(t))
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	if second.err != nil || second.out.Status != contract.TurnCompleted {
		t.Errorf("second turn = %+v, %v", second.out, second.err)
	}
	if f := third.out.Failure; f == nil || f.Class != contract.ClassHookBlocked || f.Text != "Blocked by on_run_start hook: no threes" {
		t.Errorf("third turn = %+v, %v", third.out, third.err)
	}
	if f := fourth.out.Failure; f == nil || !strings.Contains(f.Text, "Hook error: the hook's parameters have no prompt") {
		t.Errorf("fourth turn = %+v, %v", fourth.out, fourth.err)
	}
	var texts []string
	for _, m := range p.Messages(t, "conversation") {
		texts = append(texts, harness.MessageText(m))
	}
	if got := strings.Join(texts, "|"); got != "<inputs>\ntopic: abc\n</inputs>\n\nGo.|Written.|changed|Written." {
		t.Errorf("conversation = %q", got)
	}
	for id, want := range map[string]string{"/hook:on_run_start": `{"prompt":"Go.","topic":"abc"}`, "/hook:on_run_start~2": `{"prompt":"two"}`,
		"/hook:on_run_start~3": `{"prompt":"three"}`, "/hook:on_run_finish": `{"prompt":"Written."}`, "/hook:on_run_finish~2": `{"prompt":"Written."}`} {
		if in := inputs["default-test-workflow-id"+id]; in == nil || canonicalJSON(in.Params) != want || canonicalJSON(in.Scope) != `{"tenant":"x"}` {
			t.Errorf("input of %s = %+v, want %s", id, in, want)
		}
	}
	if len(inputs) != 6 {
		t.Errorf("%d hooks ran, want 6", len(inputs))
	}
}

// playSteps runs a workflow and executes the steps, one per hour.
func playSteps(t *testing.T, r harness.TestRun, steps ...func(p harness.Outcome)) harness.Outcome {
	t.Helper()
	r.BeforeStart = func(env harness.Outcome) {
		for i, step := range steps {
			harness.AtTime(env.Env, time.Duration(i+1)*time.Hour, func() { step(env) })
		}
	}
	return r.Execute(t)
}

// loadFolder loads the agent whose document is main from a set of files.
func loadFolder(t *testing.T, main string, files map[string]string) *specadapter.Result {
	t.Helper()
	var o specadapter.Options
	for name, text := range files {
		if name != main {
			o.Files = append(o.Files, source.File{Name: name, Text: text})
		}
	}
	res, diags := specadapter.Load(main, []byte(files[main]), o)
	if res == nil {
		t.Fatal(diags)
	}
	return res
}

// company returns an agent that starts an agent with a hook and a procedural agent, and the folder of
// the latter's program.
func company(t *testing.T) (*specadapter.Result, string) {
	t.Helper()
	dir := harness.ProgramFolder(t, `echo "{\"said\": \"$2\"}"`)
	return loadFolder(t, "agents/boss/agent.json", map[string]string{
		"agents/boss/agent.json":     `{"name":"boss","description":"Leads","system_prompt":"Lead."}`,
		"agents/boss/agent.mcp.json": `{"mcpServers":{"orchestrator":{"ref":"orchestrator"}}}`,
		"agents/writer/agent.json": `{"name":"writer","description":"Writes","system_prompt":"Write for ${scope.tenant} in ${runtime.session_id}.",
			"hooks":{"on_run_start":{"agent_name":"guard","on_error":"block"}}}`,
		"agents/guard/agent.json":   `{"name":"guard","description":"Guards","system_prompt":"Guard."}`,
		"agents/greeter/agent.json": `{"name":"greeter","description":"Greets","type":"procedural","script":"greet"}`,
		"scripts/greet/script.json": `{"name":"greet","description":"Greets","script_file":"greet.sh","parameters_schema":{"type":"object","required":["who"]}}`,
		"scripts/greet/greet.sh":    "#!/bin/sh\necho \"{\\\"said\\\": \\\"$2\\\"}\"",
	}), dir
}

// companyScript returns the script in which it starts both, for a run with this id.
func companyScript(id string) string {
	return `rules:
- {node: guard, match: bad, json: {action: block, block_reason: bad words}}
- {node: guard, json: {action: continue}}
- {node: writer, say: "written"}
- {node: boss, turn: 1, call: [{tool: start_agent_session, arguments: {agent_name: writer, parameters: {prompt: good}}}]}
- {node: boss, turn: 2, call: [{tool: start_agent_session, arguments: {agent_name: writer, parameters: {prompt: bad}}}]}
- {node: boss, turn: 3, call: [{tool: start_agent_session, arguments: {agent_name: greeter, parameters: {who: you}}}]}
- {node: boss, turn: 4, call: [{tool: resume_agent_session, arguments: {session_id: "` + id + "/boss#1:call_3" + `", parameters: {prompt: x}}}]}
- {node: boss, say: "done"}`
}

// TestSessionChildren checks that child sessions inherit the scope and a share of the budget of their parent, that
// procedural agents can be started, and that a child runs the hooks of its own agent.
func TestSessionChildren(t *testing.T) {
	t.Parallel()
	res, dir := company(t)
	r := harness.TestRun{ToolSettings: tool.Settings{Trusted: []string{dir}}, Script: companyScript("default-test-workflow-id")}
	inputs := childInputs(&r)
	r.SetInput = func(in *contract.RunInput) {
		in.Flow, in.Params = contract.FlowRef{Plan: res.Flow, Source: &res.Source}, json.RawMessage(`{"prompt":"go"}`)
		in.Scope, in.Budget = json.RawMessage(`{"tenant":"x"}`), &contract.Budget{Calls: 21}
	}
	p := r.Execute(t)
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	want := []string{`{"session_id":"` + childID(1) + `","result_text":"written","result_data":null}`,
		`{"error":"hook_blocked: Blocked by on_run_start hook: bad words"}`,
		`{"session_id":"` + childID(3) + `","result_text":null,"result_data":{"said":"you"}}`,
		`{"error":"procedural_agent_no_resume: the agent 'greeter' accepts no prompts"}`}
	if diff := cmp.Diff(want, sessionToolReplies(t, p)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	in := inputs[childID(1)]
	if in == nil || canonicalJSON(in.Scope) != `{"tenant":"x"}` || in.Budget == nil || in.Budget.Calls != 10 {
		t.Fatalf("input of the first child = %+v", in)
	}
	// The first child keeps its share of 10, in which its 2 calls are counted: 21 - 10 - 2 calls of the boss leave 9, and half is 4.
	if got := inputs[childID(2)].Budget; got == nil || got.Calls != 4 {
		t.Errorf("budget of the second child = %+v", got)
	}
	if n := p.Result.Usage.Calls; n != 8 || inputs[childID(1)+"/hook:on_run_start"] == nil {
		t.Errorf("%d calls, want 8; %d child workflows", n, len(inputs))
	}
}

// TestSessionBudget checks that a child session fails if the budget is exhausted, and that the tool call returns the error.
func TestSessionBudget(t *testing.T) {
	t.Parallel()
	p := sessionRun(t, harness.Orchestrator(), `rules:
- {node: helper, say: "helped"}
- {node: boss, turn: 1, call: [{tool: start_agent_session, arguments: {agent_name: helper, parameters: {prompt: x}}}]}
- {node: boss, turn: 2, call: [{tool: resume_agent_session, arguments: {session_id: "`+childID(1)+`", parameters: {prompt: x}}}]}
- {node: boss, say: "done"}`, func(in *contract.RunInput) { in.Budget = &contract.Budget{Calls: 4} }, stop(t))
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	got := sessionToolReplies(t, p)
	if len(got) != 2 || !strings.Contains(got[0], `"helped"`) || !strings.Contains(got[1], "budget_exceeded: the budget allows no other model call") {
		t.Errorf("tool replies = %q", got)
	}
	if p.Result.Usage.Calls != 4 {
		t.Errorf("%d calls, want 4", p.Result.Usage.Calls)
	}
}

// TestChildSessionShowsRejections checks that signals that a child session rejects are listed in its own
// status, and not in its parent's.
func TestChildSessionShowsRejections(t *testing.T) {
	t.Parallel()
	var early contract.Status
	p := sessionRun(t, harness.Orchestrator(), `rules:
- {node: helper, say: "helped"}
- {node: boss, turn: 1, call: [{tool: start_agent_session, arguments: {agent_name: helper, parameters: {prompt: x}}}]}
- {node: boss, say: "done"}`, nil,
		func(p harness.Outcome) {
			for _, invalid := range []any{7, map[string]any{"prompt": "x", "promt": "y"}, map[string]any{"prompt": ""}} {
				if err := p.Env.SignalWorkflowByID(childID(1), contract.UpdatePrompt, invalid); err != nil {
					t.Fatal(err)
				}
			}
			for name, misaddressed := range map[string]any{contract.UpdateCloseSession: []int{1}, contract.RequestConfirm: map[string]any{"id": "x", "approve": true}} {
				if err := p.Env.SignalWorkflowByID(childID(1), name, misaddressed); err != nil {
					t.Fatal(err)
				}
			}
		},
		func(p harness.Outcome) {
			v, err := p.Env.QueryWorkflowByID(childID(1), contract.QueryStatus)
			if err == nil {
				err = v.Get(&early)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, stop(t))
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	for _, want := range []string{`prompt: invalid prompt: json: unknown field "promt"`, `close_session: close_session: expected a JSON object, got [1]`,
		`confirm: this run accepts no answers and no messages; send it to its root run default-test-workflow-id`} {
		if got := strings.Join(early.RejectionReasons, "\n"); early.Rejected != 5 || !strings.Contains(got, want) {
			t.Errorf("the child lists %d rejections: %s\nwant 5 with %s", early.Rejected, got, want)
		}
	}
	if p.Status.Rejected != 0 {
		t.Errorf("the parent lists the rejections %q", p.Status.RejectionReasons)
	}
}

// TestSessionPromptTooLong checks that the tool call rejects a prompt that the child session would silently reject.
func TestSessionPromptTooLong(t *testing.T) {
	t.Parallel()
	p := sessionRun(t, harness.Orchestrator(), `rules:
- {node: helper, say: "helped"}
- {node: boss, turn: 1, call: [{tool: start_agent_session, arguments: {agent_name: helper, parameters: {prompt: x}}}]}
- {node: boss, turn: 2, call: [{tool: resume_agent_session, arguments: {session_id: "`+childID(1)+`", parameters: {prompt: "`+strings.Repeat("語", 90_000)+`"}}}]}
- {node: boss, say: "done"}`, nil, stop(t))
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	if got := sessionToolReplies(t, p); len(got) != 2 || !strings.Contains(got[1], "Parameters too large: a prompt of 270000 bytes (max 262144)") {
		t.Errorf("tool replies = %.300q", got)
	}
}

// TestSessionResumeWithParameters checks that in the profile documented a session is resumed with parameters, as it is started: they are validated and precede the prompt.
func TestSessionResumeWithParameters(t *testing.T) {
	t.Parallel()
	flow := harness.Orchestrator()
	flow.Agents[0].Inputs = &plan.Inputs{Mode: plan.InputsMerged, Style: plan.StyleDocumented, Schema: json.RawMessage(`{"type":"object","required":["topic"],"properties":{"topic":{"enum":["bees","ants"]},"note":{}},"additionalProperties":false}`)}
	on := func(params string) string {
		return `{tool: resume_agent_session, arguments: {session_id: "` + childID(1) + `", parameters: ` + params + `}}`
	}
	p := sessionRun(t, flow, `rules:
- {node: helper, match: "^<inputs>\ntopic: ants\nnote: None\n</inputs>\n\nmore$", say: "of ants"}
- {node: helper, match: "^<inputs>\ntopic: bees\n</inputs>\n\nhelp$", say: "of bees"}
- {node: boss, turn: 1, call: [{tool: start_agent_session, arguments: {agent_name: helper, parameters: {topic: bees, prompt: help}}}]}
- {node: boss, turn: 2, call: [`+strings.Join([]string{on("{prompt: more}"), on("{prompt: more, topic: [cats]}"), on("{topic: ants}"), on("[1]"), on("{prompt: more, topic: ants, note: null}")}, ", ")+`]}
- {node: boss, say: "done"}`, nil, stop(t))
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	const refused = `{"error":"parameter_validation_failed: Parameters do not match agent's parameters_schema (\"helper\"): `
	want := []string{`{"session_id":"` + childID(1) + `","result_text":"of bees","result_data":null}`,
		refused + `$.topic: 'topic' is a required property"}`, refused + `$.topic: ['cats'] is not one of ['bees', 'ants']"}`, refused + `$.prompt: 'prompt' is a required property"}`,
		`{"error":"parameters must be an object"}`, `{"session_id":"` + childID(1) + `","result_text":"of ants","result_data":null}`}
	if diff := cmp.Diff(want, sessionToolReplies(t, p)); diff != "" {
		t.Errorf("tool replies (-want +got):\n%s", diff)
	}
}
