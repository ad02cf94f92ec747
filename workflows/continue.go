package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/schedule"
)

// A run continues as new between nodes or between an agent's turns, never with a live child:
// it starts nothing new, asks its children to yield, waits for them, and starts again with
// what it carries. The children's chains go on from where they came back.

// At these sizes of a history it is too late for all but failing; the server ends a run at
// 51,200 events or 50 MiB.
const (
	lastEvents = 47_000
	lastBytes  = 46 << 20
)

// pace says when a run must stop and go on in a new one.
type pace struct {
	run   *run
	limit int
	yield workflow.ReceiveChannel
	asked bool
	// asking are the requests to children to yield whose outcome the server has not told yet.
	asking []workflow.Future
	// moved says that the run has done something since it began, so that a run that
	// continues as new always gets on.
	moved bool
	// put and putBytes are the history length and size up to which the question was put
	// off, because what would be carried is too large.
	put, putBytes int
	// most is how much can be carried with a store; 0 means that there is none.
	most int
	// halted is why the run cannot go on at all.
	halted error
}

// room is how much can be carried into a new run.
func (p *pace) room() int { return max(p.most, maxPayload) }

func newPace(ctx workflow.Context) pace {
	return pace{yield: workflow.GetSignalChannel(ctx, contract.SignalYield)}
}

// due reports whether the run should stop at this boundary. carried is the size of what would
// have to be carried, as far as the caller knows it: while that is too large the run goes on,
// and fails only at the end of what a history holds.
func (p *pace) due(ctx workflow.Context, carried int) (bool, error) {
	p.run.requests.hear(ctx)
	if ctx.Err() != nil {
		return false, ctx.Err() // the next run would know nothing of the cancellation
	}
	return p.stop(ctx, carried)
}

// wants reports whether a wait should yield.
func (p *pace) wants(ctx workflow.Context, carried int) bool {
	stop, err := p.stop(ctx, carried)
	return stop || err != nil
}

// stop reports whether the history is long enough, or the parent asked, and what is carried fits.
func (p *pace) stop(ctx workflow.Context, carried int) (bool, error) {
	if p.halted != nil {
		return false, p.halted
	}
	info := workflow.GetInfo(ctx)
	length := info.GetCurrentHistoryLength()
	full := length > lastEvents || info.GetCurrentHistorySize() > lastBytes
	if !p.moved && !p.asked || !full && length < p.put && info.GetCurrentHistorySize() < p.putBytes {
		return false, nil
	}
	wanted := p.asked || p.limit > 0 && length >= p.limit || p.limit == 0 && info.GetContinueAsNewSuggested()
	if wanted && carried <= p.room()/4*3 {
		return true, nil
	}
	if full {
		return false, &contract.Failure{Class: contract.ClassStateTooLarge,
			Text:   fmt.Sprintf("history holds %d events and what must be carried into a new run is at least %d bytes, at most %d fit", length, carried, p.room()),
			Remedy: "lower max_iterations, let the node store long results with set_state_filtered, or split it"}
	}
	return false, nil
}

// putOff reports whether a run whose carry is too large goes on for another while: until its
// history is nearly full. Then that is what it fails with.
func (p *pace) putOff(ctx workflow.Context, err error) (bool, error) {
	var large *contract.Failure
	if !errors.As(err, &large) || large.Class != contract.ClassTooLarge {
		return false, err
	}
	info := workflow.GetInfo(ctx)
	if length := info.GetCurrentHistoryLength(); length < lastEvents && info.GetCurrentHistorySize() < lastBytes {
		p.put, p.putBytes = length+2000, info.GetCurrentHistorySize()+4<<20
		return true, nil
	}
	large.Class = contract.ClassStateTooLarge
	return false, large
}

// heardBack waits until the server has told what became of the requests to yield. One to a child that
// has ended meanwhile fails, and a run that closes before it has heard of that is sent back.
func (p *pace) heardBack(ctx workflow.Context) {
	quiet, _ := workflow.NewDisconnectedContext(ctx)
	for _, asked := range p.asking {
		_ = asked.Get(quiet, nil) // the child had ended
	}
	p.asking = nil
}

// continueAsNew ends this run and begins the next with what it carries. If that does not
// fit, the run goes on for another while. A sub-agent that was asked to stop hands over
// instead: the run above goes on with it.
func (f *flowRun) continueAsNew(ctx workflow.Context) error {
	f.run.pace.heardBack(ctx)
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
	err := f.run.guard.fits("what the run carries into a new one", in)
	again := false
	if err != nil && f.entry == nil {
		if again, err = f.run.pace.putOff(ctx, err); again {
			f.session.launchAll()
			return f.drive(ctx)
		}
	}
	switch {
	case err != nil:
		return f.grown(err)
	case f.run.requests.inbox == nil && f.run.pace.asked:
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
		if f.run.requests.inbox != nil {
			if err := f.run.requests.inbox.quiet(ctx); err != nil {
				return err
			}
		}
		f.run.requests.hear(ctx)
		if f.session != nil {
			f.session.hear()
		}
		if f.run.requests.inbox != nil {
			f.run.requests.inbox.drain(ctx)
		}
		if len(f.run.requests.unacknowledged)+len(f.deliveries) == 0 && (f.run.requests.inbox == nil || f.run.requests.inbox.busy == 0) {
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
		Plan: f.run.flow, Source: f.run.source, Hash: f.hash, Shared: f.run.shared, Answers: f.answers, Entered: f.entered, Conflicts: f.conflicts,
		Usage: f.run.budget.usage, Dropped: f.dropped, Runs: f.runs + 1, Publish: f.public, Status: f.status,
		Live: sched.Suspended, Pending: sched.Waiting, Armed: sched.Joins, Ran: sched.Ran, Ended: sched.Ended, Entry: f.entry, Fork: f.carryFork(),
	}
	if f.run.requests.inbox != nil {
		c.Desk = f.run.requests.inbox.carry()
	}
	if f.session.on() {
		c.Session = f.session.carry()
	}
	first := tail(f.trace)
	for i := range f.trace {
		e := f.trace[i]
		exit := f.run.flow.Nodes[f.run.g.Index(e.Node)].Exit
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
		if raw, ok := f.run.store.content[ref.SHA]; ok {
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
	f.run.flow, f.run.source, f.hash, f.run.shared, f.run.budget.usage = c.Plan, c.Source, c.Hash, c.Shared, c.Usage
	f.public = c.Publish
	if c.Status != "" {
		f.status = c.Status
	}
	f.run.allow(c.Shared.MaxPayload)
	f.run.g = schedule.NewGraph(f.run.flow)
	f.sched = schedule.New(f.run.g)
	f.trace, f.dropped, f.answers, f.conflicts, f.runs, f.entry, f.entered = c.Trace, c.Dropped, c.Answers, c.Conflicts, c.Runs, c.Entry, c.Entered
	for _, raw := range c.Content {
		f.run.store.keep(raw)
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
	if ref != nil && f.run.store.has(ref.SHA) {
		*ref = f.run.ref(ref.SHA)
	}
}
