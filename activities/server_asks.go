package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/activities/tool/questions"
	"weft/workflows/plan"
)

// Asker is a [Source] whose runs answer what servers ask while an activity holds their calls.
type Asker interface {
	AskRun(ctx context.Context, in *contract.ServerAsks) (*contract.ServerAnswer, error)
}

// askRun has the activity's run answer what a server asks; nil where it cannot.
func (a *Activities) askRun(ctx context.Context) questions.Ask {
	asker, ok := a.deps.Source.(Asker)
	if !ok || isLocal(ctx) {
		return nil
	}
	info := activity.GetInfo(ctx)
	return func(ctx context.Context, n int, q contract.ToolQuestion, within time.Duration) (*contract.ServerAnswer, error) {
		in := &contract.ServerAsks{Call: info.ActivityID, Attempt: info.Attempt, N: n, Ask: q, Timeout: plan.Seconds(max(1, int(within.Seconds())))}
		out, err := asker.AskRun(ctx, in)
		if err != nil && ctx.Err() != nil {
			// The call has ended, and its questions with it, or the server has cancelled this one.
			quiet, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
			defer cancel()
			_, _ = asker.AskRun(quiet, &contract.ServerAsks{Call: in.Call, Attempt: in.Attempt, N: n, Withdrawn: true}) // at most it stays until the call ends
		}
		return out, err
	}
}

const withdrawTimeout = 5 * time.Second

// AskRun sends the run the Update. It waits while the run has too many open.
func (s *clientSource) AskRun(ctx context.Context, in *contract.ServerAsks) (*contract.ServerAnswer, error) {
	run := activity.GetInfo(ctx).WorkflowExecution
	for try := 1; ; try++ {
		out := &contract.ServerAnswer{}
		h, err := s.client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			WorkflowID: run.ID, RunID: run.RunID, UpdateName: contract.UpdateServerAsks, Args: []any{in}, WaitForStage: client.WorkflowUpdateStageCompleted,
			UpdateID: fmt.Sprintf("%s/%d/%d/%t/%d", in.Call, in.Attempt, in.N, in.Withdrawn, try),
		})
		if err == nil {
			err = h.Get(ctx, out)
		}
		if err == nil {
			return out, nil
		}
		f := contract.FailureOf(err)
		if ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), err)
		}
		if f.Class != contract.ClassUnavailable {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}
