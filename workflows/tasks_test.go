package workflows

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/activity"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/schedule/scheduletest"
	"weft/workflows/workflowtest"
)

// TestTasksOfSuspendedBranches checks that, if a continued run fails or is cancelled, the open task of each branch that has not
// started yet is cancelled exactly once. The run has more branches than may start at the same time.
func TestTasksOfSuspendedBranches(t *testing.T) {
	const all = maxStarting + 10
	for name, tc := range map[string]struct {
		cancelled bool
		want      []string
	}{
		"a branch fails": {want: nodeNames(maxStarting, all)},
		"run cancelled":  {cancelled: true, want: nodeNames(0, all)},
	} {
		t.Run(name, func(t *testing.T) {
			sketch := ""
			snapshot := &contract.RunSnapshot{Usage: contract.Usage{Declared: all}}
			for _, id := range nodeNames(0, all) {
				sketch += fmt.Sprintf("START>%s %s>END ", id, id)
				task := &contract.OpenTask{Cancel: contract.ToolInput{TaskID: id, CancelTask: true}}
				snapshot.Live = append(snapshot.Live, contract.ExecutionState{Node: id, Step: 1, Occurrence: 1, Arrivals: []contract.ArrivalState{{}},
					Suspended: &contract.SuspendedExecution{Steps: []contract.JournalStep{{ID: id + "#1/tool", Task: task}}}})
			}
			snapshot.Plan = scheduletest.Sketch(sketch)
			snapshot.Plan.Policy.Branches = plan.BranchesAsChildren
			env := workflowtest.Env()
			Register(env)
			env.SetContinuedExecutionRunID("before")
			var mu sync.Mutex
			cancelled := map[string]int{}
			env.RegisterActivityWithOptions(func(_ context.Context, in contract.ToolInput) (*contract.ToolResult, error) {
				mu.Lock()
				defer mu.Unlock()
				cancelled[in.TaskID]++
				return &contract.ToolResult{}, nil
			}, activity.RegisterOptions{Name: contract.ActivityCallTool})
			fails := contract.Failf(contract.ClassInternal, "", "a branch fails").ApplicationError()
			env.OnWorkflow(contract.WorkflowBranch, mock.Anything, mock.Anything).Return(nil, fails).After(time.Second)
			if tc.cancelled {
				env.RegisterDelayedCallback(func() { env.CancelWorkflow() }, 0)
			}
			env.ExecuteWorkflow(contract.WorkflowFlow, contract.RunInput{V: contract.Version, Snapshot: snapshot})
			if env.GetWorkflowError() == nil {
				t.Error("the run completed, want a failure")
			}
			for id, n := range cancelled {
				if n != 1 {
					t.Errorf("the task of %s was cancelled %d times, want once", id, n)
				}
			}
			if got := slices.Sorted(maps.Keys(cancelled)); !slices.Equal(got, tc.want) {
				t.Errorf("the tasks of %v were cancelled, want %v", got, tc.want)
			}
		})
	}
}

// nodeNames returns the names of the nodes with the numbers from (inclusive) to (exclusive).
func nodeNames(from, to int) (out []string) {
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("n%02d", i))
	}
	return out
}
