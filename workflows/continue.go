package workflows

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/references"
	"weft/workflows/runtime"
	"weft/workflows/schedule"
	"weft/workflows/transcript"
)

// ContinueAsNew ends this run and starts the next with a snapshot: between nodes or between an agent's turns, never with a live
// child. Children were asked to yield; their chains continue from where they stopped. If the snapshot is too large, the run
// continues for a while. A sub-agent that was asked to yield returns its snapshot to its parent instead.
func (f *flowRun) ContinueAsNew(ctx workflow.Context) error {
	if f.nested {
		f.yielded = f.snapshot()
		return runtime.ErrYield
	}
	f.run.Policy.AwaitYieldRequests(ctx)
	f.session.Gather(ctx)
	f.drain(ctx)
	if ctx.Err() != nil {
		return ctx.Err() // the next run would not receive the cancellation
	}
	if f.inbox != nil {
		f.pub.List(ctx, f.inbox.Requests)
	}
	in := contract.RunInput{V: contract.Version, Model: f.run.Shared.Model, Depth: f.run.Shared.Depth, MaxEvents: f.run.Shared.MaxEvents,
		MaxResultBytes: f.run.Sizes.ResultShare, Snapshot: f.snapshot()}
	err := f.run.Sizes.Fits("the run's snapshot for continue-as-new", in)
	postponed := false
	if err != nil && f.entry == nil {
		if postponed, err = f.run.Policy.Defer(ctx, err); postponed {
			f.session.LaunchAll()
			return f.drive(ctx)
		}
	}
	switch {
	case err != nil:
		return locateOversize(f, err)
	case f.inbox == nil && f.run.Policy.Asked:
		f.yielded = in.Snapshot
		return runtime.ErrYield
	}
	return workflow.NewContinueAsNewError(ctx, contract.WorkflowFlow, in)
}

// drain processes all received messages, and waits until none is in progress. It does not wait after the last check: a message
// that arrives during a wait may still be in its channel when the run resumes.
func (f *flowRun) drain(ctx workflow.Context) {
	for {
		f.run.Requests.AwaitSignals(ctx)
		f.pub.AwaitDeliveries(ctx)
		if f.inbox != nil {
			f.inbox.AwaitIdle(ctx)
		}
		f.run.Requests.ReceiveSignals(ctx)
		f.session.Children.ReceiveTurns()
		if f.inbox != nil {
			f.inbox.Drain(ctx)
		}
		if len(f.run.Requests.Unacknowledged)+len(f.pub.Deliveries) == 0 && (f.inbox == nil || f.inbox.Busy() == 0) {
			return
		}
	}
}

// HandOver ends a run that stopped with err before its end: it continues as new, yields to its parent or fails.
func (f *flowRun) HandOver(ctx workflow.Context, err error) (*contract.RunResult, error) {
	if err == nil {
		return nil, f.ContinueAsNew(ctx)
	}
	if errors.Is(err, runtime.ErrYield) && f.yielded == nil && f.entry != nil {
		err = f.ContinueAsNew(ctx)
	}
	if !errors.Is(err, runtime.ErrYield) {
		return nil, err
	}
	// Without a snapshot the run had made no progress.
	return &contract.RunResult{Status: "yielded", Yielded: cmp.Or(f.yielded, &contract.RunSnapshot{})}, nil
}

// snapshot returns the state with which the next run continues.
func (f *flowRun) snapshot() *contract.RunSnapshot {
	maxRan := maxTrace
	if f.session.On() {
		maxRan = 0 // each turn begins at the first step again
	}
	c := &contract.RunSnapshot{
		Plan: f.run.Flow, Source: f.run.Source, Hash: f.run.Hash, Shared: f.run.Shared, Answers: f.answers, Entered: f.entered, Conflicts: f.conflicts,
		Usage: f.run.Budget.Usage, Dropped: f.dropped, Runs: f.runs + 1, Publish: f.pub.Public, Status: f.pub.Status,
		Entry: f.entry, Fork: remainingFork(f),
	}
	f.sched.Snapshot(c, maxRan)
	if f.inbox != nil {
		c.Inbox = f.inbox.Snapshot()
	}
	if f.session.On() {
		c.Session = f.session.Snapshot()
	}
	first := traceStart(f.trace)
	for i, e := range f.trace {
		exit := f.run.Flow.Nodes[f.run.Graph.Index(e.Node)].Exit
		switch {
		case !exit && i < first:
			c.Dropped++
			continue
		case i < first:
			e.Answers = nil // the result of an exit node is still needed
		case !exit && f.run.Graph.Exits:
			e.Text = nil
		}
		c.Trace = append(c.Trace, e)
	}
	// A suspended agent that uses the flow's conversation has it in its own state.
	c.Conversation = f.run.Conversation.Snapshot(!slices.ContainsFunc(f.sched.Suspended, func(x *schedule.Execution) bool {
		a := f.run.Flow.Nodes[x.Node].Agent
		return a != nil && a.Conversation == plan.ConversationFlow && x.Suspended != nil && x.Suspended.Agent != nil
	}))
	c.Content = referencedContent(f, c)
	c.Fold()
	return c
}

// referencedContent returns the stored content to which a snapshot refers, without duplicates.
func referencedContent(f *flowRun, c *contract.RunSnapshot) []json.RawMessage {
	collected := references.Collector{Stored: f.run.Transcript.Content, Seen: map[string]bool{}}
	for _, ref := range sharedRefs(&c.Shared) {
		if !f.nested || ref != c.Shared.Script { // the snapshot of the map's run has the script
			collected.Content(ref.SHA)
		}
	}
	collected.Snapshot(c)
	return collected.Found
}

