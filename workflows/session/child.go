package session

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	words "weft/workflows/plan/session"
	"weft/workflows/runtime"
	"weft/workflows/wait"
)

// Children are the sessions that one has started.
type Children struct {
	s *Session
	// list are those that are not deleted.
	list []*childSession
	// ctx is their context, which end cancels.
	ctx workflow.Context
	end workflow.CancelFunc
}

// childSession is a session that this one has started. It runs as a child workflow; where this run
// continues as new it comes back with what it goes on with, and is started again from there.
type childSession struct {
	contract.ChildSession
	future *runtime.ChildRun
	// reserved is what of the budget is reserved for it.
	reserved contract.Budget
}

// LaunchAll starts the sessions below that are not running, with what they go on with.
func (s *Session) LaunchAll() {
	if !s.On() {
		return
	}
	s.leaving = false
	for _, c := range s.Below.list {
		if !c.Closed && c.future == nil {
			s.Below.launch(c)
		}
	}
}

// launch starts a session and waits for its end beside everything else.
func (b *Children) launch(c *childSession) {
	r := b.s.run
	in := r.Below()
	in.Parent, in.Session = r.Transcript.Workflow, true
	if c.Snapshot != nil && c.Snapshot.Plan != nil {
		in.Snapshot = c.Snapshot
	} else {
		flow := b.agent(c.Agent)
		// The source is of this agent's own document, not of the other's.
		in.Flow, in.Params = contract.FlowRef{Plan: flow}, c.Params
		in.Scope = r.Shared.Scope
	}
	in.Budget = b.allocate(c)
	in.MaxResultBytes = r.Sizes.Share(b.ctx, 4*maxSessions)
	k := &runtime.Child{Workflow: contract.WorkflowFlow, In: in, ID: c.ID, Summary: "session · " + cmp.Or(c.Agent, plainAgent)}
	if err := r.Admit(b.ctx, k, "what the session is started with"); err != nil {
		b.closed(c, nil, err)
		return
	}
	c.future = r.Start(b.ctx, k)
	release := r.Sizes.Reserve(in.MaxResultBytes, 0)
	wait.Go(b.ctx, "child session", func(ctx workflow.Context) {
		quiet, _ := workflow.NewDisconnectedContext(ctx)
		var out contract.RunResult
		again, err := runtime.RetryTakenID(ctx, wait.Get(quiet, c.future.Future, &out), 1, c.ID)
		for tries := 2; again; tries++ {
			c.future = r.Start(ctx, k)
			again, err = runtime.RetryTakenID(ctx, wait.Get(quiet, c.future.Future, &out), tries, c.ID)
		}
		release()
		if err == nil && out.Held != nil {
			held := out.Held
			out = contract.RunResult{}
			err = r.Fetch(quiet, held, c.ID, &out)
		}
		c.future = nil
		b.closed(c, &out, err)
	})
}

// closed takes over how a session came to its end.
func (b *Children) closed(c *childSession, out *contract.RunResult, err error) {
	b.s.Hear() // what it said before
	b.settleUp(c, out, err)
	c.Snapshot = nil
	if err == nil && out.Yielded != nil {
		c.Snapshot = out.Yielded
		return
	}
	c.Closed = true
	b.s.run.Requests.Disown(b.s.above, contract.BoundID(c.ID), err)
	c.Status = contract.TurnFailed
	if err == nil || contract.Cancelled(err) {
		c.Status, c.Problem = contract.TurnStopped, words.Stopped
	} else if _, terminated := errors.AsType[*temporal.TerminatedError](err); terminated {
		c.Problem = "Session was terminated"
	} else {
		c.Problem = problemOf(contract.FailureOf(err))
	}
	for _, o := range runtime.Take(&c.Orders, func(o *contract.SessionOrder) bool { return callsBack(*o) }) {
		b.callBack(c, contract.Turn{ID: o.ID, Status: contract.TurnFailed, Failure: &contract.Failure{Class: contract.ClassCancelled, Text: c.Problem}})
	}
}

// allocate reserves what a session below may spend: half of what is left, or what is left of what
// it had. It has it until it ends, because it can be resumed until then.
func (b *Children) allocate(c *childSession) *contract.Budget {
	r := b.s.run
	if !r.Shared.Budget.Bounds() {
		return nil
	}
	part := r.Budget.Portion(2)
	if c.Snapshot != nil && c.Snapshot.Plan != nil && c.Snapshot.Shared.Budget.Bounds() {
		part = *c.Snapshot.Shared.Budget
	}
	c.reserved = part.Each(c.Usage.Spent(), func(a, b int64) int64 { return max(0, a-b) })
	r.Budget.Earmark(c.reserved, 1)
	return &part
}

