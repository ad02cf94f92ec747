package main

import (
	"context"
	"errors"

	"go.temporal.io/api/serviceerror"

	"weft/starter/progress"
	"weft/starter/serve"
)

// CheckEvent refuses an id that no event can have.
func (s *runs) CheckEvent(id string) error {
	if _, err := readMarks(id); err != nil {
		return serve.NewProblem(serve.BadRequest, "send the id of an event of this run, or none", "the Last-Event-ID %.100q is of no event: %v", id, err)
	}
	return nil
}

// Follow follows a run as the command does. Nothing is kept between two calls: what a client
// has is in the id of its last event.
func (s *runs) Follow(ctx context.Context, run *serve.Run, after string, tell func(*serve.Event) error) error {
	had, err := readMarks(after)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begin := s.begin(ctx, run, &had)
	f := s.a.newFollower(s.t, workflowOf(run), begin)
	f.queue, f.marks = run.Queue, newMarks(workflowOf(run), had)
	f.report = &eventReport{f: f, tellIt: tell, failed: cancel}
	helpers := []func(context.Context){f.watch, f.watchRequests}
	if run.Kept {
		// The session goes on; what is told is told to the end of the turn.
		helpers = append(helpers, func(ctx context.Context) {
			if s.awaitTurn(ctx, run) == nil {
				pause(ctx, turnPause)
				cancel(errTurnOver)
			}
		})
	}
	err = f.all(ctx, newTrack(workflowOf(run), begin, ""), helpers...)
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
func (s *runs) begin(ctx context.Context, run *serve.Run, had *reading) string {
	known := had.Open[""].Run
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
		had.Open = nil // what the reader has is gone; it gets what is there
	}
	return run.Current
}

// eventReport hands what happens to a client.
type eventReport struct {
	f      *follower
	tellIt func(*serve.Event) error
	failed context.CancelCauseFunc
	over   bool
}

func (r *eventReport) Tell(n progress.Notice) {
	if r.over {
		return
	}
	e := &serve.Event{ID: r.f.marks.id(), Type: n.Event, Timestamp: n.Time, Node: n.Node, Call: n.Call, Attempt: n.Attempt,
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
