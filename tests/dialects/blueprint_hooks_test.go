package dialects

import (
	"encoding/json"
	"strings"
	"testing"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/specadapter"
	"weft/specadapter/source"
	"weft/tests/harness"
	"weft/workflows/plan"
)

// agentWithHooks returns an agent with hooks before and after a run. onError is the on_error of the former.
func agentWithHooks(t *testing.T, onError string) *specadapter.Result {
	t.Helper()
	const parameters = `"parameters_schema":{"type":"object","properties":{"topic":{"type":"string","maxLength":3}},"additionalProperties":false}`
	res, diags := specadapter.Load("agents/writer/agent.json", []byte(`{"name":"writer","description":"Writes","system_prompt":"Write on ${params.topic}.",`+parameters+
		`,"hooks":{"on_run_start":{"agent_name":"guard","on_error":"`+onError+`","timeout_seconds":60},"on_run_finish":{"agent_name":"audit"}}}`),
		specadapter.Options{Host: source.Host{Files: []source.File{
			{Name: "agents/guard/agent.json", Text: `{"name":"guard","description":"Guards","system_prompt":"Guard."}`},
			{Name: "agents/audit/agent.json", Text: `{"name":"audit","description":"Audits","system_prompt":"Audit."}`},
		}}})
	if res == nil {
		t.Fatal(diags)
	}
	return res
}

func TestBlueprintHookBeforeRun(t *testing.T) {
	t.Parallel()
	const block, proceed = "block", "continue"
	tests := map[string]struct {
		onError, guard  string
		prompt, blocked string
	}{
		"continue":                 {block, `{action: continue}`, "<inputs>\ntopic: abc\n</inputs>\n\nGo.", ""},
		"replaced parameters":      {block, `{action: continue, parameters: {prompt: Stop., topic: longer than three}}`, "<inputs>\ntopic: longer than three\n</inputs>\n\nStop.", ""},
		"no action":                {block, `{verdict: fine}`, "Go.", ""},
		"block":                    {proceed, `{action: block, block_reason: not today}`, "", "Blocked by on_run_start hook: not today"},
		"block without a reason":   {proceed, `{action: block}`, "", "Blocked by on_run_start hook: No reason provided"},
		"invalid result, continue": {proceed, `[1]`, "Go.", ""},
		"invalid result, block":    {block, `[1]`, "", "Blocked by on_run_start hook: Hook error: the hook's result is [1], expected an object"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			res := agentWithHooks(t, tc.onError)
			r := harness.TestRun{Script: "rules:\n- {node: guard, match: 'topic: abc', json: " + tc.guard + "}\n- {node: writer, say: Written.}\n- {node: audit, say: Fine.}\n"}
			r.SetInput = func(in *contract.RunInput) {
				in.Flow, in.Params = contract.FlowRef{Plan: res.Flow, Source: &res.Source}, json.RawMessage(`{"topic":"abc","prompt":"Go."}`)
			}
			p := r.Execute(t)
			if tc.blocked != "" {
				if p.Err == nil || p.Err.Class != contract.ClassHookBlocked || p.Err.Text != tc.blocked {
					t.Errorf("the run ended with %v, want %s", p.Err, tc.blocked)
				}
				return
			}
			if p.Err != nil {
				t.Fatal(p.Err)
			}
			if messages := p.Messages(t, "writer#1"); !strings.Contains(harness.MessageText(messages[0]), tc.prompt) || *p.Result.ResultText != "Written." {
				t.Errorf("prompt of the agent = %q, want %q", harness.MessageText(messages[0]), tc.prompt)
			}
		})
	}
}

