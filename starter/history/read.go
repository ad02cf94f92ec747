// Package history reads the event histories of a run's workflows and decodes them into typed events.
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

// Source returns the events of one run. [Read] calls it from several goroutines at the same time.
type Source func(ctx context.Context, workflow, run string) ([]*historypb.HistoryEvent, error)

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

// Read yields the events of a run and its descendants: first the events of the runs that it continues; the events
// of a child, including the runs that continue it, follow the event that requested it. A history that is no longer
// retained is a [Missing] event, or an error if it is the first run's. An error ends the sequence.
func Read(ctx context.Context, from Source, workflow, run string) iter.Seq2[Event, error] {
	return read(ctx, from, Run{&Workflow{ID: workflow, Root: true}, run}, true)
}

// ReadAlone is Read without descendants.
func ReadAlone(ctx context.Context, from Source, workflow, run string) iter.Seq2[Event, error] {
	return read(ctx, from, Run{&Workflow{ID: workflow, Root: true}, run}, false)
}

func read(ctx context.Context, from Source, run Run, below bool) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		w := walk{ctx: ctx, from: from, below: below, yield: yield}
		if err := w.run(w.start(run)); err != nil && !errors.Is(err, errStopped) {
			yield(Event{Run: run}, fmt.Errorf("read the history of the run %q: %w", run.ID, err))
		}
	}
}

// Events decodes the complete history of a run.
func Events(run Run, raw []*historypb.HistoryEvent) []Event {
	d := newDecoder(run)
	out := make([]Event, 0, len(raw))
	for _, e := range raw {
		out = append(out, d.decode(e)...)
	}
	return out
}

// errStopped ends a walk when the caller stops the iteration.
var errStopped = errors.New("stopped")

type walk struct {
	ctx   context.Context
	from  Source
	below bool
	yield func(Event, error) bool
}

// readAhead is the number of children's histories that are read concurrently: each takes a round trip.
const readAhead = 8

// reading is a history that a goroutine reads. The fields after done are set when done is closed.
type reading struct {
	run      Run
	done     chan struct{}
	raw      []*historypb.HistoryEvent
	err      error
	panicked any
}

func (w *walk) start(run Run) *reading {
	r := &reading{run: run, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		defer func() { r.panicked = recover() }()
		r.raw, r.err = w.from(w.ctx, run.ID, run.RunID)
	}()
	return r
}

// ahead starts reading the histories of the children that events request, in order, a few before they are needed.
func (w *walk) ahead(of Run, events []Event) <-chan *reading {
	var children []Run
	for i := range events {
		if child, ok := w.child(of, events[i].Data); ok {
			children = append(children, child)
		}
	}
	out := make(chan *reading, readAhead-2) // in addition, one is waiting to be sent, and one is being awaited
	go func() {
		for _, run := range children {
			select {
			case out <- w.start(run):
			case <-w.ctx.Done():
				return
			}
		}
	}()
	return out
}

func (w *walk) run(r *reading) error {
	if <-r.done; r.panicked != nil {
		panic(r.panicked) // for the caller to report
	}
	if r.err != nil {
		return r.err
	}
	events := Events(r.run, r.raw)
	next, continuedAs := w.ahead(r.run, events), ""
	for i := range events {
		if end, ok := events[i].Data.(*Ended); ok {
			continuedAs = end.ContinuedAs
		}
		if s, ok := events[i].Data.(*Started); ok && s.ContinuedFrom != "" && r.run.Root {
			if err := w.other(w.start(Run{r.run.Workflow, s.ContinuedFrom})); err != nil {
				return err
			}
		}
		_, requested := w.child(r.run, events[i].Data)
		if !w.yield(events[i], nil) {
			return errStopped
		}
		if requested {
			if err := w.other(<-next); err != nil {
				return err
			}
		}
		events[i].Data = nil
	}
	if continuedAs != "" && !r.run.Root {
		return w.other(w.start(Run{r.run.Workflow, continuedAs}))
	}
	return nil
}

// child returns the run of the child that an event requested, and reports whether there is one.
func (w *walk) child(of Run, data any) (Run, bool) {
	c, ok := data.(*ChildRequested)
	if !ok || !w.below || c.RunID == "" {
		return Run{}, false
	}
	child := Workflow{ID: c.ID, Place: of.Place}
	if c.Call != "" {
		child.Place += c.Call + " › "
	}
	return Run{&child, c.RunID}, true
}

func (w *walk) other(r *reading) error {
	err := w.run(r)
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		if !w.yield(Event{Run: r.run, Data: &Missing{err}}, nil) {
			return errStopped
		}
		return nil
	}
	return err
}

// TerminationReason returns the reason of a terminated run, or "".
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

// NewTail returns a Tail that begins with the run's first event.
func NewTail(c client.Client, run Run) *Tail { return &Tail{client: c, decoder: newDecoder(run)} }

// Events yields the events after the last one until the run is closed or an error occurs; it can be called again.
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
