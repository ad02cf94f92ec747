package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"go.temporal.io/sdk/activity"

	"weft/activities/contract"
)

const (
	// maxHeartbeat bounds the details of a heartbeat, in bytes of JSON.
	maxHeartbeat = 4 << 10
	// minInterval is the least time between two heartbeats with new text. The SDK throttles what
	// reaches the server.
	minInterval = 100 * time.Millisecond
	// maxInterval is the most time between two heartbeats of a call that nobody watches.
	maxInterval = 10 * time.Second
)

// heartbeats sends the heartbeats of one activity until stop is called. Its methods do not block.
type heartbeats struct {
	texts, reasons, tasks chan string
	done, ended           chan struct{}
	// unsent: the attempt ends without having reached anybody.
	unsent atomic.Bool
	// spent is what this and earlier attempts took whose answers were cut.
	spent atomic.Pointer[contract.Usage]
	// underWay is what the answer under way has taken so far: the attempt may end without a word of it.
	underWay atomic.Pointer[contract.Usage]
}

// progress replaces the text of the next heartbeats. Where somebody may be watching, it is sent soon.
func (h *heartbeats) progress(text string) { replace(h.texts, text) }

// waiting sets what the call waits for; "" means that it runs.
func (h *heartbeats) waiting(reason string) { replace(h.reasons, reason) }

// task sets the id of a remote task, from which a later attempt continues.
func (h *heartbeats) task(id string) { replace(h.tasks, id) }

// taking sets what the answer under way has taken so far.
func (h *heartbeats) taking(u contract.Usage) { h.underWay.Store(&u) }

// taken is what a later attempt has to know of: nil is nothing.
func (h *heartbeats) taken() *contract.Usage {
	now := h.underWay.Load()
	if now == nil {
		return h.spent.Load()
	}
	out := h.cutBefore()
	out.Add(*now)
	return &out
}

// settled ends an answer: spent is what was taken for nothing until now.
func (h *heartbeats) settled(spent *contract.Usage) {
	h.underWay.Store(nil)
	h.spent.Store(spent)
}

// cut is an error of a call, with what attempts took whose answers were cut: this one and those before it.
func (h *heartbeats) cut(err error) error {
	var f *contract.Failure
	if !errors.As(err, &f) {
		return err
	}
	before := h.spent.Load()
	if before == nil && (f.Usage == nil || f.Usage.Cut == 0) {
		h.settled(nil)
		return err
	}
	out := contract.Spent(f, h.cutBefore())
	h.settled(out.Usage)
	return out
}

// cutBefore is what earlier attempts took whose answers were cut.
func (h *heartbeats) cutBefore() contract.Usage {
	if u := h.spent.Load(); u != nil {
		return *u
	}
	return contract.Usage{}
}

func (h *heartbeats) stop() {
	close(h.done)
	<-h.ended
}

// heartbeat starts the heartbeats of an activity, if it has a heartbeat timeout.
func (a *Activities) heartbeat(ctx context.Context) *heartbeats {
	measureAttempt(ctx)
	h := &heartbeats{texts: make(chan string, 1), reasons: make(chan string, 1), tasks: make(chan string, 1),
		done: make(chan struct{}), ended: make(chan struct{})}
	var last contract.Heartbeat
	if activity.HasHeartbeatDetails(ctx) && activity.GetHeartbeatDetails(ctx, &last) == nil {
		h.spent.Store(last.Spent)
	}
	if activity.GetInfo(ctx).HeartbeatTimeout == 0 {
		close(h.ended)
	} else {
		go a.sendHeartbeats(ctx, h)
	}
	return h
}

func (a *Activities) sendHeartbeats(ctx context.Context, h *heartbeats) {
	defer close(h.ended)
	info := activity.GetInfo(ctx)
	before := h.spent.Load()
	b := contract.Heartbeat{Attempt: info.Attempt, Spent: before}
	interval := min(max(info.HeartbeatTimeout/4, minInterval), maxInterval)
	t := time.NewTicker(minInterval)
	defer t.Stop()
	// A call that ends before the first tick costs no heartbeat.
	var last time.Time
	text, sent := "", ""
	for {
		select {
		case <-h.done:
			if b.Spent = h.taken(); h.unsent.Load() {
				b.Unsent = info.Attempt
			}
			if b.Unsent > 0 || b.Spent != before {
				activity.RecordHeartbeat(ctx, truncateText(b))
			}
			return
		case text = <-h.texts:
		case task := <-h.tasks:
			b.Task = a.deps.Mask.Text(task)
			activity.RecordHeartbeat(ctx, truncateText(b))
		case b.Waiting = <-h.reasons:
			activity.RecordHeartbeat(ctx, truncateText(b))
		case now := <-t.C:
			if now.Sub(last) >= interval || text != sent && a.deps.Watched(info.WorkflowExecution.RunID) {
				last, sent = now, text
				b.Text, b.Spent = a.deps.Mask.Tail(text, maxHeartbeat), h.taken()
				activity.RecordHeartbeat(ctx, truncateText(b))
			}
		}
	}
}

// truncateText keeps as much of the end of a heartbeat's text as maxHeartbeat leaves room for.
func truncateText(b contract.Heartbeat) contract.Heartbeat {
	for {
		raw, err := json.Marshal(b)
		excess := len(raw) - maxHeartbeat
		if err != nil || excess <= 0 || b.Text == "" {
			return b
		}
		// A byte of the text takes one of the JSON or several.
		from := 1 + excess*len(b.Text)/len(raw)
		for from < len(b.Text) && !utf8.RuneStart(b.Text[from]) {
			from++
		}
		b.Text = b.Text[from:]
	}
}

// replace puts a value into a channel of size 1, in the place of an older one.
func replace(c chan string, value string) {
	select {
	case <-c:
	default:
	}
	select {
	case c <- value:
	default:
	}
}

// earlierSent reports whether an earlier attempt of the activity may have taken effect: it has ended without a word
// that it did not, because its worker died or the call took too long.
func earlierSent(ctx context.Context) bool {
	before := activity.GetInfo(ctx).Attempt - 1
	if before == 0 {
		return false
	}
	var b contract.Heartbeat
	return !activity.HasHeartbeatDetails(ctx) || activity.GetHeartbeatDetails(ctx, &b) != nil || b.Unsent != before
}

// checkFirst is for whoever may have a call made again.
const checkFirst = "the call may have taken effect: find out whether it has before it is made again"

// lostAttempt is the failure of a call that an earlier attempt may have made.
func lostAttempt(ctx context.Context, what string) error {
	return &contract.Failure{Class: contract.ClassUnavailable, OutcomeUnknown: true, Remedy: checkFirst,
		Text: fmt.Sprintf("attempt %d of %s ended without an answer, because its worker stopped or it took too long", activity.GetInfo(ctx).Attempt-1, what)}
}

// outcome is the failure of an attempt, as Temporal is to take it: a call that may have taken effect is made again
// only if repeat. The next attempt learns where this one did not reach anybody.
func (h *heartbeats) outcome(err error, repeat bool) error {
	var f *contract.Failure
	if !errors.As(err, &f) {
		return err // the attempt was ended: nobody knows how far it came
	}
	if !f.OutcomeUnknown {
		h.unsent.Store(contract.Retryable(f.Class))
		return err
	}
	own := *f
	if own.OutcomeUnknown = !repeat; !repeat {
		own.Remedy = checkFirst
	}
	return &own
}
