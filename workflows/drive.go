package workflows

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/workflows/agent"
	"weft/workflows/group"
	"weft/workflows/plan"
	"weft/workflows/references"
	"weft/workflows/runtime"
	"weft/workflows/schedule"
	"weft/workflows/values"
)

// drive runs ready executions until none is live. A single branch runs here; parallel branches run as children or in place.
func (f *flowRun) drive(ctx workflow.Context) error {
	ctx, cancel := workflow.WithCancel(ctx)
	var failed error
	note := func(err error) {
		if err != nil && failed == nil {
			failed = err
			cancel()
		}
	}
	for {
		ready := f.branches.queued
		stop, err := f.shouldStop(ctx)
		if note(err); stop && failed == nil && !f.sched.Finished() {
			f.sched.Requeue(f.branches.queued...)
			ready = nil
			if len(f.branches.live) == 0 {
				return f.ContinueAsNew(ctx)
			}
			askToYield(ctx, f)
		} else if failed == nil {
			// A ready execution that finished in the run from which this one was forked is replayed from its log.
			fresh, err := f.sched.Ready(f.run.Log.Replay, func(x *schedule.Replayed) error { return replayed(f, x) })
			note(f.asFailure(err))
			ready = append(ready, fresh...)
		}
		if failed != nil {
			f.sched.Requeue(ready...) // so that cancelTasks finds their suspended calls
			ready = nil
		}
		if len(f.branches.live) == 0 && len(ready) == 1 && !isHeld(ready[0]) {
			f.updateDetails(ctx)
			note(f.runHere(ctx, ready[0]))
			continue
		}
		f.branches.queued = ready
		note(f.branches.start(ctx))
		if len(f.branches.live) == 0 {
			f.updateDetails(ctx)
			return driveResult(f, failed)
		}
		if b := f.branches.awaitEnd(ctx, failed == nil); b != nil {
			note(f.branches.finish(ctx, b))
		}
	}
}

// shouldStop reports whether the run continues as new at this boundary. A flow that runs in the run of its map does not stop
// if the map's snapshot would be too large: its result is smaller than its state.
func (f *flowRun) shouldStop(ctx workflow.Context) (bool, error) {
	if f.nested && f.run.ParentJournal.Weight() > f.run.Sizes.Limit()/4*3 {
		return false, ctx.Err()
	}
	return f.run.Policy.ShouldContinueAsNew(ctx, 0)
}

// askToYield asks the chains that run as children to yield.
func askToYield(ctx workflow.Context, f *flowRun) {
	for _, b := range f.branches.live {
		if b.child != nil && !b.end.IsReady() {
			f.run.AskToYield(ctx, b.child)
		}
	}
}

// isHeld reports whether an execution's chain has ended and its result has to be fetched.
func isHeld(x *schedule.Execution) bool { return x.Suspended != nil && x.Suspended.Held != nil }

// driveResult returns the error with which a run ends that has no live branch: failed, nil, or a failure if it is stuck.
func driveResult(f *flowRun, failed error) error {
	if failed != nil || f.sched.Finished() {
		return failed
	}
	return &contract.Failure{Class: contract.ClassStuck, Text: fmt.Sprintf("nothing runs, but %v wait and the joins %v are pending",
		f.sched.IDs(f.sched.Waiting), f.sched.IDs(f.sched.Joins)),
		Remedy: "this is a defect of the interpreter: please report the flow", Answers: allAnswers(f)}
}

// execution returns the runtime form of an execution of the scheduler, with its view.
func (f *flowRun) execution(x *schedule.Execution, view *contract.View) *runtime.Execution {
	id := f.sched.ID(x)
	return &runtime.Execution{Node: &f.run.Flow.Nodes[x.Node], ID: id, Step: x.Step, Occurrence: x.Occurrence, Lineage: x.Lineage,
		Order: x.Node, Strand: id, View: view, Suspended: x.Suspended}
}

// begin creates the view with which an execution starts. It fails if values set by a fork, or the writes of joined branches,
// exceed the state's limit.
func (f *flowRun) begin(x *schedule.Execution) (*runtime.Execution, error) {
	view, conflicts := f.sched.Begin(x)
	f.conflicts = latestConflicts(append(f.conflicts, conflicts...))
	at := f.execution(x, &view)
	overridden, err := override(f, x, &view)
	if n, limit := schedule.StateBytes(&view), f.run.Flow.Limits.MaxStateBytes; err == nil && n > limit {
		switch {
		case overridden:
			err = f.run.Fail(at, contract.ClassStateTooLarge, "set shorter values, or raise limits.max_state_bytes in weft.yaml",
				"with the values set by the fork the state would be %d bytes, at most %d are allowed", n, limit)
		case len(x.Arrivals) > 1:
			err = f.run.Fail(at, contract.ClassStateTooLarge, "let the branches write less, or use set_state_filtered",
				"the joined branches wrote a state of %d bytes in total, at most %d are allowed", n, limit)
		}
	}
	return at, err
}

