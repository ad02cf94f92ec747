package rehearse

import (
	"fmt"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// settling is how long, in virtual time, a run must be idle before its next delivery; longer than the interval between
// polls. overdue is how long a complete delivery waits for earlier ones: the clocks of servers differ.
const (
	settling = 5 * time.Second
	overdue  = time.Hour
)

// signalDelivered wakes the run with the next delivery.
const signalDelivered = "_delivered"

// gates adds a [gate] to each run.
type gates struct {
	interceptor.WorkerInterceptorBase
	p *player
}

// InterceptWorkflow adds a gate to a run.
func (g *gates) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &gate{WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: next}, p: g.p,
		turns: map[string]*interceptor.HandleSignalInput{}, resumed: map[string]*interceptor.HandleSignalInput{},
		expected: map[string]*Turn{}, ended: map[string]bool{}, released: map[string]bool{}}
}

// gate delays signals to a run, and results of its calls and child runs, until their recorded delivery.
type gate struct {
	interceptor.WorkflowInboundInterceptorBase
	p     *player
	place string
	// pending are the remaining deliveries, in order; done counts the others. started reports whether the run has started.
	pending []*Delivery
	done    int
	started bool
	// turns and resumed are delayed signals; expected are the turns of pending deliveries by key.
	turns, resumed map[string]*interceptor.HandleSignalInput
	expected       map[string]*Turn
	// ended are the calls and runs that have ended; released are those whose results the run may see.
	ended, released map[string]bool
}

// Init intercepts the run's calls.
func (g *gate) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return g.WorkflowInboundInterceptorBase.Init(&gateOut{interceptor.WorkflowOutboundInterceptorBase{Next: next}, g})
}

// ExecuteWorkflow runs the workflow and makes its recorded deliveries.
func (g *gate) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	g.place = g.p.below(workflow.GetInfo(ctx).WorkflowExecution.ID)
	for i := range g.p.rec.Inbox {
		if d := &g.p.rec.Inbox[i]; d.Run == g.place {
			g.pending = append(g.pending, d)
		}
	}
	g.started = true
	defer g.passed(g.pending)
	g.p.mu.Lock()
	g.p.gates = append(g.p.gates, g)
	g.p.mu.Unlock()
	for _, d := range g.pending {
		for i := range d.Turns {
			g.expected[d.Turns[i].key()] = &d.Turns[i]
		}
	}
	quiet, _ := workflow.NewDisconnectedContext(ctx)
	workflow.GoNamed(quiet, "recorded order", g.deliver)
	return g.WorkflowInboundInterceptorBase.ExecuteWorkflow(ctx, in)
}

// deliver makes the deliveries of the run in order, each once it is complete.
func (g *gate) deliver(ctx workflow.Context) {
	for len(g.pending) > 0 {
		d := g.pending[0]
		if workflow.Await(ctx, func() bool { return g.p.freed() || g.missing(d) == "" }) != nil {
			return
		}
		if _, err := workflow.AwaitWithTimeout(ctx, overdue, func() bool { return g.p.freed() || g.p.next() == d }); err != nil {
			return
		}
		if g.p.freed() || workflow.Sleep(ctx, settling) != nil {
			break
		}
		g.pending = g.pending[1:]
		g.done++
		g.makeDelivery(ctx, d)
		g.passed([]*Delivery{d})
	}
	g.pending = nil
	for _, delayed := range []map[string]*interceptor.HandleSignalInput{g.turns, g.resumed} {
		for _, in := range delayed {
			g.pass(ctx, in)
		}
	}
}

// passed marks deliveries that have been made, or no longer can be, and wakes the run with the next one.
func (g *gate) passed(all []*Delivery) {
	for _, d := range all {
		g.p.passed[d] = true
	}
	next := g.p.next()
	switch {
	case next == nil || next.Run == g.place:
	case next.Run == "":
		g.p.env.SignalWorkflow(signalDelivered, nil)
	case g.p.started(next.Run): // others check when they start
		_ = g.p.env.SignalWorkflowByID(g.p.rec.ID+"/"+next.Run, signalDelivered, nil) // it may have ended
	}
}

