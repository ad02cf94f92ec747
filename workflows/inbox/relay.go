package inbox

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/wait"
)

// relay sends an answer to the waiting execution: in a later workflow task if this one is full. An execution that misses it, because
// its run has just stopped, opens its request again.
func (b *Inbox) relay(ctx workflow.Context, req *contract.Request, reply *contract.Reply) {
	to := req.Run.Workflow
	if to == b.run.Transcript.Workflow {
		b.run.Requests.Deliver(reply)
		return
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	n, _ := contract.Size(reply)
	if b.run.Sizes.Overflows(ctx, n) {
		b.run.Policy.Halted = &contract.Failure{Class: contract.ClassStateTooLarge, Node: req.Node, Step: req.Step, At: req.At,
			Text:   fmt.Sprintf("the answer to %q is %d bytes, and the run's history has no room to relay it", req.ID, n),
			Remedy: "send a shorter answer or a reference to data that is stored elsewhere, or have fewer nodes wait in parallel"}
		return
	}
	if len(b.relays) == 0 && b.run.Sizes.Clear() && b.run.Sizes.Take(ctx, n) {
		b.run.Sizes.Sends(b.run.Signal(ctx, to, contract.SignalReply, reply))
		return
	}
	if b.relays = append(b.relays, relay{to, reply, n}); len(b.relays) == 1 {
		wait.Go(ctx, "relay", b.relayAll)
	}
}

// relay is an answer that has not been sent yet.
type relay struct {
	to    string
	reply *contract.Reply
	bytes int
}

// relayAll sends the pending answers, as many at a time as the server accepts.
func (b *Inbox) relayAll(ctx workflow.Context) {
	for len(b.relays) > 0 { // others may be added meanwhile
		a := b.relays[0]
		_ = wait.Until(ctx, b.run.Sizes.Clear) // this context is never cancelled
		_ = b.run.Sizes.Wait(ctx, a.bytes)
		b.run.Sizes.Sends(b.run.Signal(ctx, a.to, contract.SignalReply, a.reply))
		b.relays = b.relays[1:]
	}
}
