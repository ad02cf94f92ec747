package history

import (
	"context"
	"iter"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
)

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
			event := t.decoder.decode(e)
			if end, ok := event.Data.(*Ended); ok {
				t.ContinuedAs = end.ContinuedAs
			}
			if !yield(event, nil) {
				return
			}
		}
	}
}
