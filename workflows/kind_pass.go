package workflows

import (
	"weft/activities/contract"
	"weft/workflows/plan/value"

	"go.temporal.io/sdk/workflow"
)

type passKind struct{}

// pass runs a node of kind pass: what it takes is what it leaves.
func (passKind) visit(_ workflow.Context, r *run, x *execution) (outcome, error) {
	in, err := given(r, x)
	return outcome{value: &in}, err
}

type branchKind struct{}

// branch runs a node of kind branch: the text of its value says by which branch it leaves.
func (branchKind) visit(_ workflow.Context, r *run, x *execution) (outcome, error) {
	in, err := given(r, x)
	if err != nil {
		return outcome{}, err
	}
	b := x.node.Branch
	text := in.Members[0].Value.Spaced()
	out := outcome{value: &value.Value{Kind: value.Object}, branch: b.Default}
	for _, c := range b.Cases {
		if c.Text == text {
			out.branch = c.Branch
			break
		}
	}
	return out, nil
}

type sayKind struct{}

// say runs a node of kind say: its text goes into the flow's conversation.
func (sayKind) visit(_ workflow.Context, r *run, x *execution) (outcome, error) {
	in, err := given(r, x)
	if err != nil {
		return outcome{}, err
	}
	text := fillIn(x.node.Say.Text, in)
	ref, err := r.transcript.write(r.conversation.open(), &contract.Message{Role: contract.RoleAssistant, Text: text})
	return outcome{ref: ref, text: text}, err
}
