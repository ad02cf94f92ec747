package activities

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/activity"

	"weft/activities/contract"
)

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
