package workflows

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// choosesFirst reports whether only the first edge that holds is taken behind a source.
func (n *runner) choosesFirst(from *source) bool {
	choice := n.run.flow.Choice
	if from.x != nil {
		choice = cmp.Or(from.x.node.Choice, choice)
	}
	return choice == plan.ChooseFirst
}

// routeFirst takes the first of a source's edges whose condition holds; later ones are not
// looked at.
func (n *runner) routeFirst(ctx workflow.Context, from source, edges []int, j *journal) (taken []int, answers []contract.Answer, err error) {
	verdicts := make([]*contract.JudgeResult, len(edges))
	for i, e := range edges {
		edge := &n.run.flow.Edges[e]
		yes := true
		switch {
		case edge.Compare != nil:
			a, err := n.compare(from, edge)
			if err != nil {
				return nil, nil, err
			}
			answers, yes = append(answers, a), a.Yes
		case edge.Question != "":
			if err := n.askFirst(ctx, from, i, edge, j, verdicts); err != nil {
				return nil, nil, err
			}
			v := verdicts[i]
			answers = append(answers, contract.Answer{Execution: from.id, Edge: edge.ID, Question: edge.Question, Yes: v.Yes, Reason: v.Reason})
			yes = v.Yes
		}
		if yes {
			return []int{e}, answers, nil
		}
	}
	return nil, answers, nil
}

// askFirst has one question judged.
func (n *runner) askFirst(ctx workflow.Context, from source, i int, edge *plan.Edge, j *journal, verdicts []*contract.JudgeResult) error {
	in := n.judgeInput(from)
	in.Question = edge.Question
	judges := newGroup(ctx)
	n.judge(judges, from, asking{i, edge.ID, 0}, in, j, verdicts)
	return judges.wait()
}

// compare evaluates a condition on a value. It says what it saw, so that the trace explains
// the run's way.
func (n *runner) compare(from source, edge *plan.Edge) (contract.Answer, error) {
	c := edge.Compare
	v, _, err := valueAt(n.run, from.view, cmp.Or(c.Key, contract.ValueKey))
	if err != nil {
		return contract.Answer{}, err
	}
	yes, seen, err := holds(c, v)
	if err != nil {
		return contract.Answer{}, &contract.Failure{Class: contract.ClassValue, Text: err.Error(),
			Remedy: fmt.Sprintf("correct the condition %q of the edge to %s, or what the node returns", c.Words, edge.To)}
	}
	return contract.Answer{Execution: from.id, Edge: edge.ID, Question: c.Words, Yes: yes, Reason: "it is " + seen.Brief()}, nil
}

// holds evaluates a comparison on a value, and gives the part of it that was compared.
func holds(c *plan.Compare, v value.Value) (bool, value.Value, error) {
	if c.Fail != "" {
		return false, v, errors.New(c.Fail)
	}
	seen, err := value.Operand(c.Rules, c.Path, v)
	if err != nil {
		return false, seen, err
	}
	want, err := value.Parse(c.Value)
	if err != nil {
		return false, seen, err
	}
	return value.Holds(c.Rules, c.Op, seen, want), seen, nil
}

// unmatched is the failure of a run that must go on behind a node and cannot.
func (n *runner) unmatched(x *execution, edges []int, answers []contract.Answer) *contract.Failure {
	v, _, err := valueAt(n.run, x.view, contract.ValueKey)
	seen := printed(n.run, v)
	if err != nil {
		seen = err.Error()
	}
	f := n.run.fail(x, contract.ClassNoRoute, "add an edge without a condition, or one whose condition holds", "none of the conditions holds for %s", seen)
	if text := n.run.flow.NoRoute.Text; text != "" {
		f.Text = strings.NewReplacer("{node}", x.node.ID, "{value}", seen).Replace(text)
	}
	for _, a := range answers {
		f.Text += fmt.Sprintf("; %s%s: %s", cut(a.Question, 200), n.edgePlace(edges, a.Edge), yesNo(a.Yes))
	}
	f.Text = cut(f.Text, 2000)
	f.Answers, f.NoRoute = answers, []string{x.id}
	return f
}

// edgePlace is where an edge was written, in brackets, if that is known.
func (n *runner) edgePlace(edges []int, id string) string {
	i := slices.IndexFunc(edges, func(e int) bool { return n.run.flow.Edges[e].ID == id })
	if i < 0 {
		return ""
	}
	if at := n.run.source.At(plan.EdgePath(edges[i])); at != "" && at != n.run.source.File {
		return " (" + at + ")"
	}
	return ""
}

// leavingBy are the edges that may be taken by a branch: those of the branch, and those of none.
func (n *runner) leavingBy(branch string, edges []int) []int {
	labelled := false
	for _, e := range edges {
		labelled = labelled || n.run.flow.Edges[e].Branch != ""
	}
	if !labelled {
		return edges
	}
	out := []int{}
	for _, e := range edges {
		if b := n.run.flow.Edges[e].Branch; b == "" || b == branch {
			out = append(out, e)
		}
	}
	return out
}

// noEdge is the failure of a run that leaves a node by a branch without an edge.
func (n *runner) noEdge(x *execution, branch string) *contract.Failure {
	f := n.run.fail(x, contract.ClassNoRoute, "let an edge leave the node by this branch", "the node leaves by its branch %q, which no edge has", branch)
	f.NoRoute = []string{x.id}
	return f
}