// maxConflicts is the number of bytes of conflicts that a run keeps.
const maxConflicts = 256 << 10

// latestConflicts drops the oldest conflicts beyond maxConflicts.
func latestConflicts(list []contract.Conflict) []contract.Conflict {
	bytes := 0
	for i := len(list) - 1; i >= 0; i-- {
		c := &list[i]
		if bytes += contract.Envelope/8 + len(c.Key) + len(c.Value) + len(c.Kept.Exec) + len(c.Dropped.Exec); bytes > maxConflicts {
			return slices.Delete(list, 0, i+1)
		}
	}
	return list
}

// runHere runs one execution in this run.
func (f *flowRun) runHere(ctx workflow.Context, x *schedule.Execution) error {
	at, err := f.begin(x)
	var done contract.Execution
	if err == nil {
		done, err = f.runner.Execute(ctx, at)
	}
	f.sched.End(x)
	if err != nil {
		return err
	}
	if at.Suspended != nil {
		f.sched.Suspend(x, x.Node, x.Step, x.Occurrence, *at.View, at.Suspended)
		return nil
	}
	f.trace = append(f.trace, done)
	if done.Text != nil {
		f.run.ParentJournal.Grow(3 * (len(*done.Text) + len(done.Data))) // in the trace, as a message and as a value
	}
	return f.asFailure(f.sched.Leave(x, x.Step, at.Exit.Taken, *at.View))
}

// asFailure turns a [schedule.StepLimitError] into a failure. It returns other errors unchanged.
func (f *flowRun) asFailure(err error) error {
	if limit, ok := errors.AsType[*schedule.StepLimitError](err); ok {
		return stepLimit(f.run, limit.Node, f.trace)
	}
	return err
}

// Result returns the run's result, with the outputs of the exit nodes.
func (f *flowRun) Result() (*contract.RunResult, error) {
	trace := slices.Clone(f.trace)
	slices.SortStableFunc(trace, func(a, b contract.Execution) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(f.run.Graph.Index(a.Node), f.run.Graph.Index(b.Node)))
	})
	exits := f.run.Graph.Exits
	out := &contract.RunResult{
		Status: "completed", ExitOutputs: []contract.ExitOutput{}, Usage: f.run.Budget.Usage, FlowHash: f.run.Hash, Model: f.run.Shared.Model,
	}
	var last *contract.Execution
	for i := range trace {
		e := &trace[i]
		if e.NoRoute {
			out.NoRoute = append(out.NoRoute, contract.ExecutionID(e.Node, e.Step, e.Occurrence))
		}
		if exits && !f.run.Flow.Nodes[f.run.Graph.Index(e.Node)].Exit {
			continue
		}
		last = e
		if exits {
			o := contract.ExitOutput{Node: e.Node, Step: e.Step, Data: e.Data, Exhausted: e.Exhausted, Truncated: e.Truncated}
			if e.Data == nil && e.Text != nil {
				o.Text = *e.Text
			}
			out.ExitOutputs = append(out.ExitOutputs, o)
		}
	}
	switch {
	case last == nil:
		return nil, noExit(f)
	case last.Unfit != nil:
		return nil, last.Unfit
	}
	if f.inbox != nil {
		out.UnreadMessages = f.run.Requests.UnreadMessages
	}
	out.Conversation = ownConversation(f)
	if f.run.Shared.Depth > 0 {
		out.ServerSessions = f.run.Shared.ServerSessions
	}
	out.ResultNode, out.ResultData = last.Node, last.Data
	if last.Data == nil {
		out.ResultText = last.Text
	}
	if err := f.fitResult(out, last); err != nil {
		return nil, err
	}
	return out, nil
}

// fitResult omits outputs to make a result fit. It fails at the node of the result if that is too large.
func (f *flowRun) fitResult(out *contract.RunResult, last *contract.Execution) error {
	if f.run.Sizes.FitsShare(out) {
		return nil
	}
	// The outputs of exit nodes are omitted even if the store could hold them, so that every client can read the result itself.
	for i := range out.ExitOutputs {
		o := &out.ExitOutputs[i]
		o.Text, o.Data, o.OmittedBytes = "", nil, len(o.Text)+len(o.Data)
	}
	inline := *out
	if f.nested || f.run.Sizes.Holds() {
		inline.Conversation = nil
	}
	if err := f.run.Sizes.Fits("the result of node "+last.Node, &inline); err != nil {
		return f.run.Failed(&runtime.Execution{Node: f.run.Flow.Node(last.Node), Step: last.Step}, err)
	}
	return nil
}