// charge counts what a session below has spent in all, and takes that from what is reserved. One that was
// reset has its count from the history that it goes on with: what was told before is spent nevertheless.
func (b *Children) charge(c *childSession, all contract.Usage) {
	more := all.Beyond(c.Usage)
	b.s.run.Budget.Usage.Add(more)
	c.Usage.Add(more)
	off := c.reserved.Each(more.Spent(), func(a, b int64) int64 { return min(a, b) })
	b.s.run.Budget.Earmark(off, -1)
	c.reserved = c.reserved.Each(off, func(a, b int64) int64 { return a - b })
}

// settleUp counts what a session that has ended spent and did not report, and gives back what is still reserved for it.
func (b *Children) settleUp(c *childSession, out *contract.RunResult, err error) {
	if all := runtime.SpentIn(out, err); all != nil {
		b.charge(c, *all)
	}
	b.s.run.Budget.Earmark(c.reserved, -1)
	c.reserved = contract.Budget{}
}

func callsBack(o contract.SessionOrder) bool { return o.Mode == contract.ModeCallback }

// callBack makes a turn of a session below one of this session.
func (b *Children) callBack(c *childSession, t contract.Turn) {
	b.s.state.Callbacks = append(b.s.state.Callbacks, contract.ChildTurn{Session: c.ID, Turn: t})
}

// problemOf is a failure as a session's parent reads it.
func problemOf(f *contract.Failure) string {
	switch f.Class {
	case contract.ClassCancelled:
		return f.Text
	case "":
		return cmp.Or(f.Text, "Unknown error")
	}
	return f.Class + ": " + f.Text
}

// heard takes over how a turn of a session below stands. What is from none is left out. What is told of
// one turn may come behind what is told of the next.
func (b *Children) heard(report *contract.ChildTurn) {
	c, t := b.child(report.Session), &report.Turn
	if c == nil || c.Closed {
		return
	}
	i := c.order(t.ID)
	if i >= 0 && (t.N != 0 || !t.Done()) {
		c.Orders[i].Taken = true
	}
	switch {
	case t.N != 0:
		b.turned(c, report)
	case i >= 0 && t.Done() && c.taken(t.ID) < 0: // the prompt was refused
		b.s.run.Policy.Moved = true
		c.Done = append(c.Done, *t)
	default:
		return
	}
	c.Status = c.standing()
}

// turned takes over how a turn stands of which a session below has told.
func (b *Children) turned(c *childSession, report *contract.ChildTurn) {
	t := &report.Turn
	b.charge(c, report.Usage)
	if late := c.Last != nil && (t.N < c.Last.N || t.N == c.Last.N && c.Last.Done()); !late {
		c.Params, c.Last, c.Expects = nil, t, report.Expects
	}
	if !t.Done() {
		return
	}
	b.s.run.Policy.Moved = true
	shorten(t)
	b.fulfil(c, t, report.Expects)
	// Callbacks that waited until the session expects none of its own get its latest turn.
	if c.Last.Done() && !c.Expects && len(runtime.Take(&c.Orders, func(o *contract.SessionOrder) bool { return o.Ended })) > 0 {
		b.callBack(c, *c.Last)
	}
}

// order finds what was asked of the session under a turn's id.
func (c *childSession) order(id string) int {
	return slices.IndexFunc(c.Orders, func(o contract.SessionOrder) bool { return o.ID == id && id != "" })
}

// standing is how the session stands.
func (c *childSession) standing() string {
	switch {
	case c.Last == nil:
		return "pending"
	case !c.Last.Done() || slices.ContainsFunc(c.Orders, func(o contract.SessionOrder) bool { return c.taken(o.ID) < 0 }):
		return contract.TurnRunning
	case c.Last.Status == contract.TurnFailed:
		return contract.TurnFailed
	}
	return contract.StatusIdle
}

// fulfil gives a turn that has ended to what asked for it.
func (b *Children) fulfil(c *childSession, t *contract.Turn, expects bool) {
	i := slices.IndexFunc(c.Orders, func(o contract.SessionOrder) bool { return o.ID == t.ID && (t.ID != "" || t.N == 1) })
	if i < 0 {
		return
	}
	switch c.Orders[i].Mode {
	case contract.ModeSync:
		if c.taken(t.ID) < 0 {
			c.Done = append(c.Done, *t)
		}
		return
	case contract.ModeCallback:
		if lone := b.s.run.Flow.LoneAgent(); expects && lone != nil && lone.Agent.CallbackWhenSettled {
			c.Orders[i].Ended = true
			return
		}
		b.callBack(c, *t)
	}
	c.Orders = slices.Delete(c.Orders, i, i+1)
}

