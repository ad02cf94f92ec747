package workflows

import (
	"cmp"
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/schedule"
)

// Messages that nobody asked for wait at the owner's inbox for the next model call. Where
// agents run as branches, the owner gives each message to one branch; a branch that makes no
// further model call brings it back.

// dispatch is a message that a branch has.
type dispatch struct {
	message contract.Inbound
	to      *schedule.Execution
	// sent is nil where the branch began with the message.
	sent workflow.Future
}

// assign gives unread messages to branches that are running. While a branch runs alone, in
// this run, its agent takes them itself.
func (f *flowRun) assign(ctx workflow.Context) {
	if f.sched == nil {
		return
	}
	quiet, _ := workflow.NewDisconnectedContext(ctx)
	var left []contract.Inbound
	full := false
	for _, m := range f.run.requests.inbox.unread {
		x := f.addressee(&m)
		if x == nil || full {
			left = append(left, m)
			continue
		}
		if full = !f.run.guard.clear() || !f.run.guard.take(quiet, inPayload(m.Text)+len(m.Node)); full {
			left = append(left, m)
			continue
		}
		sent := f.run.signalChild(quiet, f.branches[x].child, contract.SignalSteer, m)
		f.run.guard.sends(sent)
		f.sent = append(f.sent, dispatch{message: m, to: x, sent: sent})
	}
	f.run.requests.inbox.unread = left
	if !full || f.assigns {
		return
	}
	f.assigns = true
	workflow.GoNamed(quiet, "assign", func(ctx workflow.Context) {
		if f.run.guard.next(ctx) == nil {
			f.assigns = false
			f.assign(ctx)
		}
	})
}

// given counts the messages that branches have, and their bytes.
func (f *flowRun) given() (n, size int) {
	for i := range f.sent {
		size += inPayload(f.sent[i].message.Text) + len(f.sent[i].message.Node)
	}
	return len(f.sent), size
}

// addressee is the branch that gets a message: one that can run the node that it names, or
// the first in the order of declarations.
func (f *flowRun) addressee(m *contract.Inbound) *schedule.Execution {
	var best *schedule.Execution
	for _, x := range f.sched.Running() {
		if b := f.branches[x]; b == nil || b.child == nil || !f.mayRead(x, m) {
			continue
		}
		if best == nil || x.Node < best.Node {
			best = x
		}
	}
	return best
}

// mayRead reports whether the chain that begins with x can run an agent that a message is for.
func (f *flowRun) mayRead(x *schedule.Execution, m *contract.Inbound) bool {
	others := f.sched.Others(x)
	nodes, _ := f.run.g.Part(x.Node, others)
	for i := range f.run.flow.Nodes {
		n := &f.run.flow.Nodes[i]
		if before := i != x.Node && (n.Deferred || others.Has(i)); before {
			continue // the chain comes back before it
		}
		if nodes.Has(i) && n.Kind == plan.KindAgent && (m.Node == "" || m.Node == n.ID) {
			return true
		}
	}
	return false
}

// dispatchTo takes the messages with which a branch begins.
func (f *flowRun) dispatchTo(x *schedule.Execution) []contract.Inbound {
	if f.run.requests.inbox == nil {
		return nil
	}
	var out, left []contract.Inbound
	for _, m := range f.run.requests.inbox.unread {
		if f.mayRead(x, &m) {
			out = append(out, m)
			f.sent = append(f.sent, dispatch{message: m, to: x})
		} else {
			left = append(left, m)
		}
	}
	f.run.requests.inbox.unread = left
	return out
}

// returned takes back what a branch that has ended did not read.
func (f *flowRun) returned(ctx workflow.Context, b *branchRun, unread []contract.Inbound, err error) {
	never := alreadyStarted(err)
	b.child = nil
	var left, mine []dispatch
	for _, d := range f.sent {
		if d.to == b.x {
			mine = append(mine, d)
		} else {
			left = append(left, d)
		}
	}
	// Before anything blocks: other messages may be given out meanwhile.
	f.sent = left
	back := false
	for _, d := range mine {
		quiet, _ := workflow.NewDisconnectedContext(ctx)
		lost := never || d.sent != nil && d.sent.Get(quiet, nil) != nil
		if lost || slices.ContainsFunc(unread, func(m contract.Inbound) bool { return m.Seq == d.message.Seq }) {
			f.run.requests.inbox.unread = append(f.run.requests.inbox.unread, d.message)
			back = true
		}
	}
	if back {
		slices.SortFunc(f.run.requests.inbox.unread, func(a, b contract.Inbound) int { return cmp.Compare(a.Seq, b.Seq) })
		f.assign(ctx)
	}
}
