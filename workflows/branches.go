package workflows

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/runtime"
	"weft/workflows/schedule"
	"weft/workflows/wait"
)

// branches are the chains of a flow that run in parallel.
type branches struct {
	flow        *flowRun
	byExecution map[*schedule.Execution]*branchRun
	// live are the running ones, in the order of their starts; queued are the executions of chains not started yet.
	live   []*branchRun
	queued []*schedule.Execution
	// positions are the source positions of the flow by path, set when the first child starts.
	positions map[string]plan.Position
}

// awaitEnd waits until a live branch has ended, and returns it. It returns nil if the run should continue as new and has not
// asked its branches to yield yet, or if more of the queued chains may start.
func (s *branches) awaitEnd(ctx workflow.Context, mayAsk bool) *branchRun {
	f := s.flow
	startsFull := len(s.queued) > 0 && len(s.live) < maxChildren && s.starting() >= maxStarting
	unasked := mayAsk && slices.ContainsFunc(s.live, func(b *branchRun) bool { return b.child != nil && !b.child.Asked })
	index := -1
	f.stale = true
	// Children end by themselves after a cancellation, which must not hide their results.
	wait.UntilIgnoringCancel(ctx, func() bool {
		index = slices.IndexFunc(s.live, func(b *branchRun) bool { return b.end.IsReady() })
		if index >= 0 || startsFull && s.starting() <= maxStarting/2 ||
			(unasked || mayAsk && f.run.Policy.Halted != nil) && ctx.Err() == nil && f.run.Policy.ShouldYield(ctx, 0) {
			return true
		}
		if f.stale { // not earlier: a state that lasts only until the next branch has ended is not worth showing
			f.updateDetails(ctx)
		}
		f.stale = false
		return false
	})
	if index < 0 {
		return nil
	}
	return s.live[index]
}

// branchRun is an execution whose chain runs in parallel with others.
type branchRun struct {
	x *schedule.Execution
	// chain runs in this run; nil if a child runs it.
	chain *chain
	// child is nil while the result is fetched. tries counts the failed starts of children.
	child *runtime.ChildRun
	tries int
	// release returns the budget and the room in the history that were reserved for the chain.
	release func()
	// held refers to the result of a child that has ended, for which the history had no room.
	held *contract.HeldResult
	// end is ready, with a [contract.BranchResult], once the chain has stopped or the held result has been fetched.
	end workflow.Future
}

// runAsync runs f in a coroutine; its result ends the branch.
func (b *branchRun) runAsync(ctx workflow.Context, name string, f func(workflow.Context) (*contract.BranchResult, error)) {
	end, settable := workflow.NewFuture(ctx)
	b.end = end
	wait.Go(ctx, name, func(ctx workflow.Context) {
		out, err := f(ctx)
		settable.Set(out, err)
	})
}

// fetch starts fetching the held result of a chain that has ended.
func (s *branches) fetch(ctx workflow.Context, b *branchRun, held *contract.HeldResult) {
	b.child, b.held, b.release = nil, held, func() {}
	b.runAsync(ctx, "fetch", func(ctx workflow.Context) (*contract.BranchResult, error) {
		var out contract.BranchResult
		return &out, s.flow.run.Fetch(ctx, held, s.flow.run.Root+"/"+s.flow.sched.ID(b.x), &out)
	})
}

const (
	// maxChildren is the maximum number of concurrent branches; the server allows 2,000. maxInPlace is how many of them run in place:
	// as many as a worker runs activities by default, because each update of a workflow costs the server time for all its open calls.
	maxChildren = 500
	maxInPlace  = 200
	// maxStarting is the maximum number of pending starts of children: each slows the run down.
	maxStarting = 50
)

// starting counts the children that the server has not started yet.
func (s *branches) starting() int {
	n := 0
	for _, b := range s.live {
		if b.child != nil && !b.child.Future.GetChildWorkflowExecution().IsReady() {
			n++
		}
	}
	return n
}

// start starts as many of the queued chains as may run, including those after one that cannot start: it fails the run, but they
// are started. Chains for which the history has no room while others run remain queued: when the others have ended, the run
// continues as new.
func (s *branches) start(ctx workflow.Context) (failed error) {
	if len(s.queued) == 0 {
		return nil
	}
	slots := max(0, min(len(s.queued), maxChildren-len(s.live), maxStarting-s.starting()))
	for range slots {
		if sizes := s.flow.run.Sizes; len(s.live) > 0 && (sizes.InPlace >= maxInPlace || !sizes.HasRoom(ctx)) {
			break
		}
		x, sharing := s.queued[0], len(s.queued)
		s.queued = s.queued[1:]
		b, err := s.startOne(ctx, x, sharing, slots)
		if err != nil {
			s.flow.sched.End(x)
			failed = cmp.Or(failed, err)
			continue
		}
		s.live = append(s.live, b)
	}
	return failed
}

// startOne starts the chain that begins with x, one of n that share the remaining budget, and of all that start together.
func (s *branches) startOne(ctx workflow.Context, x *schedule.Execution, n, all int) (*branchRun, error) {
	f := s.flow
	at, err := f.begin(x)
	if err != nil {
		return nil, err
	}
	f.sched.Started(x, *at.View)
	b := cmp.Or(s.byExecution[x], &branchRun{x: x})
	s.byExecution[x] = b
	switch calls, inPlace := runsInPlace(f, x); {
	case isHeld(x):
		s.fetch(ctx, b, x.Suspended.Held)
	case inPlace:
		startInPlace(ctx, f, b, calls, n)
	default:
		err = s.startChild(ctx, b, at, n, all)
	}
	return b, err
}