// sharedRefs returns the references to content that is determined before the first node.
func sharedRefs(s *contract.Shared) []*contract.ContentRef {
	out := []*contract.ContentRef{&s.Input, s.Script, s.Chat}
	for i := range s.Connections {
		out = append(out, s.Connections[i].Catalogue)
	}
	return slices.DeleteFunc(out, func(ref *contract.ContentRef) bool { return ref == nil })
}

// restore restores the snapshot of the previous run. References to content that this run holds now name this run.
func (f *flowRun) restore(c *contract.RunSnapshot) {
	c.Unfold()
	f.run.Flow, f.run.Source, f.run.Hash, f.run.Shared, f.run.Budget.Usage = c.Plan, c.Source, c.Hash, c.Shared, c.Usage
	f.pub.Public, f.pub.Status = c.Publish, cmp.Or(c.Status, f.pub.Status)
	f.run.Allow(c.Shared.MaxPayload)
	f.run.Graph = schedule.NewGraph(f.run.Flow)
	f.sched = schedule.New(f.run.Graph)
	f.trace, f.dropped, f.answers, f.conflicts, f.runs, f.entry, f.entered = c.Trace, c.Dropped, c.Answers, c.Conflicts, c.Runs, c.Entry, c.Entered
	for _, raw := range c.Content {
		f.run.Transcript.Keep(raw)
	}
	setFork(f, c.Fork)
	for _, ref := range sharedRefs(&f.run.Shared) {
		if f.run.Transcript.Has(ref.SHA) {
			*ref = f.run.Transcript.Ref(ref.SHA)
		}
	}
	f.sched.Restore(c)
	f.run.Conversation.Restore(c.Conversation)
}

// ownConversation returns the messages that this run added to the conversation of its parent.
func ownConversation(f *flowRun) *contract.Conversation {
	t := f.run.Conversation.Thread
	if f.run.Shared.Depth == 0 || t == nil || f.run.Flow.Values == nil || !f.run.Flow.Values.Named || len(t.Entries) <= f.run.Conversation.Inherited {
		return nil
	}
	return &contract.Conversation{Messages: transcript.ThreadMessages(t.Entries[f.run.Conversation.Inherited:])}
}

// locateOversize sets the position of the failure of a run whose snapshot is too large: the node that contributed most, START if
// that is the run's input, or else the last node that ran.
func locateOversize(f *flowRun, err error) error {
	large, ok := errors.AsType[*contract.Failure](err)
	if !ok {
		return err
	}
	large.Class = contract.ClassStateTooLarge
	if n := len(f.trace); n > 0 {
		large.Node, large.Step = f.trace[n-1].Node, f.trace[n-1].Step
	}
	most, weights := 0, nodeWeights(f)
	for i := range f.run.Flow.Nodes {
		id := f.run.Flow.Nodes[i].ID
		if w := weights[contract.EscapeID(id)]; w.bytes > most {
			most, large.Node, large.Step = w.bytes, id, w.step
		}
	}
	switch input := weights[plan.Start].bytes; {
	case input > most:
		large.Node, large.Step, large.At = plan.Start, 0, f.run.Source.At(plan.EdgePath(f.run.Graph.Starts[0]))
		large.Text += fmt.Sprintf("; %d of them are the run's input", input)
		large.Remedy = "start the run with less state, a shorter input or references to data that is stored elsewhere, " +
			"or give the workers a store (store.dir) before it starts"
	case large.Node != "":
		large.At = f.run.Source.At(plan.NodePath(large.Node))
	}
	return large
}

// weight is the number of bytes that a node contributes to a snapshot, and its last step.
type weight struct{ bytes, step int }

// nodeWeights returns the weights of the flow's nodes, by the escaped node id: suspended executions, state that they wrote, their
// latest outputs, and results of exit nodes. The weight of START is the size of the run's input.
func nodeWeights(f *flowRun) map[string]weight {
	weights := map[string]weight{}
	add := func(exec string, bytes, step int) {
		node, _, _ := strings.Cut(exec, "#")
		weights[node] = weight{weights[node].bytes + bytes, max(weights[node].step, step)}
	}
	for _, ref := range []*contract.ContentRef{&f.run.Shared.Input, f.run.Shared.Script, f.run.Shared.Chat} {
		if ref != nil {
			add(plan.Start, len(f.run.Transcript.Content[ref.SHA]), 0)
		}
	}
	arrivals := slices.Clone(f.sched.Ended)
	for _, x := range f.sched.NotRunning() {
		if n, err := contract.Size(x.Suspended); err == nil && x.Suspended != nil {
			add(f.sched.ID(x), n, x.Step)
		}
		arrivals = append(arrivals, x.Arrivals...)
	}
	for i := range f.trace {
		if e := &f.trace[i]; e.Text != nil && f.run.Flow.Nodes[f.run.Graph.Index(e.Node)].Exit {
			add(contract.EscapeID(e.Node), len(*e.Text)+len(e.Data), e.Step)
		}
	}
	seen := map[string]bool{} // views of several branches overlap
	for i := range arrivals {
		v := &arrivals[i].View
		for k := range v.State {
			if e := &v.State[k]; !seen[e.By.Exec+"\n"+e.Key] {
				seen[e.By.Exec+"\n"+e.Key] = true
				add(e.By.Exec, schedule.EntryBytes(e), e.By.Step)
			}
		}
		for _, o := range v.Outputs {
			if !seen[o.SHA] {
				seen[o.SHA] = true
				add(contract.EscapeID(o.Node), len(f.run.Transcript.Content[o.SHA]), o.By.Step)
			}
		}
	}
	return weights
}
