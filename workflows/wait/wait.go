// Package wait contains the waits of workflow code. The coroutines of a run, and what receives its messages, share the one
// coroutine of the SDK that runs the workflow: the SDK resumes each of its own with every step of a run, which costs more than
// the step.
package wait

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/textutil"
)

// Listeners receive messages from channels.
type Listeners []listener

// listener is what receives the values of some channels.
type listener struct {
	take     func()
	channels []workflow.ReceiveChannel
}

// Add has take called when a channel holds something and the run waits. It must not wait itself.
func (l *Listeners) Add(take func(), channels ...workflow.ReceiveChannel) {
	*l = append(*l, listener{take, channels})
}

func (l *Listeners) hold() bool {
	for i := range *l {
		for _, c := range (*l)[i].channels {
			if c.Len() > 0 {
				return true
			}
		}
	}
	return false
}

// Take receives what the channels hold. It reports whether there was something.
func (l *Listeners) Take() bool {
	if !l.hold() {
		return false
	}
	for _, e := range *l {
		e.take()
	}
	return true
}

// Until waits until a condition holds. The error says that ctx was cancelled before.
func Until(ctx workflow.Context, cond func() bool) error {
	if c := of(ctx); c != nil {
		return c.until(ctx, cond)
	}
	return workflow.Await(ctx, cond)
}

// Uncancelled waits until a condition holds, whether ctx is cancelled or not.
func Uncancelled(ctx workflow.Context, cond func() bool) {
	if c := of(ctx); c != nil {
		_ = c.until(c.host.quiet, cond)
		return
	}
	quiet, _ := workflow.NewDisconnectedContext(ctx)
	_ = workflow.Await(quiet, cond)
}

// Get waits for a future and gets its value or error. A cancellation does not end the wait.
func Get(ctx workflow.Context, f workflow.Future, to any) error {
	if c := of(ctx); c != nil {
		_ = c.until(c.host.quiet, f.IsReady) // nobody cancels that context
	}
	return f.Get(ctx, to)
}

// Summary cuts what Temporal's Web UI shows of an activity, a child or a timer: the server takes 400 bytes.
func Summary(what string) string { return textutil.Cut(what, 200) }

// timer is ready after a time; what says in Temporal's Web UI what for. It is the only way to a timer.
func timer(ctx workflow.Context, d time.Duration, what string) workflow.Future {
	return workflow.NewTimerWithOptions(ctx, d, workflow.TimerOptions{Summary: Summary(what)})
}

// Pause waits for a time.
func Pause(ctx workflow.Context, d time.Duration, what string) error {
	return Get(ctx, timer(ctx, d, what), nil)
}

// Shown waits until a condition holds. A wait that does not end at once is a timer in history, and so in the timeline of
// Temporal's Web UI, which shows it under what.
func Shown(ctx workflow.Context, what string, cond func() bool) error {
	if cond() {
		return nil
	}
	if held, err := For(ctx, shownFor, what, cond); held || err != nil {
		return err
	}
	return Until(ctx, cond)
}

// shownFor is how long a wait is shown, not how long it may last.
const shownFor = 365 * 24 * time.Hour

// For waits until a condition holds, for a time at most. It reports whether the condition holds.
func For(ctx workflow.Context, d time.Duration, what string, cond func() bool) (bool, error) {
	tctx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	over := timer(tctx, d, what)
	err := Until(ctx, func() bool { return cond() || over.IsReady() })
	return cond(), err
}
