// Package history reads the event histories of a run's workflows and turns them into typed events.
//
// [Read] walks a whole tree: the runs that were continued as new, the branches, the sub-agents
// and the child sessions. [Tail] reads one run as it grows. Both use the same decoder, which
// decodes each payload once. No other package of starter reads history events, so this is
// the place to change when the events or payloads of a workflow change.
//
// A payload that cannot be decoded, because a codec encrypted it, is nil in its event.
package history

import (
	"context"
	"errors"
	"fmt"
	"iter"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
)

// Source returns the events of one run.
type Source func(ctx context.Context, workflow, run string) ([]*historypb.HistoryEvent, error)

// Once is a source that reads each history once, for several readers. It keeps them all.
func Once(from Source) Source {
	type result struct {
		events []*historypb.HistoryEvent
		err    error
	}
	known := map[[2]string]result{}
	return func(ctx context.Context, workflow, run string) ([]*historypb.HistoryEvent, error) {
		key := [2]string{workflow, run}
		r, ok := known[key]
		if !ok {
			r.events, r.err = from(ctx, workflow, run)
			known[key] = r
		}
		return r.events, r.err
	}
}

// From reads histories from a server.
func From(c client.Client) Source {
	return func(ctx context.Context, workflow, run string) ([]*historypb.HistoryEvent, error) {
		var out []*historypb.HistoryEvent
		events := c.GetWorkflowHistory(ctx, workflow, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			e, err := events.Next()
			if err != nil {
				return nil, err
			}
			out = append(out, e)
		}
		return out, nil
	}
}

// Read yields the events of a run and of all below it: first those of the runs that it
// continues, and a child's behind the event that requested it. A history that is not kept any
// more is a [Missing] event, but the first run's is an error; an error ends the sequence.
func Read(ctx context.Context, from Source, workflow, run string) iter.Seq2[Event, error] {
	return read(ctx, from, Run{&Workflow{ID: workflow, Root: true}, run}, true)
}

// ReadAlone is Read without what is below the run.
func ReadAlone(ctx context.Context, from Source, workflow, run string) iter.Seq2[Event, error] {
	return read(ctx, from, Run{&Workflow{ID: workflow, Root: true}, run}, false)
}

func read(ctx context.Context, from Source, run Run, below bool) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		w := walk{ctx: ctx, from: from, below: below, yield: yield}
		if err := w.run(run); err != nil && !errors.Is(err, errStopped) {
			yield(Event{Run: run}, fmt.Errorf("read the history of the run %q: %w", run.ID, err))
		}
	}
}

// Events decodes the whole history of a run.
func Events(run Run, raw []*historypb.HistoryEvent) []Event {
	d := newDecoder(run)
	out := make([]Event, 0, len(raw))
	for _, e := range raw {
		out = append(out, d.decode(e)...)
	}
	return out
}

// errStopped ends a walk whose caller wants no more events.
var errStopped = errors.New("stopped")

type walk struct {
	ctx   context.Context
	from  Source
	below bool
	yield func(Event, error) bool
}

func (w *walk) run(run Run) error {
	raw, err := w.from(w.ctx, run.ID, run.RunID)
	if err != nil {
		return err
	}
	events := Events(run, raw)
	for i := range events {
		if s, ok := events[i].Data.(*Started); ok && s.ContinuedFrom != "" {
			if err := w.other(Run{run.Workflow, s.ContinuedFrom}); err != nil {
				return err
			}
		}
		if !w.yield(events[i], nil) {
			return errStopped
		}
		if c, ok := events[i].Data.(*ChildRequested); ok && w.below && c.RunID != "" {
			child := Workflow{ID: c.ID, Place: run.Place}
			if c.Call != "" {
				child.Place += c.Call + " › "
			}
			if err := w.other(Run{&child, c.RunID}); err != nil {
				return err
			}
		}
		events[i].Data = nil
	}
	return nil
}

func (w *walk) other(run Run) error {
	err := w.run(run)
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		if !w.yield(Event{Run: run, Data: &Missing{err}}, nil) {
			return errStopped
		}
		return nil
	}
	return err
}

// TerminationReason returns the reason that was given when a run was terminated, or "".
func TerminationReason(ctx context.Context, c client.Client, workflow, run string) string {
	events := c.GetWorkflowHistory(ctx, workflow, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return ""
		}
		if end := e.GetWorkflowExecutionTerminatedEventAttributes(); end != nil {
			return end.GetReason()
		}
	}
	return ""
}

// Tail reads one run as it grows. The zero value is not usable.
type Tail struct {
	client  client.Client
	decoder *decoder
	// Seen is the id of the last event, ContinuedAs the run that continues this one after its end.
	Seen        int64
	ContinuedAs string
}

// NewTail returns a Tail of a run from its first event on.
func NewTail(c client.Client, run Run) *Tail { return &Tail{client: c, decoder: newDecoder(run)} }

// Events yields the events behind the last one until the run is closed or there is an error; it can be called again.
func (t *Tail) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		run := t.decoder.run
		events := t.client.GetWorkflowHistory(ctx, run.ID, run.RunID, true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			e, err := events.Next()
			if err != nil {
				yield(Event{Run: run}, err)
				return
			}
			if e.GetEventId() <= t.Seen {
				continue
			}
			t.Seen = e.GetEventId()
			for _, event := range t.decoder.decode(e) {
				if end, ok := event.Data.(*Ended); ok {
					t.ContinuedAs = end.ContinuedAs
				}
				if !yield(event, nil) {
					return
				}
			}
		}
	}
}
