package dialects

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/specadapter"
	"weft/tests/harness"
	"weft/workflows"
	"weft/workflows/plan"
)

// TestBoundsOfTheWorker bind a flow whoever compiled it: a client with limits of its own, or the worker.
func TestBoundsOfTheWorker(t *testing.T) {
	bounds := &plan.Bounds{Limits: plan.Limits{MaxSteps: 1, MaxStateBytes: 1000}, Contexts: []plan.ContextRule{{Context: plan.Context{How: plan.ContextFail, Tokens: 7000}}}}
	const two = `{"name":"two","nodes":[{"id":"a","name":"A","prompt":"p"},{"id":"b","name":"B","prompt":"p","is_exit_node":true}],
"edges":[{"id":"1","source":"START","target":"a"},{"id":"2","source":"a","target":"b"},{"id":"3","source":"b","target":"END"}]}`
	compiled, diags := specadapter.Load("two.json", []byte(two), specadapter.Options{Bounds: plan.Bounds{Limits: plan.Limits{MaxSteps: 500}}})
	if compiled == nil {
		t.Fatal(diags)
	}
	tests := map[string]struct {
		set  func(in *contract.RunInput)
		want []string
	}{
		"a document":           {func(*contract.RunInput) {}, []string{"limits.max_state_bytes: 1048576, cut to 1000", "limits.max_steps: 25, cut to 1"}},
		"a document and steps": {func(in *contract.RunInput) { in.MaxSteps = 40 }, []string{"limits.max_state_bytes: 1048576, cut to 1000", "limits.max_steps: 40, cut to 1"}},
		"a plan": {func(in *contract.RunInput) { in.Flow = contract.FlowRef{Plan: compiled.Flow} },
			[]string{"limits.max_state_bytes: 1048576, cut to 1000", "limits.max_steps: 500, cut to 1"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := harness.TestRun{Settings: workflows.Settings{Bounds: bounds}, Document: two, Script: "rules: [{say: ok}]", SetInput: tc.set}.Execute(t)
			if f := contract.FailureOf(p.Err); p.Err == nil || f.Class != contract.ClassStepLimit {
				t.Errorf("the run ended with %v, want %s", p.Err, contract.ClassStepLimit)
			}
			var s contract.Status
			harness.Query(t, p.Env, contract.QueryStatus, &s)
			if diff := cmp.Diff(tc.want, s.Limited); diff != "" {
				t.Errorf("limited (-want +got):\n%s", diff)
			}
			var f plan.Flow
			harness.Query(t, p.Env, contract.QueryPlan, &f)
			if c := f.Nodes[0].Agent.Context; c == nil || c.Tokens != 7000 {
				t.Errorf("the agent's context is %+v", c)
			}
		})
	}
}
