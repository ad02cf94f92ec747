package inbox

import (
	"cmp"
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/runtime"
	"weft/workflows/wait"
)

// dispatched is a message that a branch has. A branch that makes no further model call brings it back.
type dispatched struct {
	message contract.Inbound
	branch  string
	// sent is nil where the branch began with the message.
	sent workflow.Future
}

// assign gives each unread message to one of the branches that run as children. Agents of this run take theirs themselves.
func (d *Inbox) assign(ctx workflow.Context) {
	quiet, _ := workflow.NewDisconnectedContext(ctx)
	full := false
	var send []func()
	runtime.Take(&d.run.Requests.UnreadMessages, func(m *contract.Inbound) bool {
		branch, child := d.host.Route(m)
		if child != nil && !full {
			full = !d.run.Sizes.Clear() || !d.run.Sizes.Take(quiet, messageSize(m))
		}
		if child == nil || full {
			return false
		}
		sent, settle := workflow.NewFuture(quiet)
		d.run.Sizes.Sends(sent)
		d.given = append(d.given, dispatched{message: *m, branch: branch, sent: sent})
		send = append(send, func() { settle.Chain(d.run.SignalChild(quiet, child, contract.SignalSteer, *m)) })
		return true
	})
	for _, s := range send {
		s() // not before: it waits until the child has started, and other messages come meanwhile
	}
	if !full || d.full {
		return
	}
	d.full = true
	wait.Go(quiet, "assign", func(ctx workflow.Context) {
		_ = d.run.Sizes.Next(ctx) // nobody cancels this context
		d.full = false
		d.assign(ctx)
	})
}

// messageSize is how many bytes a message takes in a payload.
func messageSize(m *contract.Inbound) int {
	n, _ := contract.Size(m.Text)
	return n + len(m.Node)
}

// Give takes the messages with which a branch begins: those that it reads.
func (d *Inbox) Give(branch string, reads func(*contract.Inbound) bool) []contract.Inbound {
	out := runtime.Take(&d.run.Requests.UnreadMessages, reads)
	for _, m := range out {
		d.given = append(d.given, dispatched{message: m, branch: branch})
	}
	return out
}

// TakeBack takes back what a branch that has ended did not read: all of it where the branch never began.
func (d *Inbox) TakeBack(ctx workflow.Context, branch string, unread []contract.Inbound, never bool) {
	// Before anything blocks: other messages may be given out meanwhile.
	own := runtime.Take(&d.given, func(g *dispatched) bool { return g.branch == branch })
	back := false
	for _, g := range own {
		lost := never || g.sent != nil && wait.Get(ctx, g.sent, nil) != nil
		if lost || slices.ContainsFunc(unread, func(m contract.Inbound) bool { return m.Seq == g.message.Seq }) {
			d.run.Requests.UnreadMessages, back = append(d.run.Requests.UnreadMessages, g.message), true
		}
	}
	if back {
		slices.SortFunc(d.run.Requests.UnreadMessages, func(a, b contract.Inbound) int { return cmp.Compare(a.Seq, b.Seq) })
		d.assign(ctx)
	}
}
