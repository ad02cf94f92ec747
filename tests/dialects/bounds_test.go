package dialects

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/specadapter"
	"weft/tests/harness"
	"weft/workflows"
	"weft/workflows/plan"
)

// TestBoundsOfTheWorker checks that the worker's limits apply to flows that it compiles, and to plans that a client compiled with other limits.
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
		"a document":               {func(*contract.RunInput) {}, []string{"limits.max_state_bytes: 1048576, cut to 1000", "limits.max_steps: 25, cut to 1"}},
		"a document and max steps": {func(in *contract.RunInput) { in.MaxSteps = 40 }, []string{"limits.max_state_bytes: 1048576, cut to 1000", "limits.max_steps: 40, cut to 1"}},
		"a budget": {func(in *contract.RunInput) { in.Budget = &contract.Budget{Calls: 50, Tokens: 8000} },
			[]string{"limits.max_state_bytes: 1048576, cut to 1000", "limits.max_steps: 25, cut to 1", "budget.calls: 50, cut to 7"}},
		"a plan": {func(in *contract.RunInput) { in.Flow = contract.FlowRef{Plan: compiled.Flow} },
			[]string{"limits.max_state_bytes: 1048576, cut to 1000", "limits.max_steps: 500, cut to 1"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := harness.TestRun{Settings: workflows.Settings{Bounds: bounds, BudgetLimits: &contract.BudgetLimits{Most: contract.Budget{Calls: 7, Tokens: 9000}}}, Document: two, Script: "rules: [{say: ok}]", SetInput: tc.set}.Execute(t)
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
				t.Errorf("context of the agent = %+v", c)
			}
		})
	}
}

// TestDeclaredRuns maps over five elements with limits of five and of four declared runs.
func TestDeclaredRuns(t *testing.T) {
	const start = `{component_type: StartNode, inputs: [{title: xs, type: array, items: {type: integer}}]}`
	flat := `flow: {nodes: {s: ` + start + `, each: {component_type: MapNode, subflow: "@one", reducers: {x: sum}}, e: {component_type: EndNode, outputs: [{title: total, type: integer}]}},
  go: [s > each > e], data: [s.xs > each.iterated_x, each.collected_x > e.total]}
one: {nodes: {s1: {component_type: StartNode, inputs: [{title: x, type: integer}]}, e1: {component_type: EndNode, outputs: [{title: x, type: integer}]}}, go: [s1 > e1]}`
	for _, tc := range []struct {
		declared int
		want     string
	}{{declared: 5}, {declared: 4, want: contract.ClassBudget}} {
		p := harness.TestRun{Document: specDoc(t, flat), SetInput: func(in *contract.RunInput) { in.Params = []byte(`{"xs":[1,2,3,4,5]}`) },
			Settings: workflows.Settings{BudgetLimits: &contract.BudgetLimits{Most: contract.Budget{Declared: tc.declared}}}}.Execute(t)
		switch f := contract.FailureOf(p.Err); {
		case tc.want == "" && p.Err != nil:
			t.Errorf("limit %d: %v", tc.declared, p.Err)
		case tc.want != "" && (p.Err == nil || f.Class != tc.want || f.Node != "each"):
			t.Errorf("limit %d: the run ended with %v, want %s at node each", tc.declared, p.Err, tc.want)
		}
	}
}

// TestPolicyFlows checks that a policy's flows are those of the worker's folder, since a client's document can have any name.
func TestPolicyFlows(t *testing.T) {
	policies := []contract.Policy{{Name: "p", Flows: []string{"one"}}}
	p := harness.TestRun{Settings: workflows.Settings{Policies: policies}, Document: strings.Replace(harness.OneNode(""), `"name":"`, `"name":"one","x":"`, 1), Script: "rules: [{say: ok}]"}.Execute(t)
	if f := contract.FailureOf(p.Err); p.Err == nil || f.Class != contract.ClassDenied || !strings.Contains(f.Text, "supplied by") {
		t.Errorf("the run ended with %v, want class %s", p.Err, contract.ClassDenied)
	}
}