// missing describes the first missing part of a delivery; it returns "" if the delivery is complete.
func (g *gate) missing(d *Delivery) string {
	for _, at := range d.Ended {
		if !g.ended[at] {
			return "the call " + at + " ends"
		}
	}
	for _, c := range d.Closed {
		if c.Status != Terminated && !g.ended[c.Run] {
			return "the run " + c.Run + " ends"
		}
	}
	for i := range d.Turns {
		if t := &d.Turns[i]; g.turns[t.key()] == nil {
			return t.String() + ": " + t.Status
		}
	}
	for _, id := range d.Resumed {
		if g.resumed[id] == nil {
			return "the prompt " + id + " of the parent session"
		}
	}
	return ""
}

func (g *gate) makeDelivery(ctx workflow.Context, d *Delivery) {
	for i := range d.Turns {
		key := d.Turns[i].key()
		g.pass(ctx, g.turns[key])
		delete(g.turns, key)
	}
	for _, id := range d.Resumed {
		g.pass(ctx, g.resumed[id])
		delete(g.resumed, id)
	}
	for i := range d.Prompts {
		q := &d.Prompts[i]
		if raw, err := q.Stored(); err == nil {
			g.p.keep(raw)
		}
		g.signal(ctx, contract.UpdatePrompt, contract.PromptInput{ID: q.ID, Prompt: q.Prompt, Media: q.Media})
	}
	if d.Stop != nil {
		g.signal(ctx, contract.UpdateCloseSession, d.Stop)
	}
	for _, at := range d.Ended {
		g.released[at] = true
	}
	for _, c := range d.Closed {
		g.released[c.Run] = true
	}
	if d.Cancelled {
		g.p.env.CancelWorkflow()
	}
}

// signal sends the run a recorded message.
func (g *gate) signal(ctx workflow.Context, name string, v any) {
	payload, err := converter.GetDefaultDataConverter().ToPayloads(v)
	if err != nil {
		g.p.note("", name, "a message that can be encoded", err.Error())
		return
	}
	g.pass(ctx, &interceptor.HandleSignalInput{SignalName: name, Arg: payload})
}

func (g *gate) pass(ctx workflow.Context, in *interceptor.HandleSignalInput) {
	if err := g.Next.HandleSignal(ctx, in); err != nil {
		g.p.note("", in.SignalName, "accepted by the run", err.Error())
	}
}

// HandleSignal delays a signal that belongs to a later delivery.
func (g *gate) HandleSignal(ctx workflow.Context, in *interceptor.HandleSignalInput) error {
	switch {
	case in.SignalName == signalDelivered:
		return nil
	case g.started && (len(g.pending) == 0 || g.p.freed()):
	case in.SignalName == contract.SignalTurn:
		var message contract.ChildTurn
		if !read(in.Arg, &message) {
			break
		}
		got := NewTurn(g.p.below(message.Session), &message.Turn)
		if want := g.expected[got.key()]; want != nil {
			g.turns[got.key()] = in
			g.p.compareTurn(want, &got)
			return nil
		}
	case in.SignalName == contract.UpdatePrompt:
		var message contract.PromptInput
		if !read(in.Arg, &message) {
			break
		}
		for _, d := range g.pending {
			if slices.Contains(d.Resumed, message.ID) {
				g.resumed[message.ID] = in
				return nil
			}
		}
	}
	return g.Next.HandleSignal(ctx, in)
}

func read(p *commonpb.Payloads, v any) bool {
	return len(p.GetPayloads()) > 0 && converter.GetDefaultDataConverter().FromPayloads(p, v) == nil
}

// gateOut delays results of calls.
type gateOut struct {
	interceptor.WorkflowOutboundInterceptorBase
	g *gate
}

