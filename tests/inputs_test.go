package tests

import (
	"encoding/json"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/workflows"
)

const undeclaring = `{"name":"one","nodes":[{"id":"a","name":"A","prompt":"p","is_exit_node":true}],
 "edges":[{"id":"1","source":"START","target":"a"},{"id":"2","source":"a","target":"END"}]}`

// A flow that declares no inputs refuses params: dropping them would be a silent default.
func TestParamsThatNobodyDeclared(t *testing.T) {
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
			p := rehearsal{doc: undeclaring, script: "default: {say: done}", set: func(in *contract.RunInput) { in.Params = json.RawMessage(tc.params) }}.play(t)
			switch {
			case tc.err == "" && (p.err != nil || resultText(p.result) != "done"):
				t.Errorf("got %v", p.err)
			case tc.err != "" && (p.err == nil || p.err.Class != contract.ClassBadRequest || !strings.Contains(p.err.Text, tc.err)):
				t.Errorf("failure is %v, want %q", p.err, tc.err)
			}
		})
	}
}

// A worker that runs the flows of its folder alone takes no plan, of either workflow type.
func TestPlansAreRefused(t *testing.T) {
	p := rehearsal{settings: workflows.Settings{RefusePlans: true}, set: func(in *contract.RunInput) {
		in.Flow = contract.FlowRef{Plan: graphPlan("own", []graphNode{{ID: "a", Exit: true}}, nil)}
	}}.play(t)
	if p.err == nil || p.err.Class != contract.ClassInvalidFlow || !strings.Contains(p.err.Text, "flows.accept: named") {
		t.Errorf("a plan gives %v", p.err)
	}
	if p := (rehearsal{settings: workflows.Settings{RefusePlans: true}, doc: bundle, script: `rules:
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: one}}]}
- {say: done}`}).play(t); p.err != nil {
		t.Errorf("a flow that the worker compiled cannot call its sub-agent: %v", p.err)
	}
}
