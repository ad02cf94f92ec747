package runtime

import (
	"errors"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/wait"
)

// A run whose history exceeds these sizes fails if it cannot continue as new; the server ends it at 51,200 events or 50 MiB.
const (
	LastEvents = 47_000
	LastBytes  = 46 << 20
)

// Above these sizes a run continues as new even if the server does not suggest it. The server accepts 10,000 signals.
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
	// yieldRequests are the requests to children to yield that the server has not acknowledged yet.
	yieldRequests []workflow.Future
	// Progressed is set once the run has made progress, without which it does not continue as new on its own.
	Progressed bool
	// deferLength and deferSize are the history length and size up to which continuing as new is deferred.
	deferLength, deferSize int
	// noRoom is set if the history has no room for the next call.
	noRoom bool
	// Halted is the reason why the run cannot continue at all.
	Halted error
}

// ShouldContinueAsNew reports whether the run should continue as new at this boundary. carried is the known size of the state to
// carry over: while it is too large the run continues, and fails only when its history is nearly full.
func (p *ContinuePolicy) ShouldContinueAsNew(ctx workflow.Context, carried int) (bool, error) {
	p.run.Requests.ReceiveSignals(ctx)
	if ctx.Err() != nil {
		return false, ctx.Err() // the cancellation would be lost in the next run
	}
	return p.decide(ctx, carried)
}

// ShouldYield reports whether a wait should yield.
func (p *ContinuePolicy) ShouldYield(ctx workflow.Context, carried int) bool {
	stop, err := p.decide(ctx, carried)
	return stop || err != nil
}

// decide reports whether a new run should start and the carried state fits.
func (p *ContinuePolicy) decide(ctx workflow.Context, carried int) (bool, error) {
	if p.Halted != nil {
		return false, p.Halted
	}
	info := workflow.GetInfo(ctx)
	length, size := info.GetCurrentHistoryLength(), info.GetCurrentHistorySize()
	full := p.noRoom || length > LastEvents || size > LastBytes
	if !p.Progressed && !p.Asked && !p.manySignals() || !full && length < p.deferLength && size < p.deferSize {
		return false, nil
	}
	room := p.run.Sizes.Limit()
	switch {
	case p.shouldStart(info) && carried <= room/4*3:
		return true, nil
	case full:
		return false, contract.Failf(contract.ClassStateTooLarge, "lower max_iterations, store long results with set_state_filtered, or split the node",
			"the history has %d events and the state to carry over to a new run is at least %d bytes, at most %d fit", length, carried, room)
	}
	return false, nil
}

// shouldStart reports whether a new run should start.
func (p *ContinuePolicy) shouldStart(info *workflow.Info) bool {
	switch {
	case p.Asked || p.noRoom || p.manySignals():
		return true
	case p.Limit > 0:
		return info.GetCurrentHistoryLength() >= p.Limit
	}
	return info.GetContinueAsNewSuggested() || info.GetCurrentHistorySize() > manyBytes
}

func (p *ContinuePolicy) manySignals() bool { return p.run.Requests.signals >= manySignals }

// Defer reports whether a run continues for now although err says that its snapshot is too large; it fails near the end of the history.
func (p *ContinuePolicy) Defer(ctx workflow.Context, err error) (bool, error) {
	large, ok := errors.AsType[*contract.Failure](err)
	if !ok || large.Class != contract.ClassTooLarge {
		return false, err
	}
	info := workflow.GetInfo(ctx)
	if length := info.GetCurrentHistoryLength(); !p.noRoom && length < LastEvents && info.GetCurrentHistorySize() < LastBytes {
		p.deferLength, p.deferSize = length+2000, info.GetCurrentHistorySize()+4<<20
		return true, nil
	}
	large.Class = contract.ClassStateTooLarge
	return false, large
}

// AwaitYieldRequests waits until the server has acknowledged each request to yield, because a run cannot close while a failed signal
// is unreported.
func (p *ContinuePolicy) AwaitYieldRequests(ctx workflow.Context) {
	for _, request := range p.yieldRequests {
		_ = wait.Get(ctx, request, nil) // an error means that the child has ended
	}
	p.yieldRequests = nil
}