// taken finds the ended turn of an order that somebody waits for, -1 if there is none.
func (c *childSession) taken(order string) int {
	return slices.IndexFunc(c.Done, func(t contract.Turn) bool { return t.ID == order })
}

// shorten cuts a result to what a conversation can be given.
func shorten(t *contract.Turn) {
	if t.ResultText != nil && len(*t.ResultText) > maxCallback {
		t.ResultText = new(cutResult(*t.ResultText))
	}
	if len(t.ResultData) > maxCallback {
		t.ResultText, t.ResultData = new(cutResult(string(t.ResultData))), nil
	}
}

// resultBytes is how long a turn's result is.
func resultBytes(t *contract.Turn) int {
	if t.ResultText == nil {
		return len(t.ResultData)
	}
	return len(t.ResultData) + len(*t.ResultText)
}

// called is the prompt for the results of children that have come, as many as one turn is given, and their sessions.
func (b *Children) called() (from []string, prompt string) {
	var list []words.Child
	size := 0
	for _, report := range b.s.state.Callbacks {
		t := &report.Turn
		c := words.Child{ID: report.Session, Text: t.ResultText, Data: t.ResultData}
		size += resultBytes(t)
		if t.Status != contract.TurnCompleted {
			c.Failed, c.Text, c.Data = true, nil, nil
			if t.Failure != nil {
				c.Problem = problemOf(t.Failure)
			}
			size += len(c.Problem)
		}
		if size > maxCallback && len(list) > 0 {
			break
		}
		list, from = append(list, c), append(from, c.ID)
	}
	b.s.state.Callbacks = b.s.state.Callbacks[len(list):]
	return from, words.Callback(list)
}

// expects reports whether a result is still to come to this session as a turn of its own.
func (b *Children) expects() bool {
	return slices.ContainsFunc(b.list, func(c *childSession) bool { return slices.ContainsFunc(c.Orders, callsBack) })
}

func (b *Children) child(id string) *childSession {
	if i := slices.IndexFunc(b.list, func(c *childSession) bool { return c.ID == id }); i >= 0 {
		return b.list[i]
	}
	return nil
}

// stopped reports whether no session below is running.
func (b *Children) stopped() bool {
	return !slices.ContainsFunc(b.list, func(c *childSession) bool { return c.future != nil })
}

// Gather asks all sessions below to come back with what they go on with, and waits for them and for the Updates under way.
func (s *Session) Gather(ctx workflow.Context) error {
	if s == nil || s.Below.ctx == nil {
		return nil
	}
	s.leaving = true
	for _, c := range s.Below.list {
		if c.future != nil {
			s.run.AskToYield(s.Below.ctx, c.future)
		}
	}
	quiet, _ := workflow.NewDisconnectedContext(ctx)
	err := wait.Until(quiet, func() bool { return workflow.AllHandlersFinished(ctx) && s.Below.stopped() })
	s.run.Policy.HeardBack(ctx)
	s.Hear()
	return err
}

// release ends all sessions below and waits until they have ended.
func (b *Children) release(ctx workflow.Context) {
	b.end()
	quiet, _ := workflow.NewDisconnectedContext(ctx)
	_ = wait.Until(quiet, b.stopped)
}

// plainAgent is the name of an agent that is started without one.
const plainAgent = "session"

// agent is the flow of an agent that this one may start, with all that it may start itself. The agent "" has no prompt of its own.
func (b *Children) agent(id string) *plan.Flow {
	f := b.s.run.Flow
	if id == "" {
		a := plan.Agent{MaxCalls: f.Nodes[0].Agent.MaxCalls, MaxErrors: f.Nodes[0].Agent.MaxErrors}
		return &plan.Flow{Version: f.Version, ID: plainAgent, Name: plainAgent, Dialect: f.Dialect, Inputs: &plan.Inputs{Mode: plan.InputsMerged},
			Nodes:  []plan.Node{{ID: "agent", Name: plainAgent, Kind: plan.KindAgent, Exit: true, Agent: &a}},
			Edges:  []plan.Edge{{ID: "in", From: plan.Start, To: "agent"}, {ID: "out", From: "agent", To: plan.End}},
			Limits: f.Limits, Policy: f.Policy}
	}
	return f.StartClosure(id)
}

// maxSessions bounds how many it has open.
const maxSessions = 100

// cutResult is a result as far as the framework shows it.
func cutResult(text string) string {
	runes := []rune(text)
	if len(runes) <= maxResult {
		return text
	}
	return string(runes[:maxResult]) + fmt.Sprintf("\n\n[Result truncated at %d characters]", maxResult)
}
