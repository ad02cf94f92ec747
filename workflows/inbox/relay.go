package inbox

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/wait"
)

// relay sends an answer to the waiting execution: in a later workflow task if this one is full. An execution that misses it, because
// its run has just stopped, opens its request again.
func (d *Inbox) relay(ctx workflow.Context, req *contract.Request, reply *contract.Reply) {
	to := req.Run.Workflow
	if to == d.run.Transcript.Workflow {
		d.run.Requests.Deliver(reply)
		return
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	n, _ := contract.Size(reply)
	if d.run.Sizes.Overflows(ctx, n) {
		d.run.Policy.Halted = &contract.Failure{Class: contract.ClassStateTooLarge, Node: req.Node, Step: req.Step, At: req.At,
			Text:   fmt.Sprintf("the answer to %q is %d bytes, and the run's history has no room to relay it", req.ID, n),
			Remedy: "send a shorter answer or a reference to data that is stored elsewhere, or have fewer nodes wait in parallel"}
		return
	}
	if len(d.relays) == 0 && d.run.Sizes.Clear() && d.run.Sizes.Take(ctx, n) {
		d.run.Sizes.Sends(d.run.Signal(ctx, to, contract.SignalReply, reply))
		return
	}
	if d.relays = append(d.relays, relay{to, reply, n}); len(d.relays) == 1 {
		wait.Go(ctx, "relay", d.relayAll)
	}
}

// relay is an answer that has not been sent yet.
type relay struct {
	to    string
	reply *contract.Reply
	bytes int
}

// relayAll sends the pending answers, as many at a time as the server accepts.
func (d *Inbox) relayAll(ctx workflow.Context) {
	for len(d.relays) > 0 { // others may be added meanwhile
		a := d.relays[0]
		_ = wait.Until(ctx, d.run.Sizes.Clear) // this context is never cancelled
		_ = d.run.Sizes.Wait(ctx, a.bytes)
		d.run.Sizes.Sends(d.run.Signal(ctx, a.to, contract.SignalReply, a.reply))
		d.relays = d.relays[1:]
	}
}
