// Package limiter is the workflow that gives the calls with one key of a provider their turns, on all workers of a namespace.
//
// Workers ask it by Updates, many calls at once. It makes no calls, continues as new after some hundred Updates, and ends when
// nobody has asked for a while or nothing is limited. Start at [Limiter]; what it decides is in schedule.go, which knows no
// Temporal.
package limiter

import (
	"cmp"
	"time"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/wait"
)

const (
	// maxUpdates is after how many Updates a limiter continues as new: its history stays short.
	maxUpdates = 400
	// idleWindows is after how many windows without an Update it ends.
	idleWindows = 15
)

// Register lets a worker of [contract.LimiterQueue] run limiters.
func Register(w worker.WorkflowRegistry) {
	w.RegisterWorkflowWithOptions(Limiter, workflow.RegisterOptions{Name: contract.WorkflowLimiter})
}

// Limiter answers Updates until nobody has asked for a while, or nothing is limited any more.
func Limiter(ctx workflow.Context, in contract.LimiterInput) error {
	window := cmp.Or(time.Duration(in.WindowMillis)*time.Millisecond, time.Minute)
	q := NewQueue(in.State, window)
	answered, free := 0, false
	err := workflow.SetUpdateHandler(ctx, contract.UpdateReserve, func(ctx workflow.Context, asked contract.LimitRequest) (*contract.LimitReply, error) {
		answered++
		out := q.Reserve(workflow.Now(ctx).UnixMicro(), &asked)
		free = out.Free
		return out, nil
	})
	if err != nil {
		return err
	}
	for seen := -1; seen < answered && !free; {
		seen = answered
		full, err := wait.For(ctx, idleWindows*window, "ends when no worker asks", func() bool {
			return free || answered >= maxUpdates || workflow.GetInfo(ctx).GetContinueAsNewSuggested()
		})
		switch {
		case err != nil:
			return err
		case full && !free:
			return workflow.NewContinueAsNewError(ctx, contract.WorkflowLimiter, contract.LimiterInput{WindowMillis: in.WindowMillis, State: q.State()})
		}
	}
	return nil
}