// TestBlueprintHookFailure checks that on_error decides the outcome of a run whose hook fails or times out.
func TestBlueprintHookFailure(t *testing.T) {
	t.Parallel()
	ask := &plan.Ask{Text: "May it?"}
	tests := map[string]struct {
		timeout, block bool
		want           string
	}{
		"failure, block":    {false, true, "Blocked by on_run_start hook: Hook failed: "},
		"failure, continue": {false, false, ""},
		"timeout, block":    {true, true, "Blocked by on_run_start hook: Hook timed out after 60s"},
		"timeout, continue": {true, false, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			res := agentWithHooks(t, "continue")
			res.Flow.Hooks.Before.Block = tc.block
			if tc.timeout {
				n := &res.Flow.SubFlow("on_run_start").Nodes[0]
				n.Kind, n.Agent, n.Ask = plan.KindAsk, nil, ask
			}
			r := harness.TestRun{Script: "rules:\n- {node: guard, fail: {class: refused, text: no}}\n- {node: writer, say: Written.}\n- {node: audit, say: Fine.}\n"}
			r.SetInput = func(in *contract.RunInput) {
				in.Flow, in.Params = contract.FlowRef{Plan: res.Flow}, json.RawMessage(`{"topic":"abc","prompt":"Go."}`)
			}
			p := r.Execute(t)
			switch {
			case tc.want == "" && (p.Err != nil || *p.Result.ResultText != "Written."):
				t.Errorf("the run ended with %v", p.Err)
			case tc.want != "" && (p.Err == nil || !strings.HasPrefix(p.Err.Text, tc.want)):
				t.Errorf("the run ended with %v, want %s", p.Err, tc.want)
			}
		})
	}
}

// TestBlueprintHookAfterValidation checks that parameters are validated before the hook, which is not started for an invalid run.
func TestBlueprintHookAfterValidation(t *testing.T) {
	t.Parallel()
	res := agentWithHooks(t, "block")
	r := harness.TestRun{Script: "rules: [{say: x}]", SetInput: func(in *contract.RunInput) {
		in.Flow, in.Params = contract.FlowRef{Plan: res.Flow}, json.RawMessage(`{"topic":"abcd","prompt":"Go."}`)
	}}
	if p := r.Execute(t); p.Err == nil || p.Err.Class != contract.ClassBadRequest || !strings.Contains(p.Err.Text, "'abcd' is too long") {
		t.Errorf("the run ended with %v", p.Err)
	}
}

// TestBlueprintHookAfterRun checks that the hook after a run gets the run's result, and is started only if the run completed.
func TestBlueprintHookAfterRun(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ answer, want string }{
		"text":    {"say: Written.", `{"prompt":"Written."}`},
		"data":    {`json: {"a": 1}`, `{"a":1}`},
		"failure": {"fail: {class: refused, text: no}", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			res := agentWithHooks(t, "continue")
			if name == "data" {
				res.Flow.Nodes[0].Agent.Output = &plan.Output{}
			}
			var params []string
			r := harness.TestRun{Script: "rules:\n- {node: guard, say: fine}\n- {node: writer, " + tc.answer + "}\n- {node: audit, say: Fine.}\n"}
			r.SetInput = func(in *contract.RunInput) {
				in.Flow, in.Params = contract.FlowRef{Plan: res.Flow}, json.RawMessage(`{"topic":"abc","prompt":"Go."}`)
			}
			r.Wrap = func(reg worker.ActivityRegistry) worker.ActivityRegistry {
				env := reg.(*testsuite.TestWorkflowEnvironment)
				env.SetOnChildWorkflowStartedListener(func(info *workflow.Info, _ workflow.Context, args converter.EncodedValues) {
					var in contract.RunInput
					if err := args.Get(&in); err == nil && strings.HasSuffix(info.WorkflowExecution.ID, "/hook:on_run_finish") {
						params = append(params, canonicalJSON(in.Params))
					}
				})
				return env
			}
			p := r.Execute(t)
			if got := strings.Join(params, " "); got != tc.want || (p.Err == nil) != (tc.want != "") {
				t.Errorf("params of the hook = %q, want %q; the run ended with %v", got, tc.want, p.Err)
			}
		})
	}
}
