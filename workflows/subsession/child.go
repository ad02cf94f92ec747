package subsession

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
	// Callbacks are turns whose results the session above is yet to be given, as a turn of its own.
	Callbacks []contract.ChildTurn
	run       *runtime.Run
	// list are those that are not deleted.
	list []*childSession
	// ctx is their context, which end cancels; above is that of the run. They are set once the session takes turns.
	ctx, above workflow.Context
	end        workflow.CancelFunc
	turns      workflow.ReceiveChannel
}

// New returns the sessions below that of a run, as the run before left them.
func New(r *runtime.Run, list []contract.ChildSession, callbacks []contract.ChildTurn) *Children {
	b := &Children{run: r, Callbacks: callbacks}
	for _, c := range list {
		b.list = append(b.list, &childSession{ChildSession: c})
	}
	return b
}

// Snapshot returns the sessions as another run goes on with them.
func (b *Children) Snapshot() []contract.ChildSession {
	var out []contract.ChildSession
	for _, k := range b.list {
		out = append(out, k.ChildSession)
	}
	return out
}

// Status is their part of the query's answer.
func (b *Children) Status() []contract.ChildStatus {
	var out []contract.ChildStatus
	for _, c := range b.list {
		out = append(out, c.ChildStatus)
	}
	return out
}

// Serve receives what sessions below say, and launches them.
func (b *Children) Serve(ctx workflow.Context) {
	b.above = ctx
	b.ctx, b.end = workflow.WithCancel(ctx)
	b.turns = workflow.GetSignalChannel(ctx, contract.SignalTurn)
	b.run.Requests.Listeners.Add(b.ReceiveTurns, b.turns)
	b.Launch()
}

// childSession is a session that this one has started. It runs as a child workflow; where this run
// continues as new it comes back with what it goes on with, and is started again from there.
type childSession struct {
	contract.ChildSession
	future *runtime.ChildRun
	// reserved is what of the budget is reserved for it.
	reserved contract.Budget
}

// Launch starts the sessions that are not running, with what they go on with.
func (b *Children) Launch() {
	for _, c := range b.list {
		if !c.Closed && c.future == nil {
			b.launch(c)
		}
	}
}

// launch starts a session and waits for its end beside everything else.
func (b *Children) launch(c *childSession) {
	r := b.run
	in := r.Below()
	in.Parent, in.Session = r.Transcript.Workflow, true
	if c.Snapshot != nil && c.Snapshot.Plan != nil {
		in.Snapshot = c.Snapshot
	} else {
		// The source is of this agent's own document, not of the other's.
		in.Flow, in.Params, in.Scope = contract.FlowRef{Plan: b.agent(c.Agent)}, c.Params, r.Shared.Scope
	}
	in.Budget = b.allocate(c)
	in.MaxResultBytes = r.Sizes.Share(b.ctx, 4*maxSessions)
	k := &runtime.Child{Workflow: contract.WorkflowFlow, In: &in, ID: c.ID, Summary: "session · " + cmp.Or(c.Agent, plainAgent)}
	if err := r.Admit(b.ctx, k, "what the session is started with"); err != nil {
		b.closed(c, nil, err)
		return
	}
	c.future = r.Start(b.ctx, k)
	release := r.Sizes.Reserve(in.MaxResultBytes, 0)
	wait.Go(b.ctx, "child session", func(ctx workflow.Context) {
		var out contract.RunResult
		again, err := runtime.RetryTakenID(ctx, c.future.Result(ctx, &out), 1, c.ID)
		for tries := 2; again; tries++ {
			c.future = r.Start(ctx, k)
			again, err = runtime.RetryTakenID(ctx, c.future.Result(ctx, &out), tries, c.ID)
		}
		release()
		if err == nil && out.Held != nil {
			held := out.Held
			out = contract.RunResult{}
			err = r.Fetch(ctx, held, c.ID, &out)
		}
		c.future = nil
		b.closed(c, &out, err)
	})
}

// closed takes over how a session came to its end.
func (b *Children) closed(c *childSession, out *contract.RunResult, err error) {
	b.ReceiveTurns() // what it said before
	b.settleUp(c, out, err)
	c.Snapshot = nil
	if err == nil && out.Yielded != nil {
		c.Snapshot = out.Yielded
		return
	}
	c.Closed = true
	b.run.Requests.Disown(b.above, contract.BoundID(c.ID), err)
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
	r := b.run
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
	b.run.Budget.Usage.Add(more)
	c.Usage.Add(more)
	off := c.reserved.Each(more.Spent(), func(a, b int64) int64 { return min(a, b) })
	b.run.Budget.Earmark(off, -1)
	c.reserved = c.reserved.Each(off, func(a, b int64) int64 { return a - b })
}

// settleUp counts what a session that has ended spent and did not report, and gives back what is still reserved for it.
func (b *Children) settleUp(c *childSession, out *contract.RunResult, err error) {
	if all := runtime.SpentIn(out, err); all != nil {
		b.charge(c, *all)
	}
	b.run.Budget.Earmark(c.reserved, -1)
	c.reserved = contract.Budget{}
}

