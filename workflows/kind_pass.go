package workflows

import (
	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// pass runs a node of kind pass: what it takes is what it leaves.
func (r *run) pass(x *execution) (outcome, error) {
	in, err := r.given(x)
	return outcome{value: &in}, err
}

// branch runs a node of kind branch: the text of its value says by which branch it leaves.
func (r *run) branch(x *execution) (outcome, error) {
	in, err := r.given(x)
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

// say runs a node of kind say: its text goes into the flow's conversation.
func (r *run) say(x *execution) (outcome, error) {
	in, err := r.given(x)
	if err != nil {
		return outcome{}, err
	}
	text := fillIn(x.node.Say.Text, in)
	ref, err := r.store.write(r.conversation.open(), &contract.Message{Role: contract.RoleAssistant, Text: text})
	return outcome{ref: ref, text: text}, err
}

// leavingBy are the edges that may be taken by a branch: those of the branch, and those of none.
func (r *run) leavingBy(branch string, edges []int) []int {
	labelled := false
	for _, e := range edges {
		labelled = labelled || r.flow.Edges[e].Branch != ""
	}
	if !labelled {
		return edges
	}
	out := []int{}
	for _, e := range edges {
		if b := r.flow.Edges[e].Branch; b == "" || b == branch {
			out = append(out, e)
		}
	}
	return out
}

// noEdge is the failure of a run that leaves a node by a branch without an edge.
func (r *run) noEdge(x *execution, branch string) *contract.Failure {
	f := r.fail(x, contract.ClassNoRoute, "let an edge leave the node by this branch", "the node leaves by its branch %q, which no edge has", branch)
	f.NoRoute = []string{x.id}
	return f
}

// exitBranch is the branch at which a flow's run ended.
func exitBranch(f *plan.Flow, node string) string {
	if n := f.Node(node); n != nil && n.Pass != nil {
		return n.Pass.Branch
	}
	return ""
}
