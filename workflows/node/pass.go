package node

import (
	"weft/activities/contract"
	"weft/workflows/plan/value"

	"weft/workflows/runtime"
	"weft/workflows/values"

	"go.temporal.io/sdk/workflow"
)

type passKind struct{}

// Visit runs a node of kind pass: what it takes is what it leaves.
func (passKind) Visit(_ workflow.Context, r *runtime.Run, x *runtime.Execution) (runtime.Outcome, error) {
	in, err := values.Given(r, x)
	return runtime.Outcome{Value: &in}, err
}

type branchKind struct{}

// Visit runs a node of kind branch: the text of its value says by which branch it leaves.
func (branchKind) Visit(_ workflow.Context, r *runtime.Run, x *runtime.Execution) (runtime.Outcome, error) {
	in, err := values.Given(r, x)
	if err != nil {
		return runtime.Outcome{}, err
	}
	b := x.Node.Branch
	text := in.Members[0].Value.Spaced()
	out := runtime.Outcome{Value: &value.Value{Kind: value.Object}, Branch: b.Default}
	for _, c := range b.Cases {
		if c.Text == text {
			out.Branch = c.Branch
			break
		}
	}
	return out, nil
}

type sayKind struct{}

// Visit runs a node of kind say: its text goes into the flow's conversation.
func (sayKind) Visit(ctx workflow.Context, r *runtime.Run, x *runtime.Execution) (runtime.Outcome, error) {
	in, err := values.Given(r, x)
	if err != nil {
		return runtime.Outcome{}, err
	}
	text := values.FillIn(x.Node.Say.Text, in)
	ref, err := r.Transcript.Write(r.Conversation.Open(), &contract.Message{Role: contract.RoleAssistant, Text: text})
	if err != nil {
		return runtime.Outcome{}, err
	}
	return runtime.Outcome{Ref: ref, Text: text}, r.Publish(ctx, r.Conversation.Open(), x)
}