// ExecuteActivity delays the result of a call that belongs to a delivery. A cancelled call ends at
// once. The heartbeat timeout is in real time, so it is long enough for a busy machine.
func (o *gateOut) ExecuteActivity(ctx workflow.Context, kind string, args ...any) workflow.Future {
	ctx = workflow.WithHeartbeatTimeout(ctx, patience)
	f := o.Next.ExecuteActivity(ctx, kind, args...)
	g := o.g
	at := strings.TrimPrefix(contract.FlowID(g.place)+"/"+contract.CallID(workflow.GetActivityOptions(ctx).ActivityID), "/")
	if !g.delays(at) {
		return f
	}
	out, set := workflow.NewFuture(ctx)
	workflow.GoNamed(ctx, "result of "+at, func(ctx workflow.Context) {
		quiet, _ := workflow.NewDisconnectedContext(ctx)
		_ = workflow.Await(quiet, f.IsReady)
		g.ended[at] = true
		_ = workflow.Await(ctx, func() bool { return g.released[at] || g.p.freed() })
		set.Chain(f)
	})
	return out
}

// childFuture is a child run whose end is delayed.
type childFuture struct {
	workflow.ChildWorkflowFuture
	end workflow.Future
}

func (f *childFuture) Get(ctx workflow.Context, v any) error { return f.end.Get(ctx, v) }

func (f *childFuture) IsReady() bool { return f.end.IsReady() }

// ExecuteChildWorkflow delays the end of a child run that belongs to a delivery, and ends the run if
// it was terminated.
func (o *gateOut) ExecuteChildWorkflow(ctx workflow.Context, kind string, args ...any) workflow.ChildWorkflowFuture {
	g := o.g
	place := g.p.below(workflow.GetChildWorkflowOptions(ctx).WorkflowID)
	status := g.closed(place)
	if status == "" {
		return o.Next.ExecuteChildWorkflow(ctx, kind, args...)
	}
	cctx, cancel := workflow.WithCancel(ctx)
	f := o.Next.ExecuteChildWorkflow(cctx, kind, args...)
	out, set := workflow.NewFuture(ctx)
	workflow.GoNamed(ctx, "end of "+place, func(ctx workflow.Context) {
		quiet, _ := workflow.NewDisconnectedContext(ctx)
		_ = workflow.Await(quiet, func() bool { return f.IsReady() || g.released[place] })
		g.ended[place] = true
		_ = workflow.Await(quiet, func() bool { return g.released[place] || g.p.freed() })
		if status == Terminated && !f.IsReady() {
			cancel()
			set.SetError(&temporal.TerminatedError{})
			return
		}
		set.Chain(f)
	})
	return &childFuture{f, out}
}

// closed returns the status of a child run in a pending delivery, or "".
func (g *gate) closed(place string) string {
	for _, d := range g.pending {
		for _, c := range d.Closed {
			if c.Run == place {
				return c.Status
			}
		}
	}
	return ""
}

// delays reports whether a call's result belongs to a pending delivery.
func (g *gate) delays(at string) bool {
	return slices.ContainsFunc(g.pending, func(d *Delivery) bool { return slices.Contains(d.Ended, at) })
}

// below returns the path of a run below the recorded one; "" for the recorded one.
func (p *player) below(id string) string {
	if id == p.rec.ID {
		return ""
	}
	return strings.TrimPrefix(id, p.rec.ID+"/")
}

// freed reports whether the recorded order does not apply: there is none, or the run has diverged.
func (p *player) freed() bool { return len(p.rec.Inbox) == 0 || p.diverged() }

// started reports whether a run has started.
func (p *player) started(place string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.gates, func(g *gate) bool { return g.place == place })
}

// next returns the next delivery of all runs, or nil.
func (p *player) next() *Delivery {
	for ; p.first < len(p.rec.Inbox); p.first++ {
		if d := &p.rec.Inbox[p.first]; !p.passed[d] {
			return d
		}
	}
	return nil
}

// blocked returns the first incomplete delivery and its missing part; nil if there is none.
func (p *player) blocked() (d *Delivery, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.gates {
		if len(g.pending) > 0 {
			if what := g.missing(g.pending[0]); what != "" {
				return g.pending[0], what
			}
		}
	}
	for i := range p.rec.Inbox {
		d := &p.rec.Inbox[i]
		if d.Run != "" && !slices.ContainsFunc(p.gates, func(g *gate) bool { return g.place == d.Run }) {
			return d, fmt.Sprintf("the start of the session %s", d.Run)
		}
	}
	return nil, ""
}
