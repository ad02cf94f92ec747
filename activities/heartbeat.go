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
	// minInterval is the minimum time between two heartbeats with new text. The SDK throttles
	// those that reach the server.
	minInterval = 100 * time.Millisecond
	// maxInterval is the maximum time between two heartbeats of a call that no client follows.
	maxInterval = 10 * time.Second
)

// heartbeats sends the heartbeats of one activity until stop is called. Its methods do not block.
type heartbeats struct {
	texts, reasons, tasks chan string
	done, ended           chan struct{}
	// unsent means that the attempt ended before it reached its receiver.
	unsent atomic.Bool
	// spent is the usage of truncated answers of this and earlier attempts.
	spent atomic.Pointer[contract.Usage]
	// inFlight is the usage of the answer in progress so far, as the attempt may end without reporting it.
	inFlight atomic.Pointer[contract.Usage]
}

// progress sets the text of the next heartbeats. If a client may be following, it is sent soon.
func (h *heartbeats) progress(text string) { replace(h.texts, text) }

// waiting sets what the call waits for; "" means that it is running.
func (h *heartbeats) waiting(reason string) { replace(h.reasons, reason) }

// task sets the id of a remote task, which a later attempt continues.
func (h *heartbeats) task(id string) { replace(h.tasks, id) }

// setInFlight sets the usage of the answer in progress so far.
func (h *heartbeats) setInFlight(u contract.Usage) { h.inFlight.Store(&u) }

// lostUsage returns the usage that a later attempt has to count, or nil.
func (h *heartbeats) lostUsage() *contract.Usage {
	now := h.inFlight.Load()
	if now == nil {
		return h.spent.Load()
	}
	out := h.truncatedUsage()
	out.Add(*now)
	return &out
}

// settle ends the answer in progress. spent is the usage of truncated answers so far.
func (h *heartbeats) settle(spent *contract.Usage) {
	h.inFlight.Store(nil)
	h.spent.Store(spent)
}

// withTruncated adds the usage of truncated answers, of this attempt and of earlier ones, to the error of a call.
func (h *heartbeats) withTruncated(err error) error {
	var f *contract.Failure
	if !errors.As(err, &f) {
		return err
	}
	before := h.spent.Load()
	if before == nil && (f.Usage == nil || f.Usage.Cut == 0) {
		h.settle(nil)
		return err
	}
	out := contract.Spent(f, h.truncatedUsage())
	h.settle(out.Usage)
	return out
}

// truncatedUsage returns the usage of truncated answers so far.
func (h *heartbeats) truncatedUsage() contract.Usage {
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
	// A call that ends before the first tick sends no heartbeat.
	var last time.Time
	text, sent := "", ""
	for {
		select {
		case <-h.done:
			if b.Spent = h.lostUsage(); h.unsent.Load() {
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
				b.Text, b.Spent = a.deps.Mask.Tail(text, maxHeartbeat), h.lostUsage()
				activity.RecordHeartbeat(ctx, truncateText(b))
			}
		}
	}
}

// truncateText cuts the start of a heartbeat's text so that the details fit into maxHeartbeat.
func truncateText(b contract.Heartbeat) contract.Heartbeat {
	for {
		raw, err := json.Marshal(b)
		excess := len(raw) - maxHeartbeat
		if err != nil || excess <= 0 || b.Text == "" {
			return b
		}
		// A byte of the text takes one or more bytes of JSON.
		from := 1 + excess*len(b.Text)/len(raw)
		for from < len(b.Text) && !utf8.RuneStart(b.Text[from]) {
			from++
		}
		b.Text = b.Text[from:]
	}
}

// replace puts a value into a channel of size 1 and drops an older one.
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

// earlierSent reports whether an earlier attempt of the activity may have taken effect: it did not report the opposite
// before it ended, because its worker died or the call timed out.
func earlierSent(ctx context.Context) bool {
	before := activity.GetInfo(ctx).Attempt - 1
	if before == 0 {
		return false
	}
	var b contract.Heartbeat
	return !activity.HasHeartbeatDetails(ctx) || activity.GetHeartbeatDetails(ctx, &b) != nil || b.Unsent != before
}

// checkFirst is the remedy for a call whose outcome is unknown.
const checkFirst = "the call may have taken effect: find out whether it has before it is made again"

// lostAttempt returns the failure of a call that an earlier attempt may have made.
func lostAttempt(ctx context.Context, what string) error {
	return &contract.Failure{Class: contract.ClassUnavailable, OutcomeUnknown: true, Remedy: checkFirst,
		Text: fmt.Sprintf("attempt %d of %s ended without an answer, because its worker stopped or it took too long", activity.GetInfo(ctx).Attempt-1, what)}
}

// outcome converts the error of an attempt to the one that Temporal sees: a call that may have taken effect is retried
// only if repeat is set. If the attempt did not reach its receiver, the last heartbeat tells the next attempt.
func (h *heartbeats) outcome(err error, repeat bool) error {
	var f *contract.Failure
	if !errors.As(err, &f) {
		return err // the attempt was interrupted; its outcome is unknown
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
