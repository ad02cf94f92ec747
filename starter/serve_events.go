package main

import (
	"context"
	"errors"

	"go.temporal.io/api/serviceerror"

	"weft/starter/follow"
	"weft/starter/progress"
	"weft/starter/serve"
)

// CheckEvent refuses an id that no event can have.
func (s *runs) CheckEvent(id string) error {
	if _, err := follow.ParsePosition(id); err != nil {
		return serve.NewProblem(serve.BadRequest, "send the id of an event of this run, or none", "the Last-Event-ID %.100q is of no event: %v", id, err)
	}
	return nil
}

// Follow follows a run as the command does. Nothing is kept between two calls: what a client
// has is in the id of its last event.
func (s *runs) Follow(ctx context.Context, run *serve.Run, after string, tell func(*serve.Event) error) error {
	found, err := follow.ParsePosition(after)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begin := s.begin(ctx, run, &found)
	report := &eventReport{tellIt: tell, failed: cancel}
	report.f = follow.New(host{s.a, s.t}, s.t, workflowOf(run), begin, run.Queue, report)
	report.f.Resume(found)
	var helpers []func(context.Context)
	if run.Kept {
		// The session goes on; what is told is told to the end of the turn.
		helpers = append(helpers, func(ctx context.Context) {
			if s.awaitTurn(ctx, run) == nil {
				pause(ctx, turnPause)
				cancel(errTurnOver)
			}
		})
	}
	_, err = report.f.Follow(ctx, helpers...)
	if errors.Is(context.Cause(ctx), errTurnOver) {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// begin is the run of the chain with which a reader goes on: that which it knows, or else the
// first that is still there.
func (s *runs) begin(ctx context.Context, run *serve.Run, found *follow.Position) string {
	known := found.RunID()
	for _, id := range []string{known, run.First} {
		if id == "" || id == run.Current {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		_, err := s.t.Client.DescribeWorkflowExecution(limited, workflowOf(run), id)
		cancel()
		var missing *serviceerror.NotFound
		var invalid *serviceerror.InvalidArgument
		if !errors.As(err, &missing) && !errors.As(err, &invalid) {
			return id
		}
	}
	if known != run.Current {
		found.Restart() // what the reader has is gone; it gets what is there
	}
	return run.Current
}

// eventReport hands what happens to a client.
type eventReport struct {
	f      *follow.Follower
	tellIt func(*serve.Event) error
	failed context.CancelCauseFunc
	over   bool
}

func (r *eventReport) Tell(n progress.Notice) {
	if r.over {
		return
	}
	e := &serve.Event{ID: r.f.Position(), Type: n.Event, Timestamp: n.Time, Node: n.Node, Call: n.Call, Attempt: n.Attempt,
		Model: n.Model, Usage: n.Usage, Request: n.Request, Skipped: n.Skipped, Text: n.Text}
	switch n.Event {
	case progress.EventRequest:
		// The text tells of commands, which are none of an HTTP client's.
		e.Text = n.Request.Text
	case progress.EventText:
		// It is no place in the run: a client goes on behind the event before it.
		e.ID = ""
	}
	if err := r.tellIt(e); err != nil {
		r.over = true
		r.failed(err)
	}
}

// readsText says that partial answers are sent.
func (*eventReport) ReadsText() bool { return true }

func (*eventReport) Close() {}
