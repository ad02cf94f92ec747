package workflows

import (
	"testing"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/runtime"
	"weft/workflows/schedule"
	"weft/workflows/schedule/scheduletest"
	"weft/workflows/workflowtest"
)

// TestRunsInPlace checks which chains run in the flow's own run. The chain under test begins with a, and a second one with z.
func TestRunsInPlace(t *testing.T) {
	tests := map[string]struct {
		edges  string
		change func(f *flowRun)
		calls  int
		want   bool
	}{
		"one call":                   {edges: "a>j z>j j>END", calls: 1, want: true},
		"a chain":                    {edges: "a>b b>c c>j z>j j>END", calls: 3, want: true},
		"questions":                  {edges: "a>b? a>j? b>j z>j j>END", calls: 4, want: true},
		"a loop within the branch":   {edges: "a>a? a>j? z>j j>END"},
		"a loop through other nodes": {edges: "a>b b>a? b>j? z>j j>END"},
		"a loop around the join":     {edges: "a>j z>j j>a? j>END?", calls: 1, want: true},
		"branches as children":       {edges: "a>j z>j j>END", change: func(f *flowRun) { f.run.Flow.Policy.Branches = plan.BranchesAsChildren }},
		"too many calls": {edges: "a>j z>j j>END", calls: 2001, change: func(f *flowRun) {
			f.run.Flow.Node("a").Agent.Builtins, f.run.Flow.Node("a").Agent.MaxCalls = plan.Builtins, 1000
		}},
		"too many calls in flight": {edges: "a>j z>j j>END", calls: 1, change: func(f *flowRun) { f.run.Sizes.CallsInPlace = maxCallsInPlace }},
		"a question to a user":     {edges: "a>j z>j j>END", change: func(f *flowRun) { f.run.Flow.Node("a").Kind = plan.KindAsk }},
		"a call with confirmation": {edges: "a>j z>j j>END", change: func(f *flowRun) {
			f.run.Flow.Node("a").Agent.Tools = []plan.Tool{{Name: "pay", As: "pay", Connection: "bank"}}
			f.run.Shared.Connections = []contract.ResolvedConnection{{ID: "bank", CallRules: contract.CallRules{Confirm: []contract.ConfirmRule{{Name: "pay"}}}}}
		}},
		"a client tool": {edges: "a>j z>j j>END", change: func(f *flowRun) {
			f.run.Flow.Node("a").Agent.Tools = []plan.Tool{{Name: "look", As: "look", Connection: "web"}}
			f.run.Shared.Connections = []contract.ResolvedConnection{{ID: "web", Connection: plan.Connection{Kind: plan.ConnectionClient}}}
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			workflowtest.Run(t, func(ctx workflow.Context) {
				f := newFlowRun(runtime.New(ctx))
				f.run.Flow = scheduletest.Sketch("START>a START>z " + tc.edges)
				if tc.change != nil {
					tc.change(f)
				}
				f.run.Graph = schedule.NewGraph(f.run.Flow)
				f.sched = schedule.New(f.run.Graph)
				if err := f.sched.Arrive(f.run.Graph.Starts, 1, "", contract.View{}); err != nil {
					t.Fatal(err)
				}
				ready, err := f.sched.Ready(nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				calls, ok := runsInPlace(f, ready[0])
				if calls != tc.calls || ok != tc.want {
					t.Errorf("got %d calls, in place %t; want %d, %t", calls, ok, tc.calls, tc.want)
				}
			})
		})
	}
}
