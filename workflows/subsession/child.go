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
	plansession "weft/workflows/plan/session"
	"weft/workflows/runtime"
	"weft/workflows/wait"
)

// Children are the child sessions of a run.
type Children struct {
	// Callbacks are turns of children whose results will be the input of a turn of this session.
	Callbacks []contract.ChildTurn
	run       *runtime.Run
	// list holds the children that are not deleted.
	list []*childSession
	// ctx is the context of the children, which end cancels; runCtx is that of the run. They are set once the session takes turns.
	ctx, runCtx workflow.Context
	end         workflow.CancelFunc
	turns       workflow.ReceiveChannel
}

// New returns the child sessions of a run, as the previous run left them.
func New(r *runtime.Run, list []contract.ChildSession, callbacks []contract.ChildTurn) *Children {
	b := &Children{run: r, Callbacks: callbacks}
	for _, c := range list {
		b.list = append(b.list, &childSession{ChildSession: c})
	}
	return b
}

// Snapshot returns the sessions for the next run.
func (b *Children) Snapshot() []contract.ChildSession {
	var out []contract.ChildSession
	for _, k := range b.list {
		out = append(out, k.ChildSession)
	}
	return out
}

// Status returns their part of a run's status.
func (b *Children) Status() []contract.ChildStatus {
	var out []contract.ChildStatus
	for _, c := range b.list {
		out = append(out, c.ChildStatus)
	}
	return out
}

// Serve listens to the child sessions, and launches them.
func (b *Children) Serve(ctx workflow.Context) {
	b.runCtx = ctx
	b.ctx, b.end = workflow.WithCancel(ctx)
	b.turns = workflow.GetSignalChannel(ctx, contract.SignalTurn)
	b.run.Requests.Listeners.Add(b.ReceiveTurns, b.turns)
	b.Launch()
}

// childSession is a session that this one has started. It runs as a child workflow; when this run
// continues as new, it yields a snapshot, and is started again from that.
type childSession struct {
	contract.ChildSession
	run *runtime.ChildRun
	// reserved is the part of the budget that is reserved for it.
	reserved contract.Budget
}

// Launch starts the sessions that are not running, from their snapshots.
func (b *Children) Launch() {
	for _, c := range b.list {
		if !c.Closed && c.run == nil {
			b.launch(c)
		}
	}
}

// launch starts a session and waits for its end in a coroutine.
func (b *Children) launch(c *childSession) {
	r := b.run
	in := r.ChildInput()
	in.Parent, in.Session = r.Transcript.Workflow, true
	if c.Snapshot != nil && c.Snapshot.Plan != nil {
		in.Snapshot = c.Snapshot
	} else {
		// Without source positions: they are those of this agent's document.
		in.Flow, in.Params, in.Scope = contract.FlowRef{Plan: b.agentFlow(c.Agent)}, c.Params, r.Shared.Scope
	}
	in.Budget = b.allocate(c)
	in.MaxResultBytes = r.Sizes.Share(b.ctx, 4*maxSessions)
	k := &runtime.Child{Workflow: contract.WorkflowFlow, In: &in, ID: c.ID, Summary: "session · " + cmp.Or(c.Agent, unnamedAgent)}
	if err := r.Admit(b.ctx, k, "the session's input"); err != nil {
		b.recordEnd(c, nil, err)
		return
	}
	c.run = r.Start(b.ctx, k)
	release := r.Sizes.Reserve(in.MaxResultBytes, 0)
	wait.Go(b.ctx, "child session", func(ctx workflow.Context) {
		var out contract.RunResult
		again, err := runtime.RetryStart(ctx, c.run.Result(ctx, &out), 1, c.ID)
		for tries := 2; again; tries++ {
			c.run = r.Start(ctx, k)
			again, err = runtime.RetryStart(ctx, c.run.Result(ctx, &out), tries, c.ID)
		}
		release()
		if err == nil && out.Held != nil {
			held := out.Held
			out = contract.RunResult{}
			err = r.Fetch(ctx, held, c.ID, &out)
		}
		c.run = nil
		b.recordEnd(c, &out, err)
	})
}

// recordEnd records the end of a session's run.
func (b *Children) recordEnd(c *childSession, out *contract.RunResult, err error) {
	b.ReceiveTurns() // its earlier reports
	b.settleUp(c, out, err)
	c.Snapshot = nil
	if err == nil && out.Yielded != nil {
		c.Snapshot = out.Yielded
		return
	}
	c.Closed = true
	b.run.Requests.Disown(b.runCtx, contract.ShortenID(c.ID), err)
	c.Status = contract.TurnFailed
	if err == nil || contract.Cancelled(err) {
		c.Status, c.Problem = contract.TurnStopped, plansession.Stopped
	} else if _, terminated := errors.AsType[*temporal.TerminatedError](err); terminated {
		c.Problem = "Session was terminated"
	} else {
		c.Problem = problemText(contract.FailureOf(err))
	}
	for _, o := range runtime.Take(&c.Orders, func(o *contract.SessionOrder) bool { return isCallback(*o) }) {
		b.addCallback(c, contract.Turn{ID: o.ID, Status: contract.TurnFailed, Failure: &contract.Failure{Class: contract.ClassCancelled, Text: c.Problem}})
	}
}

