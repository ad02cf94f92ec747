package runs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
)

// ReceiptTimeout is how long an answer waits for its receipt.
const ReceiptTimeout = time.Minute

// ErrNoReceipt is the error of an Update that no worker took in time.
var ErrNoReceipt = errors.New("no receipt")

// Signal sends a signal.
func (r *Run) Signal(ctx context.Context, name string, arg any) error {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	return r.Client.SignalWorkflow(ctx, r.ID, "", name, arg)
}

// Update sends an Update and waits for its receipt, or returns [ErrNoReceipt] after [ReceiptTimeout].
func (r *Run) Update(ctx context.Context, name string, arg any) (*contract.Receipt, error) {
	limited, cancel := within(ctx, ReceiptTimeout)
	defer cancel()
	h, err := r.Client.UpdateWorkflow(limited, client.UpdateWorkflowOptions{
		WorkflowID: r.ID, UpdateName: name, Args: []any{arg}, WaitForStage: client.WorkflowUpdateStageCompleted})
	var receipt contract.Receipt
	if err == nil {
		err = h.Get(limited, &receipt)
	}
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = ErrNoReceipt
	}
	return &receipt, err
}

// within cancels a context after d, without a deadline, to which the server could respond first.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(d, cancel)
	return ctx, func() { timer.Stop(); cancel() }
}

// Resume sends a prompt to a session, again if it continues as new, and waits for its turn, or with detach until it is accepted.
func (r *Run) Resume(ctx context.Context, in contract.PromptInput, detach bool) (*contract.Turn, error) {
	stage := client.WorkflowUpdateStageCompleted
	if detach {
		stage = client.WorkflowUpdateStageAccepted
	}
	for try := 1; ; try++ {
		limited, cancel := within(ctx, ReceiptTimeout)
		h, err := r.Client.UpdateWorkflow(limited, client.UpdateWorkflowOptions{
			WorkflowID: r.ID, UpdateID: fmt.Sprintf("%s/%.8s/%d", in.ID, in.Hash(), try), UpdateName: contract.UpdatePrompt, Args: []any{in}, WaitForStage: stage})
		turn := contract.Turn{ID: in.ID, Status: contract.TurnQueued}
		if err == nil && detach {
			cancel()
			return &turn, refusal(ctx, h)
		}
		for err == nil {
			if err = h.Get(limited, &turn); err == nil || limited.Err() == nil || ctx.Err() != nil {
				break
			}
			// It was taken: the turn lasts.
			cancel()
			limited, cancel = within(ctx, ReceiptTimeout)
			err = nil
		}
		late := limited.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && late:
			return nil, ErrNoReceipt
		case err != nil:
			return nil, err
		case turn.Done():
			return &turn, nil
		}
	}
}

// refusal returns why an Update was refused, nil if it was not: a handle knows that without asking
// the server, and returns nothing else to a context that is done.
func refusal(ctx context.Context, h client.WorkflowUpdateHandle) error {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if err := h.Get(ctx, nil); Is[*temporal.ApplicationError](err) {
		return err
	}
	return nil
}

// Turns asks a session for its turns. The error is a [*NoAnswerError] if nobody answers in time.
func (r *Run) Turns(ctx context.Context) ([]contract.Turn, error) {
	limited, cancel := within(ctx, r.patience())
	defer cancel()
	value, err := r.Client.QueryWorkflow(limited, r.ID, "", contract.QueryTurns)
	switch {
	case err == nil:
	case ctx.Err() != nil || Is[*serviceerror.QueryFailed](err) || Is[*serviceerror.NotFound](err) || Is[*serviceerror.Unavailable](err):
		return nil, err
	default:
		// The server may know that no worker is there, or have waited as long, and says so in various words.
		return nil, r.noAnswer(errors.New("the question got no answer"))
	}
	var out []contract.Turn
	err = value.Get(&out)
	return out, err
}

// AwaitTurn waits for a finished turn that found accepts; it returns nil if ctx is done first.
func (r *Run) AwaitTurn(ctx context.Context, found func(*contract.Turn) bool) *contract.Turn {
	for ctx.Err() == nil {
		turns, _ := r.Turns(ctx)
		for i := range turns {
			if t := &turns[i]; t.Done() && found(t) {
				_ = Sleep(ctx, TurnInterval) // its last events are on their way
				return t
			}
		}
		_ = Sleep(ctx, TurnInterval)
	}
	return nil
}

// TurnInterval is how long to wait between two questions about a session's turn.
const TurnInterval = 500 * time.Millisecond
