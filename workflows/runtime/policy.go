package runtime

import (
	"errors"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/wait"
)

// At these sizes of a history a run can only fail; the server ends it at 51,200 events or 50 MiB.
const (
	LastEvents = 47_000
	LastBytes  = 46 << 20
)

// Beyond these a run continues as new although the server does not suggest it. The server takes 10,000 signals.
const (
	manyBytes   = 20 << 20
	manySignals = 8_000
)

// ContinuePolicy determines when a run must continue as new.
type ContinuePolicy struct {
	run   *Run
	Limit int
	yield workflow.ReceiveChannel
	Asked bool
	// asking are the requests to children to yield whose outcome the server has not told yet.
	asking []workflow.Future
	// Moved says that the run has done something since it began, so that one that continues as new always gets on.
	Moved bool
	// put and putBytes are the history length and size up to which the question was put off.
	put, putBytes int
	// noRoom is set where the history has no room for what is to be called next.
	noRoom bool
	// Halted is why the run cannot go on at all.
	Halted error
}

// ShouldContinueAsNew reports whether the run should stop at this boundary. carried is the size of what would have to be carried,
// as far as the caller knows it: while that is too large the run goes on, and fails only at the end of what a history holds.
func (p *ContinuePolicy) ShouldContinueAsNew(ctx workflow.Context, carried int) (bool, error) {
	p.run.Requests.ReceiveSignals(ctx)
	if ctx.Err() != nil {
		return false, ctx.Err() // the next run would know nothing of the cancellation
	}
	return p.decide(ctx, carried)
}

// ShouldYield reports whether a wait should yield.
func (p *ContinuePolicy) ShouldYield(ctx workflow.Context, carried int) bool {
	stop, err := p.decide(ctx, carried)
	return stop || err != nil
}

// decide reports whether the history is long enough, or the parent asked, and what is carried fits.
func (p *ContinuePolicy) decide(ctx workflow.Context, carried int) (bool, error) {
	if p.Halted != nil {
		return false, p.Halted
	}
	info := workflow.GetInfo(ctx)
	length, size := info.GetCurrentHistoryLength(), info.GetCurrentHistorySize()
	full := p.noRoom || length > LastEvents || size > LastBytes
	if !p.Moved && !p.Asked && !p.manySignals() || !full && length < p.put && size < p.putBytes {
		return false, nil
	}
	room := p.run.Sizes.Limit()
	switch {
	case p.wanted(info) && carried <= room/4*3:
		return true, nil
	case full:
		return false, contract.Failf(contract.ClassStateTooLarge, "lower max_iterations, let the node store long results with set_state_filtered, or split it",
			"history holds %d events and what must be carried into a new run is at least %d bytes, at most %d fit", length, carried, room)
	}
	return false, nil
}

// wanted reports whether a new run should begin.
func (p *ContinuePolicy) wanted(info *workflow.Info) bool {
	switch {
	case p.Asked || p.noRoom || p.manySignals():
		return true
	case p.Limit > 0:
		return info.GetCurrentHistoryLength() >= p.Limit
	}
	return info.GetContinueAsNewSuggested() || info.GetCurrentHistorySize() > manyBytes
}

func (p *ContinuePolicy) manySignals() bool { return p.run.Requests.signals >= manySignals }

// PutOff reports whether a run whose snapshot is too large goes on for another while. Once its history is nearly full, it fails.
func (p *ContinuePolicy) PutOff(ctx workflow.Context, err error) (bool, error) {
	large, ok := errors.AsType[*contract.Failure](err)
	if !ok || large.Class != contract.ClassTooLarge {
		return false, err
	}
	info := workflow.GetInfo(ctx)
	if length := info.GetCurrentHistoryLength(); !p.noRoom && length < LastEvents && info.GetCurrentHistorySize() < LastBytes {
		p.put, p.putBytes = length+2000, info.GetCurrentHistorySize()+4<<20
		return true, nil
	}
	large.Class = contract.ClassStateTooLarge
	return false, large
}

// AwaitYieldRequests waits until the server has reported the outcome of each request to yield: it does not let a run close
// while the failure of one is not delivered.
func (p *ContinuePolicy) AwaitYieldRequests(ctx workflow.Context) {
	for _, asked := range p.asking {
		_ = wait.Get(ctx, asked, nil) // the child had ended
	}
	p.asking = nil
}
