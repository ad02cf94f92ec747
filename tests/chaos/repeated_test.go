package chaos

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/tests/harness"
)

// TestEndToEndRepeatedSignals sends every signal that a run or a descendant has received again, later and the newest
// first: those of clients and those between runs. It checks that the result does not change.
func TestEndToEndRepeatedSignals(t *testing.T) {
	t.Parallel()
	lanes := newLanes(t, harness.ServerAddress(t), "again", 4)
	flows := slices.DeleteFunc(slices.Clone(chaosFlows), func(f chaosFlow) bool { return f.answer == nil })
	inLanes(lanes, len(flows), func(l *lane, i int) {
		f := &flows[i]
		baseline := l.baseline(f)
		l.repeater = &repeater{client: l.client}
		p := l.runFlow(f, nil)
		problems := append(baseline.problems(f, baseline), p.problems(f, baseline)...)
		n := l.repeater.sent()
		l.repeater = nil
		if len(problems) > 0 || n == 0 {
			t.Errorf("%s, %d signals sent again: %s\nworker log: %s", f.name, n, strings.Join(problems, "\n"), l.logTail())
		}
		t.Logf("%s: %d signals sent again", f.name, n)
	})
}

// repeater sends the signals of a run again.
type repeater struct {
	client  client.Client
	mu      sync.Mutex
	signals []sentSignal
	n       int
}

// sentSignal is a signal that a run has received.
type sentSignal struct {
	id, name, body string
	// repeats counts how often it was repeated.
	repeats int
}

// sent returns how many signals were repeated.
func (p *repeater) sent() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

// follow records the signals of a run and its descendants.
func (p *repeater) follow(ctx context.Context, id, run string) {
	it := p.client.GetWorkflowHistory(ctx, id, run, true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		event, err := it.Next()
		if err != nil {
			return // the run has ended, or timed out
		}
		if s := event.GetWorkflowExecutionSignaledEventAttributes(); len(s.GetInput().GetPayloads()) == 1 {
			p.add(sentSignal{id: id, name: s.SignalName, body: string(s.Input.Payloads[0].Data)})
		}
		if nextID, next := startedBy(event, id); next != "" {
			go p.follow(ctx, nextID, next)
		}
	}
}

// add records a signal. SignalYield has no body and is not repeated: repeating it would have an effect.
func (p *repeater) add(s sentSignal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := func(o sentSignal) bool { return o.id == s.id && o.name == s.name && o.body == s.body }
	if s.name != contract.SignalYield && !slices.ContainsFunc(p.signals, known) {
		p.signals = append(p.signals, s)
	}
}

// repeat sends all recorded signals again, the newest first, three times each.
func (p *repeater) repeat(ctx context.Context) {
	for ctx.Err() == nil {
		for _, s := range p.due() {
			if p.client.SignalWorkflow(ctx, s.id, "", s.name, json.RawMessage(s.body)) != nil {
				continue // the run has ended
			}
			p.mu.Lock()
			p.n++
			p.mu.Unlock()
		}
		time.Sleep(150 * time.Millisecond)
	}
}

// due returns the signals to send in this round.
func (p *repeater) due() []sentSignal {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []sentSignal
	for i := range slices.Backward(p.signals) {
		if s := &p.signals[i]; s.repeats < 3 {
			s.repeats++
			out = append(out, *s)
		}
	}
	return out
}
