package runtime

import (
	"testing"
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/workflowtest"
)

// TestRunsPerSecond checks that six starts are delayed if two are allowed per second.
func TestRunsPerSecond(t *testing.T) {
	workflowtest.Run(t, func(ctx workflow.Context) {
		r := New(ctx)
		r.Shared.Budget = &contract.Budget{PerSecond: 2}
		start := workflow.Now(ctx)
		for i := range 6 {
			release, err := r.Budget.Begin(ctx, true)
			if err != nil {
				t.Fatal(err)
			}
			release()
			if got, want := workflow.Now(ctx).Sub(start), time.Duration(i/2)*time.Second; got != want {
				t.Errorf("run %d started after %v, want %v", i+1, got, want)
			}
		}
		if r.Budget.Usage.Runs != 6 {
			t.Errorf("%d runs counted, want 6", r.Budget.Usage.Runs)
		}
	})
}

// TestPortion checks the portions of a budget that is partly spent and partly reserved.
func TestPortion(t *testing.T) {
	workflowtest.Run(t, func(ctx workflow.Context) {
		r := New(ctx)
		r.Shared.Budget = &contract.Budget{Calls: 20, Tokens: 100, Declared: 3, AtOnce: 3, PerSecond: 9}
		r.Budget.Usage = contract.Usage{Calls: 7, Stopped: 1, Input: 10, Output: 30, Declared: 1}
		r.Budget.Earmark(contract.Budget{Calls: 2, Declared: 1}, 1)
		for n, want := range map[int]contract.Budget{
			1: {Calls: 10, Tokens: 60, Declared: 1, AtOnce: 3, PerSecond: 9},
			4: {Calls: 2, Tokens: 15, Declared: exhausted, AtOnce: 1, PerSecond: 2},
		} {
			if got := r.Budget.Portion(n); got != want {
				t.Errorf("Portion(%d) = %+v, want %+v", n, got, want)
			}
		}
	})
}
