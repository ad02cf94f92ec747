package e2e

import (
	"fmt"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/workflows/plan"
)

// TestEndToEndReferencesAcrossRuns checks that a session and a branch that continue in new runs keep the long texts to
// which only their conversations refer: earlier prompts, and overwritten values. A worker that has not cached them
// queries the run.
func TestEndToEndReferencesAcrossRuns(t *testing.T) {
	t.Parallel()
	long := func(letter string) string { return strings.Repeat(letter, 3000) }
	t.Run("a session", func(t *testing.T) {
		t.Parallel()
		h := harness.NewWorker(t, 1)
		run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.OneNode(""), Name: "flow.json"}, Input: "first " + long("f"), Session: true, MaxEvents: 1,
			Script: harness.Script(t, fmt.Sprintf(`rules:
- {turn: 1, say: one}
- {turn: 2, call: [{tool: set_state, arguments: {key: k, value: %s}}, {tool: set_state, arguments: {key: l, value: %s}}]}
- {turn: 3, call: [{tool: get_state, arguments: {keys: [k]}}]}
- {turn: 4, call: [{tool: set_state, arguments: {key: k, value: 1}}]}
- {turn: 5, say: two}
- {turn: 6, call: [{tool: get_state, arguments: {keys: [l]}}]}
- {turn: 7, contains: %s, say: three}
- {say: it is lost}`, long("k"), long("l"), long("l")))})
		h.WaitForTurns(t, run.GetID(), 1)
		for i, want := range []string{"two", "three"} {
			got := h.Prompt(t, run.GetID(), fmt.Sprint("p", i), want+" "+long("p"))
			if got.ResultText == nil || *got.ResultText != want {
				t.Errorf("turn %d = %+v, %v", i+2, got, got.Failure)
			}
		}
		h.CloseSession(t, run)
	})
	t.Run("a branch", func(t *testing.T) {
		t.Parallel()
		h := harness.NewWorker(t, 1)
		f := harness.GraphPlan("refers", []harness.GraphNode{{ID: "a"}, {ID: "b"}, {ID: "j", Defer: true, Exit: true}}, []harness.GraphEdge{{Source: plan.Start, Target: "a"}, {Source: plan.Start, Target: "b"},
			{Source: "a", Target: "j"}, {Source: "b", Target: "j"}, {Source: "j", Target: plan.End}})
		f.Nodes[0].Agent.Builtins, f.Nodes[1].Agent.Builtins = plan.Builtins, plan.Builtins
		out, err := harness.Result(t, h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: f}, MaxEvents: 1, Script: harness.Script(t, fmt.Sprintf(`rules:
- {node: a, turn: 1, call: [{tool: set_state, arguments: {key: k, value: %s}}]}
- {node: a, turn: 2, call: [{tool: get_state, arguments: {keys: [k]}}]}
- {node: a, turn: 3, call: [{tool: set_state, arguments: {key: k, value: 1}}]}
- {node: a, turn: 4, call: [{tool: list_state_keys}]}
- {node: a, contains: %s, say: kept}
- {node: b, turn: 1, call: [{tool: list_state_keys}]}
- {node: b, turn: 2, call: [{tool: list_state_keys}]}
- {node: j, contains: kept, say: kept}
- {say: done}`, long("k"), long("k")))}))
		if err != nil || *out.ResultText != "kept" {
			t.Errorf("result = %+v, %v", out, err)
		}
	})
}
