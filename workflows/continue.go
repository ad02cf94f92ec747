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

// ContinueAsNew ends this run and begins the next with what it carries: between nodes or between an agent's turns, never with a
// live child. Children were asked to yield; their chains go on from where they came back. If what is carried does not fit, the
// run goes on for another while. A sub-agent that was asked to stop hands over instead: the run above goes on with it.
func (f *flowRun) ContinueAsNew(ctx workflow.Context) error {
	if f.nested {
		f.rest = f.carryOver()
		return runtime.ErrYield
	}
	f.run.Policy.AwaitYieldRequests(ctx)
	f.session.Gather(ctx)
	f.takeIn(ctx)
	if ctx.Err() != nil {
		return ctx.Err() // the next run would know nothing of the cancellation
	}
	if f.inbox != nil {
		f.pub.List(ctx, f.inbox.Requests)
	}
	in := contract.RunInput{V: contract.Version, Model: f.run.Shared.Model, Depth: f.run.Shared.Depth, MaxEvents: f.run.Shared.MaxEvents,
		MaxResultBytes: f.run.Sizes.ResultShare, Snapshot: f.carryOver()}
	err := f.run.Sizes.Fits("what the run carries into a new one", in)
	again := false
	if err != nil && f.entry == nil {
		if again, err = f.run.Policy.PutOff(ctx, err); again {
			f.session.LaunchAll()
			return f.drive(ctx)
		}
	}
	switch {
	case err != nil:
		return placeGrown(f, err)
	case f.inbox == nil && f.run.Policy.Asked:
		f.rest = in.Snapshot
		return runtime.ErrYield
	}
	return workflow.NewContinueAsNewError(ctx, contract.WorkflowFlow, in)
}

// takeIn takes in all that has come, and waits until nothing of it is under way. Nothing is waited for after the last look: what
// comes while this run waits may be in a channel when it goes on, before it is received.
func (f *flowRun) takeIn(ctx workflow.Context) {
	for {
		f.run.Requests.AwaitSignals(ctx)
		f.pub.AwaitDeliveries(ctx)
		if f.inbox != nil {
			f.inbox.Quiet(ctx)
		}
		f.run.Requests.ReceiveSignals(ctx)
		f.session.Below.ReceiveTurns()
		if f.inbox != nil {
			f.inbox.Drain(ctx)
		}
		if len(f.run.Requests.Unacknowledged)+len(f.pub.Deliveries) == 0 && (f.inbox == nil || f.inbox.Busy() == 0) {
			return
		}
	}
}

// HandOver decides what becomes of a run that stopped where it did not end.
func (f *flowRun) HandOver(ctx workflow.Context, err error) (*contract.RunResult, error) {
	if err == nil {
		return nil, f.ContinueAsNew(ctx)
	}
	if errors.Is(err, runtime.ErrYield) && f.rest == nil && f.entry != nil {
		err = f.ContinueAsNew(ctx)
	}
	if !errors.Is(err, runtime.ErrYield) {
		return nil, err
	}
	// Without a rest nothing was done that would have to be carried.
	return &contract.RunResult{Status: "yielded", Yielded: cmp.Or(f.rest, &contract.RunSnapshot{})}, nil
}

// carryOver is what the next run goes on with.
func (f *flowRun) carryOver() *contract.RunSnapshot {
	maxRan := maxTrace
	if f.session.On() {
		maxRan = 0 // its turns begin at the first step again
	}
	c := &contract.RunSnapshot{
		Plan: f.run.Flow, Source: f.run.Source, Hash: f.run.Hash, Shared: f.run.Shared, Answers: f.answers, Entered: f.entered, Conflicts: f.conflicts,
		Usage: f.run.Budget.Usage, Dropped: f.dropped, Runs: f.runs + 1, Publish: f.pub.Public, Status: f.pub.Status,
		Entry: f.entry, Fork: carryFork(f),
	}
	f.sched.Snapshot(c, maxRan)
	if f.inbox != nil {
		c.Inbox = f.inbox.Snapshot()
	}
	if f.session.On() {
		c.Session = f.session.Snapshot()
	}
	first := tail(f.trace)
	for i, e := range f.trace {
		exit := f.run.Flow.Nodes[f.run.Graph.Index(e.Node)].Exit
		switch {
		case !exit && i < first:
			c.Dropped++
			continue
		case i < first:
			e.Answers = nil // what an exit node said is part of the result
		case !exit && f.run.Graph.Exits:
			e.Text = nil
		}
		c.Trace = append(c.Trace, e)
	}
	// An agent of the flow's conversation that stopped in its middle has it.
	c.Conversation = f.run.Conversation.Snapshot(!slices.ContainsFunc(f.sched.Suspended, func(x *schedule.Execution) bool {
		a := f.run.Flow.Nodes[x.Node].Agent
		return a != nil && a.Conversation == plan.ConversationFlow && x.Suspended != nil && x.Suspended.Agent != nil
	}))
	c.Content = needed(f, c)
	c.Fold()
	return c
}