// noExit returns the failure of a run that ended without an exit node.
func noExit(f *flowRun) *contract.Failure {
	out := &contract.Failure{Class: contract.ClassNoExit, Answers: allAnswers(f),
		Remedy: "let the conditions cover all cases, or add an edge without a condition"}
	var unrouted, ends []string
	for i := range f.trace {
		e := &f.trace[i]
		switch name := fmt.Sprintf("%s#%d", e.Node, e.Step); {
		case e.NoRoute:
			out.NoRoute, unrouted = append(out.NoRoute, contract.ExecutionID(e.Node, e.Step, e.Occurrence)), append(unrouted, name)
		case isLast(f, e):
			ends = append(ends, name)
		default:
			continue
		}
		out.Node, out.Step, out.At = e.Node, e.Step, f.run.Source.At(plan.NodePath(e.Node))
	}
	out.Text = "the run ended before an exit node ran"
	if !f.run.Graph.Exits {
		out.Text = "the run ended before a node ran"
	}
	if len(unrouted) > 0 {
		out.Text += fmt.Sprintf("; no condition was met after %v", unrouted)
	}
	if len(ends) > 0 {
		out.Text += fmt.Sprintf("; no edge was taken after %v", ends)
		out.Remedy = "add an edge from the node to another one, or make it an exit node"
	}
	for _, a := range out.Answers {
		out.Text += fmt.Sprintf("; %s %q: %s", a.Execution, a.Question, values.YesNo(a.Yes))
	}
	out.Text = textutil.Cut(out.Text, 2000)
	return out
}

// isLast reports whether an execution took no edge to another node.
func isLast(f *flowRun, e *contract.Execution) bool {
	return !slices.ContainsFunc(f.run.Graph.Out(f.run.Graph.Index(e.Node)), func(edge int) bool {
		_, on := f.run.Graph.Target(edge)
		return on && slices.Contains(e.Taken, f.run.Flow.Edges[edge].ID)
	})
}

func allAnswers(f *flowRun) []contract.Answer {
	out := slices.Clone(f.answers)
	for i := range f.trace {
		out = append(out, f.trace[i].Answers...)
	}
	return out
}

// stepLimit returns the failure of a run whose next node would exceed its step limit.
func stepLimit(r *runtime.Run, node int, trace []contract.Execution) *contract.Failure {
	limit := r.Flow.Limits.MaxSteps
	f := r.Fail(&runtime.Execution{Node: &r.Flow.Nodes[node], Step: limit + 1}, contract.ClassStepLimit,
		"give the loop a condition that ends it, or raise the limit (-max-steps)", "the run would exceed its limit of %d steps", limit)
	for i := max(0, len(trace)-5); i < len(trace); i++ {
		f.Answers = append(f.Answers, trace[i].Answers...)
	}
	return f
}

// FindNode reports whether the flow is known yet, and whether it has a node. A run that is ending does not wait for the flow.
func (f *flowRun) FindNode(node string) (ready, found bool) {
	return f.run.Graph != nil || f.ending, f.run.Graph == nil || f.run.Flow.Node(node) != nil
}

// Route returns the branch that receives a message: the first, in declaration order, that can run the addressed agent, or any agent.
func (f *flowRun) Route(m *contract.Inbound) (string, *runtime.ChildRun) {
	var best *branchRun
	for _, b := range f.branches.live {
		if b.child != nil && (best == nil || b.x.Node < best.x.Node) && canReceive(f, b.x, m) {
			best = b
		}
	}
	if best == nil {
		return "", nil
	}
	return f.sched.ID(best.x), best.child
}

// canReceive reports whether the chain that begins with x can run an agent to which a message is addressed.
func canReceive(f *flowRun, x *schedule.Execution, m *contract.Inbound) bool {
	runs := f.sched.Part(x).Runs
	for i := range f.run.Flow.Nodes {
		if n := &f.run.Flow.Nodes[i]; runs.Has(i) && n.Kind == plan.KindAgent && (m.Node == "" || m.Node == n.ID) {
			return true
		}
	}
	return false
}

// cancelTasks cancels the tool tasks of suspended executions; running ones cancel theirs themselves.
func (f *flowRun) cancelTasks(ctx workflow.Context) {
	detached, _ := workflow.NewDisconnectedContext(ctx)
	g, n := group.New(detached), 0
	for _, x := range f.sched.Suspended {
		references.EachTask(x.Suspended, func(id string, t *contract.OpenTask) {
			n++
			id = fmt.Sprintf("%s~cancel.%d", id, n) // nested executions may have the same ids
			g.Start(func(ctx workflow.Context) error {
				agent.CancelTask(ctx, f.run, id, t)
				return nil
			})
		})
	}
	_ = g.Wait() // each logs its own failure
}
