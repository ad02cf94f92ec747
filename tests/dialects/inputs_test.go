package dialects

import (
	"encoding/json"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/workflows"
)

const undeclaring = `{"name":"one","nodes":[{"id":"a","name":"A","prompt":"p","is_exit_node":true}],
 "edges":[{"id":"1","source":"START","target":"a"},{"id":"2","source":"a","target":"END"}]}`

// A flow that declares no inputs refuses params: dropping them would be a silent default.
func TestUndeclaredParams(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		params string
		err    string
	}{
		"none":      {},
		"null":      {params: "null"},
		"an object": {params: `{"city":"Bern"}`, err: `the run brings params, but the flow "one", of the dialect continuum, declares no inputs`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := harness.TestRun{Document: undeclaring, Script: "default: {say: done}", SetInput: func(in *contract.RunInput) { in.Params = json.RawMessage(tc.params) }}.Execute(t)
			switch {
			case tc.err == "" && (p.Err != nil || harness.ResultText(p.Result) != "done"):
				t.Errorf("got %v", p.Err)
			case tc.err != "" && (p.Err == nil || p.Err.Class != contract.ClassBadRequest || !strings.Contains(p.Err.Text, tc.err)):
				t.Errorf("failure is %v, want %q", p.Err, tc.err)
			}
		})
	}
}

// A worker that runs the flows of its folder alone takes no plan, of either workflow type.
func TestPlansAreRefused(t *testing.T) {
	t.Parallel()
	p := harness.TestRun{Settings: workflows.Settings{RefusePlans: true}, SetInput: func(in *contract.RunInput) {
		in.Flow = contract.FlowRef{Plan: harness.GraphPlan("own", []harness.GraphNode{{ID: "a", Exit: true}}, nil)}
	}}.Execute(t)
	if p.Err == nil || p.Err.Class != contract.ClassInvalidFlow || !strings.Contains(p.Err.Text, "flows.accept: named") {
		t.Errorf("a plan gives %v", p.Err)
	}
	if p := (harness.TestRun{Settings: workflows.Settings{RefusePlans: true}, Document: harness.SubAgentFlow, Script: `rules:
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: one}}]}
- {say: done}`}).Execute(t); p.Err != nil {
		t.Errorf("a flow that the worker compiled cannot call its sub-agent: %v", p.Err)
	}
}
