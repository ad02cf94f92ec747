package backend

import (
	"context"
	"errors"

	"go.temporal.io/api/serviceerror"

	"weft/starter/follow"
	"weft/starter/progress"
	"weft/starter/runs"
	"weft/starter/serve"
)

// CheckEvent refuses an id that no event can have.
func (b *Backend) CheckEvent(id string) error {
	if _, err := follow.ParsePosition(id); err != nil {
		return serve.NewProblem(serve.BadRequest, "send the id of an event of this run, or none", "invalid Last-Event-ID %.100q: %v", id, err)
	}
	return nil
}

// errTurnOver ends the events of a session's turn.
var errTurnOver = errors.New("the turn has ended")

// Follow follows a run as the command does, from the event whose id a client sends.
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
	if run.Kept {
		// The session goes on; events are sent up to the end of the turn.
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

// first returns the run of the chain to begin with: that of the position, or the first that is kept.
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
		position.Restart() // the run is gone; the reader gets what is there
	}
	return run.Current
}

// eventReport sends what happens to a client.
type eventReport struct {
	follower *follow.Follower
	send     func(*serve.Event) error
	cancel   context.CancelCauseFunc
	failed   bool
}

// Notify implements [progress.Report].
func (r *eventReport) Notify(n progress.Notice) {
	if r.failed {
		return
	}
	e := &serve.Event{ID: r.follower.Position(), Type: n.Event, Timestamp: n.Time, Node: n.Node, Call: n.Call, Attempt: n.Attempt,
		Model: n.Model, Usage: n.Usage, Request: n.Request, Skipped: n.Skipped, Text: n.Text}
	switch n.Event {
	case progress.EventRequest:
		e.Text = n.Request.Text // the notice's text has commands, which an HTTP client does not use
	case progress.EventText:
		e.ID = "" // it is no place in the run: a client goes on behind the event before it
	}
	if err := r.send(e); err != nil {
		r.failed = true
		r.cancel(err)
	}
}

// ReadsText implements [progress.TextReader].
func (*eventReport) ReadsText() bool { return true }
