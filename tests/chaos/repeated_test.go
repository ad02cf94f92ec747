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

// TestEndToEndRepeatedSignals sends every signal that a run, or a run below it, has had again and again: those of
// people and those that runs say to each other, later, and the newest first. It changes nothing.
func TestEndToEndRepeatedSignals(t *testing.T) {
	t.Parallel()
	lanes := newLanes(t, harness.ServerAddress(t), "again", 4)
	flows := slices.DeleteFunc(slices.Clone(chaosFlows), func(f chaosFlow) bool { return f.answer == nil })
	inLanes(lanes, len(flows), func(l *lane, i int) {
		f := &flows[i]
		calm := l.undisturbed(f)
		l.repeater = &repeater{client: l.client}
		p := l.play(f, nil)
		problems := append(calm.problems(f, calm), p.problems(f, calm)...)
		n := l.repeater.sent()
		l.repeater = nil
		if len(problems) > 0 || n == 0 {
			t.Errorf("%s, %d signals sent again: %s\nthe worker said: %s", f.name, n, strings.Join(problems, "\n"), l.tail())
		}
		t.Logf("%s: %d signals sent again", f.name, n)
	})
}

// repeater repeats signals.
type repeater struct {
	client client.Client
	mu     sync.Mutex
	heard  []heard
	n      int
}

// heard is a signal that a run has had.
type heard struct {
	id, name, body string
	// again counts how often it was sent again.
	again int
}

// sent is how many signals were sent again.
func (p *repeater) sent() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

// follow hears what is signalled to a run and to all below it.
func (p *repeater) follow(ctx context.Context, id, run string) {
	it := p.client.GetWorkflowHistory(ctx, id, run, true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		event, err := it.Next()
		if err != nil {
			return // the run is over, or its time
		}
		if s := event.GetWorkflowExecutionSignaledEventAttributes(); len(s.GetInput().GetPayloads()) == 1 {
			p.hear(heard{id: id, name: s.SignalName, body: string(s.Input.Payloads[0].Data)})
		}
		if nextID, next := leadsTo(event, id); next != "" {
			go p.follow(ctx, nextID, next)
		}
	}
}

// hear notes a signal. One to give way has no body and is not repeated: it is a wish, not news.
func (p *repeater) hear(s heard) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := func(o heard) bool { return o.id == s.id && o.name == s.name && o.body == s.body }
	if s.name != contract.SignalYield && !slices.ContainsFunc(p.heard, known) {
		p.heard = append(p.heard, s)
	}
}

// repeat sends all that was heard again, the newest first, a few times each.
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

// due are the signals to be sent now.
func (p *repeater) due() []heard {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []heard
	for i := range slices.Backward(p.heard) {
		if s := &p.heard[i]; s.again < 3 {
			s.again++
			out = append(out, *s)
		}
	}
	return out
}
