package node

import (
	"errors"

	"go.temporal.io/sdk/workflow"
	"weft/workflows/plan/value"

	"weft/activities/contract"
	"weft/workflows/runtime"
	"weft/workflows/values"
)

// ask runs a node of kind ask: a person is asked, and the answer is the node's output.
func ask(ctx workflow.Context, r *runtime.Run, x *runtime.Execution) (runtime.Outcome, error) {
	question := x.Node.Ask.Text
	if x.Node.Ports != nil {
		in, err := values.Given(r, x)
		if err != nil {
			return runtime.Outcome{}, err
		}
		question = value.FillIn(question, in)
	}
	var t *runtime.Thread
	if x.Node.Ports != nil {
		t = r.Conversation.Open()
	} else {
		t = r.Transcript.Open(x.ID)
	}
	before := len(t.Entries)
	if !x.Node.Ask.Silent {
		if _, err := r.Transcript.Write(t, &contract.Message{Role: contract.RoleAssistant, Text: question}); err != nil {
			return runtime.Outcome{}, err
		}
	}
	reply, err := r.Requests.Ask(ctx, x, contract.Request{
		ID: x.ID + "/ask", Kind: contract.RequestMessage, Text: question,
		Hash: contract.SHA([]byte(question)), Timeout: x.Node.Ask.Timeout,
	})
	switch {
	case errors.Is(err, runtime.ErrYield):
		t.Cut(before) // the next run asks
		return runtime.Outcome{}, err
	case err != nil:
		return runtime.Outcome{}, err
	case reply.Message == nil:
		return runtime.Outcome{}, r.Fail(x, contract.ClassNoAnswer, "start the run again, or give the node a longer limit",
			"nobody answered within %d seconds", x.Node.Ask.Timeout)
	}
	ref, err := r.Transcript.Write(t, &contract.Message{Role: contract.RoleUser, Text: reply.Message.Text})
	if err == nil && x.Node.Ports != nil {
		err = r.Publish(ctx, t, x)
	}
	return runtime.Outcome{Ref: ref, Text: reply.Message.Text}, err
}