// allocate reserves the budget of a child session: half of the remaining one, or the rest of its earlier
// allocation. The child keeps it until it ends, because it can be resumed until then.
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

// charge counts the usage of a child session, given its total, and reduces its reservation. The total of a session that was
// reset may be lower than reported before: usage that was counted remains counted.
func (b *Children) charge(c *childSession, total contract.Usage) {
	delta := total.Excess(c.Usage)
	b.run.Budget.Usage.Add(delta)
	c.Usage.Add(delta)
	released := c.reserved.Each(delta.Spent(), func(a, b int64) int64 { return min(a, b) })
	b.run.Budget.Earmark(released, -1)
	c.reserved = c.reserved.Each(released, func(a, b int64) int64 { return a - b })
}

// settleUp counts the unreported usage of a session that has ended, and releases its reservation.
func (b *Children) settleUp(c *childSession, out *contract.RunResult, err error) {
	if total := runtime.ChildUsage(out, err); total != nil {
		b.charge(c, *total)
	}
	b.run.Budget.Earmark(c.reserved, -1)
	c.reserved = contract.Budget{}
}

func isCallback(o contract.SessionOrder) bool { return o.Mode == contract.ModeCallback }

// addCallback adds a turn of a child session to the callbacks.
func (b *Children) addCallback(c *childSession, t contract.Turn) {
	b.Callbacks = append(b.Callbacks, contract.ChildTurn{Session: c.ID, Turn: t})
}

// problemText formats a failure for the parent of a session.
func problemText(f *contract.Failure) string {
	switch f.Class {
	case contract.ClassCancelled:
		return f.Text
	case "":
		return cmp.Or(f.Text, "Unknown error")
	}
	return f.Class + ": " + f.Text
}

// handleReport processes a report about a turn of a child session. It ignores reports from other senders, and a failure without a
// reason, which no session sends. Reports may arrive out of order.
func (b *Children) handleReport(report *contract.ChildTurn) {
	c, t := b.find(report.Session), &report.Turn
	if c == nil || c.Closed || t.Done() && t.Status != contract.TurnCompleted && t.Failure == nil {
		return
	}
	i := c.orderIndex(t.ID)
	if i >= 0 && (t.N != 0 || !t.Done()) {
		c.Orders[i].Taken = true
	}
	switch {
	case t.N != 0:
		b.updateTurn(c, report)
	case i >= 0 && t.Done() && c.doneIndex(t.ID) < 0: // the prompt was refused
		b.run.Policy.Progressed = true
		c.Done = append(c.Done, *t)
	default:
		return
	}
	c.Status = c.status()
}

// updateTurn applies a report about a turn that has begun.
func (b *Children) updateTurn(c *childSession, report *contract.ChildTurn) {
	t := &report.Turn
	b.charge(c, report.Usage)
	if late := c.Last != nil && (t.N < c.Last.N || t.N == c.Last.N && c.Last.Done()); !late {
		c.Params, c.Last, c.Expects = nil, t, report.Expects
	}
	if !t.Done() {
		return
	}
	b.run.Policy.Progressed = true
	Shorten(t)
	b.fulfil(c, t, report.Expects)
	// Callbacks that waited until the session expects no results receive its latest turn.
	if c.Last.Done() && !c.Expects && len(runtime.Take(&c.Orders, func(o *contract.SessionOrder) bool { return o.Ended })) > 0 {
		b.addCallback(c, *c.Last)
	}
}

// orderIndex returns the index of the order for a turn's id, or -1.
func (c *childSession) orderIndex(id string) int {
	return slices.IndexFunc(c.Orders, func(o contract.SessionOrder) bool { return o.ID == id && id != "" })
}

// status returns the session's current status.
func (c *childSession) status() string {
	switch {
	case c.Last == nil:
		return "pending"
	case !c.Last.Done() || slices.ContainsFunc(c.Orders, func(o contract.SessionOrder) bool { return c.doneIndex(o.ID) < 0 }):
		return contract.TurnRunning
	case c.Last.Status == contract.TurnFailed:
		return contract.TurnFailed
	}
	return contract.StatusIdle
}

// fulfil delivers a turn that has ended to its order.
func (b *Children) fulfil(c *childSession, t *contract.Turn, expects bool) {
	i := slices.IndexFunc(c.Orders, func(o contract.SessionOrder) bool { return o.ID == t.ID && (t.ID != "" || t.N == 1) })
	if i < 0 {
		return
	}
	switch c.Orders[i].Mode {
	case contract.ModeSync:
		if c.doneIndex(t.ID) < 0 {
			c.Done = append(c.Done, *t)
		}
		return
	case contract.ModeCallback:
		if lone := b.run.Flow.SingleAgent(); expects && lone != nil && lone.Agent.CallbackWhenSettled {
			c.Orders[i].Ended = true
			return
		}
		b.addCallback(c, *t)
	}
	c.Orders = slices.Delete(c.Orders, i, i+1)
}

