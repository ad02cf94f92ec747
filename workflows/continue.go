package workflows

import (
	"encoding/json"
	"errors"
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/schedule"
)

// A run continues as new between nodes or between an agent's turns, never with a live child:
// it starts nothing new, asks its children to yield, waits for them, and starts again with
// what it carries. The children's chains go on from where they came back.

// continueAsNew ends this run and begins the next with what it carries. If that does not
// fit, the run goes on for another while. A sub-agent that was asked to stop hands over
// instead: the run above goes on with it.
func (f *flowRun) continueAsNew(ctx workflow.Context) error {
	f.run.policy.heardBack(ctx)
	if err := f.session.gather(ctx); err != nil {
		return err
	}
	if err := f.takeIn(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err() // the next run would know nothing of the cancellation
	}
	in := contract.RunInput{V: contract.Version, Model: f.run.shared.Model, Depth: f.run.shared.Depth, MaxEvents: f.run.shared.MaxEvents, Room: f.run.space.resultShare, Carry: f.carryOver()}
	err := f.run.sizes.fits("what the run carries into a new one", in)
	again := false
	if err != nil && f.entry == nil {
		if again, err = f.run.policy.putOff(ctx, err); again {
			f.session.launchAll()
			return f.drive(ctx)
		}
	}
	switch {
	case err != nil:
		return f.grown(err)
	case f.inbox == nil && f.run.policy.asked:
		f.rest = in.Carry
		return errYield
	}
	return workflow.NewContinueAsNewError(ctx, contract.WorkflowFlow, in)
}

// takeIn takes in all that has come, and waits until nothing of it is under way. Nothing is waited for
// after the last look: what comes while this run waits may be in a channel when it goes on, before
// the coroutine that listens does.
func (f *flowRun) takeIn(ctx workflow.Context) error {
	for {
		f.run.requests.awaitSignals(ctx)
		f.awaitDeliveries(ctx)
		if f.inbox != nil {
			if err := f.inbox.quiet(ctx); err != nil {
				return err
			}
		}
		f.run.requests.hear(ctx)
		if f.session != nil {
			f.session.hear()
		}
		if f.inbox != nil {
			f.inbox.drain(ctx)
		}
		if len(f.run.requests.unacknowledged)+len(f.deliveries) == 0 && (f.inbox == nil || f.inbox.busy == 0) {
			return nil
		}
	}
}

// handOver decides what becomes of a run that stopped where it did not end.
func (f *flowRun) handOver(ctx workflow.Context, err error) (*contract.RunResult, error) {
	if errors.Is(err, errYield) && f.rest == nil && f.entry != nil && f.sched != nil {
		err = f.continueAsNew(ctx)
	}
	if !errors.Is(err, errYield) {
		return nil, err
	}
	if f.rest == nil {
		f.rest = &contract.Carry{} // nothing was done that would have to be carried
	}
	return &contract.RunResult{Status: "yielded", Yielded: f.rest}, nil
}

// carryOver is what the next run goes on with.
func (f *flowRun) carryOver() *contract.Carry {
	maxRan := maxTrace
	if f.session.on() {
		maxRan = 0 // its turns begin at the first step again
	}
	sched := f.sched.Snapshot(maxRan)
	c := &contract.Carry{
		Plan: f.run.flow, Source: f.run.source, Hash: f.run.hash, Shared: f.run.shared, Answers: f.answers, Entered: f.entered, Conflicts: f.conflicts,
		Usage: f.run.budget.usage, Dropped: f.dropped, Runs: f.runs + 1, Publish: f.public, Status: f.status,
		Live: sched.Suspended, Pending: sched.Waiting, Armed: sched.Joins, Ran: sched.Ran, Ended: sched.Ended, Entry: f.entry, Fork: f.carryFork(),
	}
	if f.inbox != nil {
		c.Desk = f.inbox.carry()
	}
	if f.session.on() {
		c.Session = f.session.carry()
	}
	first := tail(f.trace)
	for i := range f.trace {
		e := f.trace[i]
		exit := f.run.flow.Nodes[f.run.graph.Index(e.Node)].Exit
		switch {
		case !exit && i < first:
			c.Dropped++
			continue
		case i < first:
			e.Answers = nil // what an exit node said is part of the result
		}
		if !exit && f.exits() {
			e.Text = nil
		}
		c.Trace = append(c.Trace, e)
	}
	c.Talk = f.run.conversation.snapshot(!slices.ContainsFunc(f.sched.Suspended(), f.hasConversation))
	c.Content = f.needed(c)
	c.Fold()
	return c
}

