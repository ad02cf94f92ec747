// Package wait contains the waits of workflow code. The coroutines of a run and the listeners for its messages share the one
// SDK coroutine that runs the workflow, because the SDK resumes all of its coroutines with every step of a run, which costs more
// than the step.
package wait

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/textutil"
)

// Listeners receive a run's messages from channels. The zero value is ready to use.
type Listeners []listener

// listener is a function that receives the values of some channels.
type listener struct {
	receive  func()
	channels []workflow.ReceiveChannel
}

// Add adds a function that is called while the run waits and a channel is not empty. It must not wait itself.
func (l *Listeners) Add(receive func(), channels ...workflow.ReceiveChannel) {
	*l = append(*l, listener{receive, channels})
}

func (l *Listeners) pending() bool {
	for i := range *l {
		for _, c := range (*l)[i].channels {
			if c.Len() > 0 {
				return true
			}
		}
	}
	return false
}

// Take calls the listeners if a channel is not empty, and reports whether one was.
func (l *Listeners) Take() bool {
	if !l.pending() {
		return false
	}
	for _, e := range *l {
		e.receive()
	}
	return true
}

// Until waits until a condition holds. It returns a CanceledError if ctx is cancelled first.
func Until(ctx workflow.Context, cond func() bool) error {
	if c := current(ctx); c != nil {
		return c.until(ctx, cond)
	}
	return workflow.Await(ctx, cond)
}

// UntilIgnoringCancel waits until a condition holds, whether ctx is cancelled or not.
func UntilIgnoringCancel(ctx workflow.Context, cond func() bool) {
	if c := current(ctx); c != nil {
		_ = c.until(c.scheduler.uncancelled, cond)
		return
	}
	uncancelled, _ := workflow.NewDisconnectedContext(ctx)
	_ = workflow.Await(uncancelled, cond)
}

// Get waits for a future and stores its value in to, or returns its error. A cancellation of ctx does not end the wait.
func Get(ctx workflow.Context, f workflow.Future, to any) error {
	if c := current(ctx); c != nil {
		_ = c.until(c.scheduler.uncancelled, f.IsReady) // that context is never cancelled
	}
	return f.Get(ctx, to)
}

// Summary shortens a summary of an activity, a child or a timer for Temporal's Web UI: the server accepts 400 bytes.
func Summary(what string) string { return textutil.Cut(what, 200) }

// timer returns a future that is ready after d. what describes it in Temporal's Web UI. All timers are started here.
func timer(ctx workflow.Context, d time.Duration, what string) workflow.Future {
	return workflow.NewTimerWithOptions(ctx, d, workflow.TimerOptions{Summary: Summary(what)})
}

// Sleep waits for d. A cancellation of ctx ends the wait.
func Sleep(ctx workflow.Context, d time.Duration, what string) error {
	return Get(ctx, timer(ctx, d, what), nil)
}

// UntilLabeled waits until a condition holds. A wait that does not end at once starts a timer, so that Temporal's Web UI shows it
// in the timeline as what.
func UntilLabeled(ctx workflow.Context, what string, cond func() bool) error {
	if cond() {
		return nil
	}
	if held, err := For(ctx, labelDuration, what, cond); held || err != nil {
		return err
	}
	return Until(ctx, cond)
}

// labelDuration is how long a wait is shown, not how long it may last.
const labelDuration = 365 * 24 * time.Hour

// For waits until a condition holds, for d at most, and reports whether it holds.
func For(ctx workflow.Context, d time.Duration, what string, cond func() bool) (bool, error) {
	tctx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	timeout := timer(tctx, d, what)
	err := Until(ctx, func() bool { return cond() || timeout.IsReady() })
	return cond(), err
}
