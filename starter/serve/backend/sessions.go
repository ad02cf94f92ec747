package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"weft/activities/contract"
	"weft/starter/follow"
	"weft/starter/progress"
	"weft/starter/runs"
	"weft/starter/serve"
)

// asTurn updates the run of a session to describe one of its turns, as far as it is known.
func (b *Backend) asTurn(ctx context.Context, run *serve.Run, turn string) error {
	asked := time.Now()
	turns, _, err := b.Turns(ctx, run)
	switch {
	case errors.Is(err, errNoSession) && turn == "":
		return nil // a descendant that is not a session
	case errors.Is(err, errNoSession):
		return serve.NoRun(run.ID)
	case err != nil && turn == "" && run.Closed == nil:
		run.IsTurn = true // no worker reports the status of its turn
		if !b.busy(ctx, run.Queue, asked) {
			run.Silent = err
		}
		return nil
	case err != nil:
		return err
	}
	run.IsTurn = true
	t := turnNamed(turns, turn)
	switch {
	case t == nil && turn != "":
		return serve.NoRun(run.ID)
	case t == nil:
		return nil // it is no longer retained
	case t.StartedAt != nil:
		run.Started = *t.StartedAt
	}
	run.Closed, run.Status = t.EndedAt, cmp.Or(turnStatuses[t.Status], contract.StatusRunning)
	return nil
}

// busy reports whether a worker has polled since a query was sent: then it is running, but has not answered.
func (b *Backend) busy(ctx context.Context, queue string, asked time.Time) bool {
	limited, cancel := context.WithTimeout(ctx, runs.ClosedTimeout)
	defer cancel()
	last, err := b.LastPoll(limited, queue)
	return err == nil && last.After(asked)
}

func turnNamed(turns []contract.Turn, id string) *contract.Turn {
	if i := slices.IndexFunc(turns, func(t contract.Turn) bool { return t.ID == id && (id != "" || t.N == 1) }); i >= 0 {
		return &turns[i]
	}
	return nil
}

// turnStatuses maps the statuses of finished turns to statuses of runs.
var turnStatuses = map[string]string{contract.TurnCompleted: contract.StatusCompleted, contract.TurnFailed: contract.StatusFailed, contract.TurnStopped: contract.StatusCancelled}

var errNoSession = errors.New("the run is not a session")

// Turns queries an open session, or reads the result of a closed one.
func (b *Backend) Turns(ctx context.Context, run *serve.Run) ([]contract.Turn, bool, error) {
	if run.Silent != nil {
		return nil, false, run.Silent
	}
	limited, cancel := context.WithTimeout(ctx, runs.CallTimeout)
	defer cancel()
	r := b.of(run)
	d, err := b.Describe(limited, r.ID, "")
	if err != nil {
		return nil, false, problem(fmt.Errorf("describe the run %q: %w", r.ID, err))
	}
	r.Status, r.Queue = d.GetWorkflowExecutionInfo().GetStatus(), d.GetWorkflowExecutionInfo().GetTaskQueue()
	if !r.Open() {
		var res contract.RunResult
		if err := b.Client.GetWorkflow(limited, r.ID, "").Get(limited, &res); err == nil && len(res.Turns) > 0 {
			return res.Turns, false, nil
		}
	}
	turns, err := r.Turns(ctx)
	switch {
	case runs.Is[*serviceerror.QueryFailed](err):
		return nil, false, fmt.Errorf("%q: %w", r.ID, errNoSession)
	case runs.Is[*runs.NoAnswerError](err) && !r.Open():
		return nil, false, nil // it closed without turns in its result
	}
	return turns, r.Open(), problem(err)
}

func (b *Backend) awaitTurn(ctx context.Context, run *serve.Run) error {
	for {
		now, err := b.Find(ctx, run.ID)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !runs.Unavailable(err):
			return err
		case err == nil && now.Closed != nil:
			return nil
		}
		_ = runs.Sleep(ctx, 250*time.Millisecond)
	}
}

// Resume sends the next prompt to a session.
func (b *Backend) Resume(ctx context.Context, run *serve.Run, in contract.PromptInput) error {
	if run.Silent != nil {
		return run.Silent
	}
	_, err := b.of(run).Resume(ctx, in, true)
	return refusal(run, err)
}

// Stop closes a session.
func (b *Backend) Stop(ctx context.Context, run *serve.Run, by string) error {
	if run.Silent != nil {
		return run.Silent
	}
	_, err := b.of(run).Update(ctx, contract.UpdateCloseSession, contract.CloseSessionInput{By: by})
	return refusal(run, err)
}

// CheckEvent returns an error if id is not a valid id of an event.
func (b *Backend) CheckEvent(id string) error {
	if _, err := follow.ParsePosition(id); err != nil {
		return serve.NewProblem(serve.BadRequest, "send the id of an event of this run, or omit it", "invalid Last-Event-ID %.100q: %v", id, err)
	}
	return nil
}

var errTurnOver = errors.New("the turn has ended")

// Follow follows a run, starting after the event with the id after.
func (b *Backend) Follow(ctx context.Context, run *serve.Run, after string, send func(*serve.Event) error) error {
	position, err := follow.ParsePosition(after)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	target := b.of(run)
	target.RunID = b.first(ctx, run, target.ID, &position)
	report := &eventReport{send: send, cancel: cancel}
	report.follower = follow.New(target, report)
	report.follower.Resume(position)
	var helpers []func(context.Context)
	if run.IsTurn {
		target.Status = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
		// The session continues; send events up to the end of the turn.
		helpers = append(helpers, func(ctx context.Context) {
			if b.awaitTurn(ctx, run) == nil {
				_ = runs.Sleep(ctx, runs.TurnInterval)
				cancel(errTurnOver)
			}
		})
	}
	_, err = report.follower.Follow(ctx, helpers...)
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errTurnOver):
		return nil
	case cause != nil:
		return cause
	}
	return err
}

// first returns the run id to begin with: the position's, or the first that is retained.
func (b *Backend) first(ctx context.Context, run *serve.Run, workflow string, position *follow.Position) string {
	known := position.RunID()
	for _, id := range []string{known, run.First} {
		if id == "" || id == run.Current {
			continue
		}
		_, err := b.Describe(ctx, workflow, id)
		if !runs.Is[*serviceerror.NotFound](err) && !runs.Is[*serviceerror.InvalidArgument](err) {
			return id
		}
	}
	if known != run.Current {
		position.Restart() // the run is no longer retained; send what is
	}
	return run.Current
}

type eventReport struct {
	follower *follow.Follower
	send     func(*serve.Event) error
	cancel   context.CancelCauseFunc
	failed   bool
}

func (r *eventReport) Notify(n progress.Notice) {
	if r.failed {
		return
	}
	e := &serve.Event{ID: r.follower.Position(), Type: n.Event, Timestamp: n.Time, Node: n.Node, Call: n.Call, Attempt: n.Attempt,
		Model: n.Model, Usage: n.Usage, Request: n.Request, Message: n.Message, Skipped: n.Skipped, Text: n.Text}
	switch n.Event {
	case progress.EventRequest:
		e.Text = n.Request.Text // the notice's text contains commands of starter
	case progress.EventText:
		e.ID = "" // it has no position in the run: a client resumes after the event before it
	}
	if err := r.send(e); err != nil {
		r.failed = true
		r.cancel(err)
	}
}

func (*eventReport) ReadsText() bool { return true }
