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

// branches are the chains of a flow that run beside others.
type branches struct {
	flow        *flowRun
	byExecution map[*schedule.Execution]*branchRun
	// live are those that run, in the order of their starts; queued wait until more may start.
	live   []*branchRun
	queued []*schedule.Execution
	// positions are those of the flow's parts, by path, once there was a child.
	positions map[string]plan.Position
}

// first waits until one of the branches has ended that has not been taken over. It returns nil where the run wants to
// continue as new and has not asked them yet, and where more of those that are queued may start.
func (s *branches) first(ctx workflow.Context, mayAsk bool) *branchRun {
	f := s.flow
	full := len(s.queued) > 0 && len(s.live) < maxChildren && s.starting() >= maxStarting
	unasked := mayAsk && slices.ContainsFunc(s.live, func(b *branchRun) bool { return b.child != nil && !b.child.Asked })
	first := -1
	f.stale = true
	// Children end by themselves after a cancellation, and it must not hide how.
	wait.Uncancelled(ctx, func() bool {
		first = slices.IndexFunc(s.live, func(b *branchRun) bool { return b.end.IsReady() })
		if first >= 0 || full && s.starting() <= maxStarting/2 ||
			(unasked || mayAsk && f.run.Policy.Halted != nil) && ctx.Err() == nil && f.run.Policy.ShouldYield(ctx, 0) {
			return true
		}
		if f.stale { // not before: nobody reads what stands only until the next branch is taken over
			f.show(ctx)
		}
		f.stale = false
		return false
	})
	if first < 0 {
		return nil
	}
	return s.live[first]
}

// branchRun is an execution whose chain runs beside others.
type branchRun struct {
	x *schedule.Execution
	// chain runs in this run; nil where there is a child.
	chain *chain
	// child is nil where the result is fetched. tries counts the starts of children so far.
	child *runtime.ChildRun
	tries int
	// release gives back what of the budget and of the history was reserved for the chain.
	release func()
	// held is the result of a child that has ended, for which the history had no room.
	held *contract.HeldResult
	// end is ready, with a [contract.BranchResult], once the chain has stopped or the held result is fetched.
	end workflow.Future
}

// settle runs f beside others: what it gives is the end of the branch.
func (b *branchRun) settle(ctx workflow.Context, name string, f func(workflow.Context) (*contract.BranchResult, error)) {
	end, settable := workflow.NewFuture(ctx)
	b.end = end
	wait.Go(ctx, name, func(ctx workflow.Context) {
		out, err := f(ctx)
		settable.Set(out, err)
	})
}

// fetch fetches the result of a chain that has ended.
func (s *branches) fetch(ctx workflow.Context, b *branchRun, held *contract.HeldResult) {
	b.child, b.held, b.release = nil, held, func() {}
	b.settle(ctx, "fetch", func(ctx workflow.Context) (*contract.BranchResult, error) {
		var out contract.BranchResult
		return &out, s.flow.run.Fetch(ctx, held, s.flow.run.Root+"/"+s.flow.sched.ID(b.x), &out)
	})
}

const (
	// maxChildren is how many branches run at once; the server refuses more than 2,000. maxInPlace is how many of them run in place,
	// as many as a worker makes calls at once by default: at each change of a workflow the server goes through all its open calls.
	maxChildren = 500
	maxInPlace  = 200
	// maxStarting is how many children the server is asked to start at once: each start that is under way makes all that
	// the run does meanwhile slower.
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

// start starts as many of the queued chains as may run, those behind one that cannot start included: it has failed the run, but
// not them. Those for which the history has no room while others are at work stay queued: when those have ended, the run goes
// on in a new one.
func (s *branches) start(ctx workflow.Context) (failed error) {
	if len(s.queued) == 0 {
		return nil
	}
	free := max(0, min(len(s.queued), maxChildren-len(s.live), maxStarting-s.starting()))
	for range free {
		if sizes := s.flow.run.Sizes; len(s.live) > 0 && (sizes.InPlace >= maxInPlace || !sizes.HasRoom(ctx)) {
			break
		}
		x, sharing := s.queued[0], len(s.queued)
		s.queued = s.queued[1:]
		b, err := s.startOne(ctx, x, sharing, free)
		if err != nil {
			s.flow.sched.End(x)
			failed = cmp.Or(failed, err)
			continue
		}
		s.live = append(s.live, b)
	}
	return failed
}

// startOne starts the chain that begins with x, one of n that share what is left of the budget, and of all that start together.
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
		in.Inbox = f.inbox.Give(at.ID, func(m *contract.Inbound) bool { return mayRead(f, x, m) })
	}
	if x.Suspended == nil && !x.Continues && b.tries == 0 {
		if err := f.run.Budget.Declare(at); err != nil {
			return err
		}
	}
	in.MaxResultBytes = f.run.Sizes.Share(ctx, all)
	var release func()
	in.Shared.Budget, release = f.run.Budget.Share(nil, n)
	c := &runtime.Child{Workflow: contract.WorkflowBranch, In: &in, ID: f.run.Root + "/" + at.ID, Summary: "branch · " + at.Node.ID}
	if err := f.run.Admit(ctx, c, "what node "+at.Node.ID+" must know"); err != nil {
		release()
		return f.run.Failed(at, err)
	}
	leave := f.run.Sizes.Reserve(in.MaxResultBytes, 1)
	b.release = func() {
		release()
		leave()
	}
	b.child = f.run.Start(ctx, c)
	b.end = b.child.Future
	return nil
}

// finish takes over what a chain came back with, or begins to fetch it.
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
		f.run.Requests.Disown(ctx, contract.BoundID(f.run.Root+"/"+f.sched.ID(x)), err)
		return s.failed(ctx, b, err)
	}
	f.run.Policy.Moved = true
	f.run.Budget.Usage.Add(out.Usage)
	f.run.Conversation.Merge(out.Conversation)
	maps.Copy(f.run.Shared.Sessions(), out.ServerSessions)
	for _, e := range out.Executions {
		if served := out.NodeSessions[e.Node]; served != nil {
			f.run.Shared.NodeSessions[e.Node] = served
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
	if y := out.Yielded; y != nil {
		node := f.run.Graph.Index(y.Node)
		if len(out.Executions) > 0 {
			f.sched.CountRan(node, y.Step)
		}
		f.sched.Suspend(x, node, y.Step, y.Occurrence, view, y.Suspended)
		return nil
	}
	last := out.Executions[len(out.Executions)-1]
	return f.beyond(f.sched.Leave(x, last.Step, out.Edges, view))
}

// failed takes over what a failed branch had done, and returns what its failure means.
func (s *branches) failed(ctx workflow.Context, b *branchRun, err error) error {
	f, x := s.flow, b.x
	b.tries++
	again, err := runtime.RetryTakenID(ctx, err, b.tries, f.sched.ID(x))
	if again {
		s.byExecution[x] = &branchRun{x: x, tries: b.tries}
		f.sched.Requeue(x)
		return nil
	}
	f.run.Budget.Charge(nil, nil, err)
	part := runtime.FailedBelow(err)
	if part != nil {
		f.trace = append(f.trace, part.Executions...)
		part.Usage, part.Executions = nil, nil
	}
	switch at := f.execution(x, nil); {
	case !contract.Cancelled(err):
		return f.run.Failed(at, part)
	case ctx.Err() == nil:
		return f.run.Fail(at, contract.ClassCancelled, "cancel the run itself to end all of it", "the branch was cancelled by somebody")
	}
	return err
}