// needed lists the stored bytes that a carry names, each once.
func (f *flowRun) needed(c *contract.Carry) []json.RawMessage {
	var out []json.RawMessage
	seen := map[string]bool{}
	need := func(ref *contract.ContentRef) {
		if ref == nil || seen[ref.SHA] {
			return
		}
		seen[ref.SHA] = true
		if raw, ok := f.run.transcript.content[ref.SHA]; ok {
			out = append(out, raw)
		}
	}
	need(&c.Shared.Input)
	need(c.Shared.Script)
	need(c.Shared.Chat)
	for i := range c.Shared.Connections {
		need(c.Shared.Connections[i].Catalogue)
	}
	for _, list := range [][]contract.CarriedExecution{c.Live, c.Pending, c.Armed} {
		for i := range list {
			for k := range list[i].Arrivals {
				for _, sha := range contents(&list[i].Arrivals[k].View) {
					need(&contract.ContentRef{SHA: sha})
				}
			}
		}
	}
	if c.Entry != nil {
		for _, sha := range contents(&c.Entry.View) {
			need(&contract.ContentRef{SHA: sha})
		}
	}
	needing(need).carry(c)
	return out
}

// restore takes over what the run before this one carried. What this run holds from then on
// is named as its own.
func (f *flowRun) restore(c *contract.Carry) {
	c.Unfold()
	f.run.flow, f.run.source, f.run.hash, f.run.shared, f.run.budget.usage = c.Plan, c.Source, c.Hash, c.Shared, c.Usage
	f.public = c.Publish
	if c.Status != "" {
		f.status = c.Status
	}
	f.run.allow(c.Shared.MaxPayload)
	f.run.graph = schedule.NewGraph(f.run.flow)
	f.sched = schedule.New(f.run.graph)
	f.trace, f.dropped, f.answers, f.conflicts, f.runs, f.entry, f.entered = c.Trace, c.Dropped, c.Answers, c.Conflicts, c.Runs, c.Entry, c.Entered
	for _, raw := range c.Content {
		f.run.transcript.keep(raw)
	}
	f.keepFork(c.Fork)
	f.own(&f.run.shared.Input)
	f.own(f.run.shared.Script)
	f.own(f.run.shared.Chat)
	for i := range f.run.shared.Connections {
		f.own(f.run.shared.Connections[i].Catalogue)
	}
	f.sched.Restore(schedule.State{Suspended: c.Live, Waiting: c.Pending, Joins: c.Armed, Ran: c.Ran, Ended: c.Ended})
	f.run.conversation.restore(c.Talk)
}

// talks reports whether an execution that stopped in its middle has the flow's conversation.
func (f *flowRun) hasConversation(x *schedule.Execution) bool {
	a := f.run.flow.Nodes[x.Node].Agent
	return a != nil && a.Conversation == plan.ConversationFlow && x.Suspended != nil && x.Suspended.Agent != nil
}

// own names content as this run's, if this run holds it.
func (f *flowRun) own(ref *contract.ContentRef) {
	if ref != nil && f.run.transcript.has(ref.SHA) {
		*ref = f.run.ref(ref.SHA)
	}
}

// toldAbove is what was said in this run, for the one above whose conversation it goes on with.
func (f *flowRun) toldAbove() *contract.Talk {
	t := f.run.conversation.thread
	if f.run.shared.Depth == 0 || t == nil || f.run.flow.Values == nil || !f.run.flow.Values.Named || len(t.entries) <= f.run.conversation.heard {
		return nil
	}
	return &contract.Talk{Messages: carriedMessages(t.entries[f.run.conversation.heard:])}
}
