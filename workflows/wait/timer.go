package wait

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/textutil"
)

// maxSummary keeps a summary under Temporal's 400 bytes.
const maxSummary = 200

// timer is ready after a time; what says in Temporal's Web UI what for. It is the only way to a timer.
func timer(ctx workflow.Context, d time.Duration, what string) workflow.Future {
	return workflow.NewTimerWithOptions(ctx, d, workflow.TimerOptions{Summary: textutil.Cut(what, maxSummary)})
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