// needed lists the stored bytes that a snapshot names, each once.
func needed(f *flowRun, c *contract.RunSnapshot) []json.RawMessage {
	kept := references.Kept{Stored: f.run.Transcript.Content, Seen: map[string]bool{}}
	for _, ref := range settled(&c.Shared) {
		if !f.nested || ref != c.Shared.Script { // the run of the map has the script
			kept.Content(ref.SHA)
		}
	}
	kept.Snapshot(c)
	return kept.Found
}

// settled are the references to what is settled before the first node.
func settled(s *contract.Shared) []*contract.ContentRef {
	out := []*contract.ContentRef{&s.Input, s.Script, s.Chat}
	for i := range s.Connections {
		out = append(out, s.Connections[i].Catalogue)
	}
	return slices.DeleteFunc(out, func(ref *contract.ContentRef) bool { return ref == nil })
}

// restore takes over what the run before this one carried. What this run holds from then on is named as its own.
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
	keepFork(f, c.Fork)
	for _, ref := range settled(&f.run.Shared) {
		if f.run.Transcript.Has(ref.SHA) {
			*ref = f.run.Transcript.Ref(ref.SHA)
		}
	}
	f.sched.Restore(c)
	f.run.Conversation.Restore(c.Conversation)
}

// ownConversation is what was said in this run, for the one above whose conversation it goes on with.
func ownConversation(f *flowRun) *contract.Conversation {
	t := f.run.Conversation.Thread
	if f.run.Shared.Depth == 0 || t == nil || f.run.Flow.Values == nil || !f.run.Flow.Values.Named || len(t.Entries) <= f.run.Conversation.Inherited {
		return nil
	}
	return &contract.Conversation{Messages: transcript.Carried(t.Entries[f.run.Conversation.Inherited:])}
}

// placeGrown places the failure of a run whose carry is too large: at the node that made most of it, or at
// START where that is what the run was given, else at the last that ran.
func placeGrown(f *flowRun, err error) error {
	large, ok := errors.AsType[*contract.Failure](err)
	if !ok {
		return err
	}
	large.Class = contract.ClassStateTooLarge
	if n := len(f.trace); n > 0 {
		large.Node, large.Step = f.trace[n-1].Node, f.trace[n-1].Step
	}
	most, made := 0, weights(f)
	for i := range f.run.Flow.Nodes {
		id := f.run.Flow.Nodes[i].ID
		if w := made[contract.EscapeID(id)]; w.bytes > most {
			most, large.Node, large.Step = w.bytes, id, w.step
		}
	}
	switch given := made[plan.Start].bytes; {
	case given > most:
		large.Node, large.Step, large.At = plan.Start, 0, f.run.Source.At(plan.EdgePath(f.run.Graph.Starts[0]))
		large.Text += fmt.Sprintf("; %d of them are what the run was given", given)
		large.Remedy = "start the run with less state, a shorter input or references to data that is kept elsewhere, " +
			"or give the workers a store (store.dir) before it starts"
	case large.Node != "":
		large.At = f.run.Source.At(plan.NodePath(large.Node))
	}
	return large
}

// weight is how many bytes of a carry a node made, and at which step last.
type weight struct{ bytes, step int }

// weights are those of the flow's nodes, by what the ids of their executions begin with: where they stopped in their middle, what
// they wrote to the state, their latest outputs, and what exit nodes said. That of START is what the run was given.
func weights(f *flowRun) map[string]weight {
	made := map[string]weight{}
	add := func(exec string, bytes, step int) {
		node, _, _ := strings.Cut(exec, "#")
		made[node] = weight{made[node].bytes + bytes, max(made[node].step, step)}
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
	seen := map[string]bool{} // several branches know the same
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
	return made
}
