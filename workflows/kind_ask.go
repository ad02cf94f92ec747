package workflows

import (
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

type askKind struct{}

// ask runs a node of kind ask: a person is asked, and the answer is the node's output.
func (askKind) visit(ctx workflow.Context, r *run, x *execution) (outcome, error) {
	question := x.node.Ask.Text
	if x.node.Ports != nil {
		in, err := given(r, x)
		if err != nil {
			return outcome{}, err
		}
		question = fillIn(question, in)
	}
	reply, err := r.requests.ask(ctx, x, contract.Request{
		ID: x.id + "/ask", Kind: contract.RequestMessage, Text: question,
		Hash: contract.SHA([]byte(question)), LimitSeconds: x.node.Ask.LimitSeconds,
	})
	switch {
	case err != nil:
		return outcome{}, err
	case reply.Message == nil:
		return outcome{}, r.fail(x, contract.ClassNoAnswer, "start the run again, or give the node a longer limit",
			"nobody answered within %d seconds", x.node.Ask.LimitSeconds)
	}
	var t *thread
	if x.node.Ports != nil {
		t = r.conversation.open()
	} else {
		t = r.transcript.open(x.id)
	}
	if !x.node.Ask.Silent {
		if _, err := r.transcript.write(t, &contract.Message{Role: contract.RoleAssistant, Text: question}); err != nil {
			return outcome{}, err
		}
	}
	ref, err := r.transcript.write(t, &contract.Message{Role: contract.RoleUser, Text: reply.Message.Text})
	return outcome{ref: ref, text: reply.Message.Text}, err
}
