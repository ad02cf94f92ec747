package inbox

import (
	"cmp"
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/runtime"
	"weft/workflows/wait"
)

// assignedMessage is a message at a branch. A branch without a further model call returns it.
type assignedMessage struct {
	message contract.Inbound
	branch  string
	// sent is nil if the message was part of the branch's input.
	sent workflow.Future
}

// assign sends each unread message to one of the branches that run as children. Agents of this run read theirs directly.
func (b *Inbox) assign(ctx workflow.Context) {
	detached, _ := workflow.NewDisconnectedContext(ctx)
	full := false
	var send []func()
	runtime.Take(&b.run.Requests.UnreadMessages, func(m *contract.Inbound) bool {
		branch, child := b.host.Route(m)
		if child != nil && !full {
			full = !b.run.Sizes.Clear() || !b.run.Sizes.Take(detached, messageSize(m))
		}
		if child == nil || full {
			return false
		}
		sent, settle := workflow.NewFuture(detached)
		b.run.Sizes.Sends(sent)
		b.assigned = append(b.assigned, assignedMessage{message: *m, branch: branch, sent: sent})
		send = append(send, func() { settle.Chain(b.run.SignalChild(detached, child, contract.SignalSteer, *m)) })
		return true
	})
	for _, s := range send {
		s() // not earlier: it waits until the child has started, and other messages may arrive meanwhile
	}
	if !full || b.full {
		return
	}
	b.full = true
	wait.Go(detached, "assign", func(ctx workflow.Context) {
		_ = b.run.Sizes.Next(ctx) // this context is never cancelled
		b.full = false
		b.assign(ctx)
	})
}

// messageSize returns the number of bytes of a message in a payload.
func messageSize(m *contract.Inbound) int {
	n, _ := contract.Size(m.Text)
	return n + len(m.Node)
}

// TakeFor removes and returns the messages for the input of a branch: those that it reads.
func (b *Inbox) TakeFor(branch string, reads func(*contract.Inbound) bool) []contract.Inbound {
	out := runtime.Take(&b.run.Requests.UnreadMessages, reads)
	for _, m := range out {
		b.assigned = append(b.assigned, assignedMessage{message: m, branch: branch})
	}
	return out
}

// TakeBack returns the messages that a branch has not read to the inbox; if the branch never began, all of them.
func (b *Inbox) TakeBack(ctx workflow.Context, branch string, unread []contract.Inbound, never bool) {
	// Before the first wait: other messages may be assigned meanwhile.
	own := runtime.Take(&b.assigned, func(g *assignedMessage) bool { return g.branch == branch })
	back := false
	for _, g := range own {
		lost := never || g.sent != nil && wait.Get(ctx, g.sent, nil) != nil
		if lost || slices.ContainsFunc(unread, func(m contract.Inbound) bool { return m.Seq == g.message.Seq }) {
			b.run.Requests.UnreadMessages, back = append(b.run.Requests.UnreadMessages, g.message), true
		}
	}
	if back {
		slices.SortFunc(b.run.Requests.UnreadMessages, func(a, b contract.Inbound) int { return cmp.Compare(a.Seq, b.Seq) })
		b.assign(ctx)
	}
}