// doneIndex returns the index of the ended turn of an order whose result is pending, or -1.
func (c *childSession) doneIndex(order string) int {
	return slices.IndexFunc(c.Done, func(t contract.Turn) bool { return t.ID == order })
}

// Shorten cuts a turn's result to the size that a parent session accepts.
func Shorten(t *contract.Turn) {
	if t.ResultText != nil && len(*t.ResultText) > maxCallback {
		t.ResultText = new(cutResult(*t.ResultText))
	}
	if len(t.ResultData) > maxCallback {
		t.ResultText, t.ResultData = new(cutResult(string(t.ResultData))), nil
	}
}

// ResultBytes returns the length of a turn's result.
func ResultBytes(t *contract.Turn) int {
	if t.ResultText == nil {
		return len(t.ResultData)
	}
	return len(t.ResultData) + len(*t.ResultText)
}

// TakeCallbacks removes the callbacks that fit into one turn, and returns their sessions and the prompt with their results.
func (b *Children) TakeCallbacks() (from []string, prompt string) {
	var list []plansession.Child
	size := 0
	for _, report := range b.Callbacks {
		t := &report.Turn
		c := plansession.Child{ID: report.Session, Text: t.ResultText, Data: t.ResultData}
		size += ResultBytes(t)
		if t.Status != contract.TurnCompleted {
			c.Failed, c.Text, c.Data = true, nil, nil
			if t.Failure != nil {
				c.Problem = problemText(t.Failure)
			}
			size += len(c.Problem)
		}
		if size > maxCallback && len(list) > 0 {
			break
		}
		list, from = append(list, c), append(from, c.ID)
	}
	b.Callbacks = b.Callbacks[len(list):]
	return from, plansession.Callback(list)
}

// Expects reports whether a callback is still pending.
func (b *Children) Expects() bool {
	return slices.ContainsFunc(b.list, func(c *childSession) bool { return slices.ContainsFunc(c.Orders, isCallback) })
}

func (b *Children) find(id string) *childSession {
	if i := slices.IndexFunc(b.list, func(c *childSession) bool { return c.ID == id }); i >= 0 {
		return b.list[i]
	}
	return nil
}

// Stopped reports whether no child session is running.
func (b *Children) Stopped() bool {
	return !slices.ContainsFunc(b.list, func(c *childSession) bool { return c.run != nil })
}

// AskToYield asks all running sessions to yield.
func (b *Children) AskToYield() {
	for _, c := range b.list {
		if c.run != nil {
			b.run.AskToYield(b.ctx, c.run)
		}
	}
}

// ReceiveTurns processes the reports received from child sessions. It ignores those that cannot be decoded.
func (b *Children) ReceiveTurns() {
	if b.turns == nil {
		return
	}
	runtime.Each(b.runCtx, b.run.Requests, b.turns, func(t *contract.ChildTurn, err error) {
		if err == nil {
			b.handleReport(t)
		}
	})
}

// Release ends all sessions and waits until they have ended.
func (b *Children) Release(ctx workflow.Context) {
	b.end()
	wait.UntilIgnoringCancel(ctx, b.Stopped)
}

// unnamedAgent is the name of an agent that is started without a name.
const unnamedAgent = "session"

// agentFlow returns the flow of an agent that may be started, with the flows that it may start. The agent "" has no system prompt.
func (b *Children) agentFlow(id string) *plan.Flow {
	f := b.run.Flow
	if id == "" {
		a := plan.Agent{MaxCalls: f.Nodes[0].Agent.MaxCalls, MaxErrors: f.Nodes[0].Agent.MaxErrors}
		return &plan.Flow{Version: f.Version, ID: unnamedAgent, Name: unnamedAgent, Dialect: f.Dialect, Inputs: &plan.Inputs{Mode: plan.InputsMerged},
			Nodes:  []plan.Node{{ID: "agent", Name: unnamedAgent, Kind: plan.KindAgent, Exit: true, Agent: &a}},
			Edges:  []plan.Edge{{ID: "in", From: plan.Start, To: "agent"}, {ID: "out", From: "agent", To: plan.End}},
			Limits: f.Limits, Policy: f.Policy}
	}
	return f.StartClosure(id)
}

const (
	// maxSessions is the maximum number of open child sessions.
	maxSessions = 100
	// maxCallback is the maximum number of bytes of children's results in one turn.
	maxCallback = 256 << 10
)

// cutResult cuts a result like the framework.
func cutResult(text string) string {
	runes := []rune(text)
	if len(runes) <= maxResult {
		return text
	}
	return string(runes[:maxResult]) + fmt.Sprintf("\n\n[Result truncated at %d characters]", maxResult)
}
