package inbox

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/wait"
)

// relay gives an answer to whoever waits: with a later workflow task if this one is full. One that does not get it, because its
// run stopped just now, asks again.
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
			Text:   fmt.Sprintf("the answer to %q is %d bytes, and the run's history has no room to hand it on", req.ID, n),
			Remedy: "answer shorter, by reference to data that is kept elsewhere, or have fewer nodes wait side by side"}
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

// relay is an answer on its way.
type relay struct {
	to    string
	reply *contract.Reply
	bytes int
}

// relayAll gives the answers that wait, as many at a time as the server takes.
func (d *Inbox) relayAll(ctx workflow.Context) {
	for len(d.relays) > 0 { // others may come meanwhile
		a := d.relays[0]
		_ = wait.Until(ctx, d.run.Sizes.Clear) // nobody cancels this context
		_ = d.run.Sizes.Wait(ctx, a.bytes)
		d.run.Sizes.Sends(d.run.Signal(ctx, a.to, contract.SignalReply, a.reply))
		d.relays = d.relays[1:]
	}
}