func (s *branches) startChild(ctx workflow.Context, b *branchRun, at *runtime.Execution, n, all int) error {
	f, x := s.flow, b.x
	if s.positions == nil {
		s.positions = f.run.Source.ByPath()
	}
	in := branchInput(f.run, f.sched, x, at.View, s.positions)
	if f.inbox != nil {
		in.Inbox = f.inbox.TakeFor(at.ID, func(m *contract.Inbound) bool { return canReceive(f, x, m) })
	}
	if x.Suspended == nil && !x.Continues && b.tries == 0 {
		if err := f.run.Budget.Declare(at); err != nil {
			return err
		}
	}
	in.MaxResultBytes = f.run.Sizes.Share(ctx, all)
	var releaseBudget func()
	in.Shared.Budget, releaseBudget = f.run.Budget.Share(nil, n)
	c := &runtime.Child{Workflow: contract.WorkflowBranch, In: &in, ID: f.run.Root + "/" + at.ID, Summary: "branch · " + at.Node.ID}
	if err := f.run.Admit(ctx, c, "the branch input of node "+at.Node.ID); err != nil {
		releaseBudget()
		return f.run.Failed(at, err)
	}
	releaseSizes := f.run.Sizes.Reserve(in.MaxResultBytes, 1)
	b.release = func() {
		releaseBudget()
		releaseSizes()
	}
	b.child = f.run.Start(ctx, c)
	b.end = b.child.Future
	return nil
}

// finish applies the result of a chain, or starts fetching it.
func (s *branches) finish(ctx workflow.Context, b *branchRun) error {
	f, x := s.flow, b.x
	var out contract.BranchResult
	var err error
	if b.child != nil {
		err = b.child.Result(ctx, &out)
	} else {
		err = wait.Get(ctx, b.end, &out)
	}
	if err == nil && out.Held != nil {
		b.release()
		s.fetch(ctx, b, out.Held)
		return nil
	}
	s.live = slices.DeleteFunc(s.live, func(o *branchRun) bool { return o == b })
	delete(s.byExecution, x)
	f.sched.End(x)
	if b.held != nil && errors.Is(err, runtime.ErrYield) {
		f.sched.Suspend(x, x.Node, x.Step, x.Occurrence, x.Arrivals[0].View, &contract.SuspendedExecution{Held: b.held})
		return nil
	}
	b.release()
	if f.inbox != nil {
		f.inbox.TakeBack(ctx, f.sched.ID(x), out.UnreadMessages, runtime.AlreadyStarted(err))
	}
	if err != nil {
		f.run.Requests.Disown(ctx, contract.ShortenID(f.run.Root+"/"+f.sched.ID(x)), err)
		return s.failed(ctx, b, err)
	}
	f.run.Policy.Progressed = true
	f.run.Budget.Usage.Add(out.Usage)
	f.run.Conversation.Merge(out.Conversation)
	maps.Copy(f.run.Shared.Sessions(), out.ServerSessions)
	for _, e := range out.Executions {
		if sessions := out.NodeSessions[e.Node]; sessions != nil {
			f.run.Shared.NodeSessions[e.Node] = sessions
		}
		if e.Node != f.run.Flow.Nodes[x.Node].ID || e.Step != x.Step {
			f.sched.CountRan(f.run.Graph.Index(e.Node), e.Step)
		}
	}
	f.trace = append(f.trace, out.Executions...)
	for _, raw := range out.Messages {
		f.run.Transcript.Keep(raw)
	}
	view := x.Arrivals[0].View
	schedule.Apply(&view, &out.View)
	if yielded := out.Yielded; yielded != nil {
		node := f.run.Graph.Index(yielded.Node)
		if len(out.Executions) > 0 {
			f.sched.CountRan(node, yielded.Step)
		}
		f.sched.Suspend(x, node, yielded.Step, yielded.Occurrence, view, yielded.Suspended)
		return nil
	}
	last := out.Executions[len(out.Executions)-1]
	return f.asFailure(f.sched.Leave(x, last.Step, out.Edges, view))
}

// failed applies the progress of a failed branch, and returns the error for the run.
func (s *branches) failed(ctx workflow.Context, b *branchRun, err error) error {
	f, x := s.flow, b.x
	b.tries++
	retry, err := runtime.RetryStart(ctx, err, b.tries, f.sched.ID(x))
	if retry {
		s.byExecution[x] = &branchRun{x: x, tries: b.tries}
		f.sched.Requeue(x)
		return nil
	}
	f.run.Budget.Charge(nil, nil, err)
	progress := runtime.ChildFailure(err)
	if progress != nil {
		f.trace = append(f.trace, progress.Executions...)
		progress.Usage, progress.Executions = nil, nil
	}
	switch at := f.execution(x, nil); {
	case !contract.Cancelled(err):
		return f.run.Failed(at, progress)
	case ctx.Err() == nil:
		return f.run.Fail(at, contract.ClassCancelled, "cancel the run itself to end all of it", "the branch was cancelled, but not the run")
	}
	return err
}
