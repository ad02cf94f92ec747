package workflows

import (
	"encoding/json"
	"strings"
	"testing"

	"weft/workflows/workflowtest"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/schedule"
	"weft/workflows/schedule/scheduletest"
)

// TestSnapshotTooLarge checks that the failure for an oversized snapshot names the node, or the input, that contributed most.
func TestSnapshotTooLarge(t *testing.T) {
	entry := func(exec string, n int) contract.StateEntry {
		return contract.StateEntry{Key: exec, Value: json.RawMessage(`"` + strings.Repeat("v", n) + `"`), By: contract.Stamp{Exec: exec, Step: 3}}
	}
	tests := map[string]struct {
		state []contract.StateEntry
		input int
		node  string
		text  string
	}{
		"node":                    {state: []contract.StateEntry{entry("a#3", 1000), entry("START", 500)}, node: "a"},
		"initial state":           {state: []contract.StateEntry{entry("a#3", 500), entry("START", 1000)}, node: plan.Start, text: "are the run's input"},
		"input":                   {state: []contract.StateEntry{entry("a#3", 500)}, input: 1000, node: plan.Start, text: "are the run's input"},
		"input and initial state": {state: []contract.StateEntry{entry("a#3", 500), entry("START", 300)}, input: 300, node: plan.Start, text: "are the run's input"},
		"unknown":                 {node: "b"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			workflowtest.Run(t, func(ctx workflow.Context) {
				f := singleNodeRun(ctx, 0, 0)
				f.run.Flow = scheduletest.Sketch("START>a a>b b>END")
				f.run.Graph = schedule.NewGraph(f.run.Flow)
				f.sched = schedule.New(f.run.Graph)
				f.trace = []contract.Execution{{Node: "b", Step: 7}}
				if tc.input > 0 {
					f.run.Shared.Input = f.run.Transcript.Write(f.run.Transcript.Open("input"), contract.InputMessage(strings.Repeat("i", tc.input), nil))
				}
				for range 3 { // state shared by several executions counts once
					if err := f.sched.Arrive([]int{1}, 8, "", contract.View{State: tc.state}); err != nil {
						t.Fatal(err)
					}
				}
				got := contract.FailureOf(locateOversize(f, f.run.Sizes.Fits("it", strings.Repeat("x", contract.MaxPayload))))
				if got.Class != contract.ClassStateTooLarge || got.Node != tc.node || !strings.Contains(got.Text, tc.text) ||
					strings.Contains(got.Text, "input") != (tc.text != "") || strings.HasPrefix(got.Remedy, "start the run") != (tc.text != "") {
					t.Errorf("failure = %+v", got)
				}
			})
		})
	}
}