func callsBack(o contract.SessionOrder) bool { return o.Mode == contract.ModeCallback }

// callBack makes a turn of a session below one of this session.
func (b *Children) callBack(c *childSession, t contract.Turn) {
	b.Callbacks = append(b.Callbacks, contract.ChildTurn{Session: c.ID, Turn: t})
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

// heard takes over how a turn of a session below stands. What is from none is left out, and so is a failure without a reason, which
// no session sends. What is told of one turn may come behind what is told of the next.
func (b *Children) heard(report *contract.ChildTurn) {
	c, t := b.child(report.Session), &report.Turn
	if c == nil || c.Closed || t.Done() && t.Status != contract.TurnCompleted && t.Failure == nil {
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
		b.run.Policy.Moved = true
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
	b.run.Policy.Moved = true
	Shorten(t)
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
		if lone := b.run.Flow.LoneAgent(); expects && lone != nil && lone.Agent.CallbackWhenSettled {
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

// Shorten cuts a result to what a conversation can be given.
func Shorten(t *contract.Turn) {
	if t.ResultText != nil && len(*t.ResultText) > maxCallback {
		t.ResultText = new(cutResult(*t.ResultText))
	}
	if len(t.ResultData) > maxCallback {
		t.ResultText, t.ResultData = new(cutResult(string(t.ResultData))), nil
	}
}

// ResultBytes is how long a turn's result is.
func ResultBytes(t *contract.Turn) int {
	if t.ResultText == nil {
		return len(t.ResultData)
	}
	return len(t.ResultData) + len(*t.ResultText)
}

// Called is the prompt for the results of children that have come, as many as one turn is given, and their sessions.
func (b *Children) Called() (from []string, prompt string) {
	var list []words.Child
	size := 0
	for _, report := range b.Callbacks {
		t := &report.Turn
		c := words.Child{ID: report.Session, Text: t.ResultText, Data: t.ResultData}
		size += ResultBytes(t)
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
	b.Callbacks = b.Callbacks[len(list):]
	return from, words.Callback(list)
}

// Expects reports whether a result is still to come to this session as a turn of its own.
func (b *Children) Expects() bool {
	return slices.ContainsFunc(b.list, func(c *childSession) bool { return slices.ContainsFunc(c.Orders, callsBack) })
}

func (b *Children) child(id string) *childSession {
	if i := slices.IndexFunc(b.list, func(c *childSession) bool { return c.ID == id }); i >= 0 {
		return b.list[i]
	}
	return nil
}

// Stopped reports whether no session below is running.
func (b *Children) Stopped() bool {
	return !slices.ContainsFunc(b.list, func(c *childSession) bool { return c.future != nil })
}

// AskToYield asks all sessions to come back with what they go on with.
func (b *Children) AskToYield() {
	for _, c := range b.list {
		if c.future != nil {
			b.run.AskToYield(b.ctx, c.future)
		}
	}
}

// ReceiveTurns takes in what sessions below have said so far. What is of a wrong shape is left out.
func (b *Children) ReceiveTurns() {
	if b.turns == nil {
		return
	}
	runtime.Each(b.above, b.run.Requests, b.turns, func(t *contract.ChildTurn, err error) {
		if err == nil {
			b.heard(t)
		}
	})
}

// Release ends all sessions and waits until they have ended.
func (b *Children) Release(ctx workflow.Context) {
	b.end()
	wait.Uncancelled(ctx, b.Stopped)
}

// plainAgent is the name of an agent that is started without one.
const plainAgent = "session"

// agent is the flow of an agent that this one may start, with all that it may start itself. The agent "" has no prompt of its own.
func (b *Children) agent(id string) *plan.Flow {
	f := b.run.Flow
	if id == "" {
		a := plan.Agent{MaxCalls: f.Nodes[0].Agent.MaxCalls, MaxErrors: f.Nodes[0].Agent.MaxErrors}
		return &plan.Flow{Version: f.Version, ID: plainAgent, Name: plainAgent, Dialect: f.Dialect, Inputs: &plan.Inputs{Mode: plan.InputsMerged},
			Nodes:  []plan.Node{{ID: "agent", Name: plainAgent, Kind: plan.KindAgent, Exit: true, Agent: &a}},
			Edges:  []plan.Edge{{ID: "in", From: plan.Start, To: "agent"}, {ID: "out", From: "agent", To: plan.End}},
			Limits: f.Limits, Policy: f.Policy}
	}
	return f.StartClosure(id)
}

const (
	// maxSessions bounds how many it has open.
	maxSessions = 100
	// maxCallback is how much of children's results one turn is given.
	maxCallback = 256 << 10
)

// cutResult is a result as far as the framework shows it.
func cutResult(text string) string {
	runes := []rune(text)
	if len(runes) <= maxResult {
		return text
	}
	return string(runes[:maxResult]) + fmt.Sprintf("\n\n[Result truncated at %d characters]", maxResult)
}
