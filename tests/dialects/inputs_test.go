package dialects

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/workflows"
)

const noInputs = `{"name":"one","nodes":[{"id":"a","name":"A","prompt":"p","is_exit_node":true}],
 "edges":[{"id":"1","source":"START","target":"a"},{"id":"2","source":"a","target":"END"}]}`

// TestUndeclaredParams checks that params of a flow that declares no inputs are rejected, not silently dropped.
func TestUndeclaredParams(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		params string
		err    string
	}{
		"none":      {},
		"null":      {params: "null"},
		"an object": {params: `{"city":"Bern"}`, err: `the run supplies params, but the flow "one", of the dialect continuum, declares no inputs`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := harness.TestRun{Document: noInputs, Script: "default: {say: done}", SetInput: func(in *contract.RunInput) { in.Params = json.RawMessage(tc.params) }}.Execute(t)
			switch {
			case tc.err == "" && (p.Err != nil || harness.ResultText(p.Result) != "done"):
				t.Errorf("run failed with %v", p.Err)
			case tc.err != "" && (p.Err == nil || p.Err.Class != contract.ClassBadRequest || !strings.Contains(p.Err.Text, tc.err)):
				t.Errorf("failure is %v, want %q", p.Err, tc.err)
			}
		})
	}
}

// TestNamedFlowsRejectClientInputs checks that a worker restricted to its own flows rejects client inputs that no policy allows.
func TestNamedFlowsRejectClientInputs(t *testing.T) {
	t.Parallel()
	allInputs := []string{contract.SuppliesFlow, "model", "script", "limits", "state", "connections"}
	tests := map[string]struct {
		supplies string
		set      func(*contract.RunInput)
	}{
		"a document":  {contract.SuppliesFlow, func(*contract.RunInput) {}},
		"a plan":      {contract.SuppliesFlow, func(in *contract.RunInput) { in.Flow = contract.FlowRef{Plan: harness.FanIn("own", "a")} }},
		"a fork":      {contract.SuppliesFlow, func(in *contract.RunInput) { in.Fork = &contract.ForkedFrom{Node: "a", Step: 1} }},
		"a model":     {"model", func(*contract.RunInput) {}},
		"a script":    {"script", func(*contract.RunInput) {}},
		"steps":       {"limits", func(in *contract.RunInput) { in.MaxSteps = 100 }},
		"events":      {"limits", func(in *contract.RunInput) { in.MaxEvents = 100 }},
		"state":       {"state", func(in *contract.RunInput) { in.State = map[string]json.RawMessage{"k": json.RawMessage("1")} }},
		"connections": {"connections", func(in *contract.RunInput) { in.DataConnections = harness.MailConnection() }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clients := slices.DeleteFunc(slices.Clone(allInputs), func(what string) bool { return what == tc.supplies })
			r := harness.TestRun{Settings: workflows.Settings{Named: true, Policies: []contract.Policy{{Name: "clerks", Clients: clients, Scripts: true}}},
				Document: harness.OneNode(""), Script: "rules: [{say: ok}]", SetInput: tc.set}
			p := r.Execute(t)
			if p.Err == nil || !strings.Contains(p.Err.Text, "the run supplies "+tc.supplies+", but") || p.Err.Remedy == "" {
				t.Errorf("run failed with %v", p.Err)
			}
		})
	}
	p := harness.TestRun{Settings: workflows.Settings{Named: true, Policies: []contract.Policy{{Name: "clerks", Clients: allInputs, Scripts: true}}}, Document: harness.SubAgentFlow, Script: `rules:
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: one}}]}
- {say: done}`}.Execute(t)
	if p.Err != nil {
		t.Errorf("a flow that the worker compiled cannot call its sub-agent: %v", p.Err)
	}
}
