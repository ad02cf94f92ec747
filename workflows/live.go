package workflows

import (
	"cmp"
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/runtime"
	"weft/workflows/schedule"
	"weft/workflows/wait"
)

// first waits until one of the branches has ended that has not been taken over. It returns nil where the run wants to
// continue as new and has not asked them yet, and where more may start, of those that are queued or behind chains that
// were taken over. The error is one of these.
func (f *flowRun) first(ctx, quiet workflow.Context, mayAsk bool) (*branchRun, error) {
	full := len(f.queued) > 0 && len(f.live) < maxChildren && f.starting() >= maxStarting
	unasked := mayAsk && slices.ContainsFunc(f.live, (*branchRun).mayBeAsked)
	first := -1
	f.idle, f.stale = true, true
	err := wait.Until(quiet, func() bool {
		first = slices.IndexFunc(f.live, (*branchRun).isReady)
		if first >= 0 || !f.idle || full && f.starting() <= maxStarting/2 ||
			(unasked || mayAsk && f.run.Policy.Halted != nil) && ctx.Err() == nil && f.run.Policy.ShouldYield(ctx, 0) {
			return true
		}
		f.refresh(ctx) // not before: nobody reads what stands only until the next branch is taken over
		return false
	})
	err = cmp.Or(err, f.takenOver)
	f.idle, f.takenOver = false, nil
	if first < 0 {
		return nil, err
	}
	return f.live[first], err
}

// ended is called by a chain that ran in place, in its own coroutine; ctx is drive's. What the chain came back with is taken
// over at once where drive has nothing to do then: to wake it takes one more pass over all branches that wait.
func (f *flowRun) ended(ctx workflow.Context, b *branchRun) {
	b.ended, f.stale = true, true
	if f.idle = f.idle && b.err == nil; f.idle {
		f.takenOver = f.finishBranch(ctx, b)
		f.idle = f.takenOver == nil && !f.sched.CanStart() && f.startNext(ctx) && len(f.live) > 0
	}
}

// free is how many of n branches may start now.
func (f *flowRun) free(n int) int {
	return max(0, min(n, maxChildren-len(f.live), maxStarting-f.starting()))
}

// startNext starts as many of those that are queued as may start now, where they run in place: a child may have to wait for
// its start. It reports whether it did, or none is queued.
func (f *flowRun) startNext(ctx workflow.Context) bool {
	if len(f.queued) == 0 {
		return true
	}
	if stop, err := f.shouldStop(ctx); stop || err != nil {
		return false
	}
	next, calls := f.queued[:f.free(len(f.queued))], f.run.Sizes.CallsInPlace
	for _, x := range next {
		own, ok := runsInPlace(f, x)
		if calls += own; !ok || isHeld(x) || calls > maxCallsInPlace {
			return false
		}
	}
	f.queued = f.queued[len(next):]
	later, err := f.startBranches(ctx, next, len(f.queued))
	f.queued, f.takenOver = append(later, f.queued...), err
	return err == nil
}

// mayBeAsked reports whether a child has not been asked to yield.
func (b *branchRun) mayBeAsked() bool { return b.child != nil && b.held == nil && !b.child.Asked }

// branchRun is an execution whose chain runs beside others.
type branchRun struct {
	x *schedule.Execution
	// chain runs in this run, ended once it has stopped; nil where there is a child.
	chain *chain
	ended bool
	// child is nil once it has ended. tries counts its starts.
	child *runtime.ChildRun
	tries int
	// release gives back what of the budget and of the history was reserved for the child.
	release func()
	// held is the result of a child that has ended, for which the history had no room; fetched is ready once it is
	// in out, or cannot be fetched.
	held    *contract.HeldResult
	fetched workflow.Future
	out     contract.BranchResult
	err     error
}

func (b *branchRun) isReady() bool {
	switch {
	case b.chain != nil:
		return b.ended
	case b.held != nil:
		return b.fetched.IsReady()
	}
	return b.child.Future.IsReady()
}

// fetchHeld begins to fetch the result that a child holds. It reports whether it does.
func (f *flowRun) fetchHeld(ctx workflow.Context, b *branchRun) bool {
	if b.held != nil || b.chain != nil {
		return false
	}
	if b.err = wait.Get(ctx, b.child.Future, &b.out); b.err != nil || b.out.Held == nil {
		return false
	}
	b.release()
	f.fetch(ctx, b, b.out.Held)
	return true
}

// fetch fetches the result of a chain that has ended.
func (f *flowRun) fetch(ctx workflow.Context, b *branchRun, held *contract.HeldResult) {
	b.held, b.out, b.release = held, contract.BranchResult{}, func() {}
	fetched, done := workflow.NewFuture(ctx)
	b.fetched = fetched
	wait.Go(ctx, "fetch", func(ctx workflow.Context) {
		done.SetError(f.run.Fetch(ctx, held, f.run.Root+"/"+f.sched.ID(b.x), &b.out))
	})
}

const (
	// maxChildren is how many branches run at once; the server refuses more than 2,000.
	maxChildren = 500
	// maxStarting is how many children the server is asked to start at once: each start that is under way makes all that
	// the run does meanwhile slower.
	maxStarting = 50
)

// starting counts the children that the server has not started yet.
func (f *flowRun) starting() int {
	n := 0
	for _, b := range f.live {
		if b.child != nil && !b.child.Future.GetChildWorkflowExecution().IsReady() {
			n++
		}
	}
	return n
}
