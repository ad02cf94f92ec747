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
func (r *run) choosesFirst(from *source) bool {
	choice := r.flow.Choice
	if from.x != nil {
		choice = cmp.Or(from.x.node.Choice, choice)
	}
	return choice == plan.ChooseFirst
}

// routeFirst takes the first of a source's edges whose condition holds; later ones are not
// looked at.
func (r *run) routeFirst(ctx workflow.Context, from source, edges []int, j *journal) (taken []int, answers []contract.Answer, err error) {
	verdicts := make([]*contract.JudgeResult, len(edges))
	for i, e := range edges {
		edge := &r.flow.Edges[e]
		yes := true
		switch {
		case edge.Compare != nil:
			a, err := r.compare(from, edge)
			if err != nil {
				return nil, nil, err
			}
			answers, yes = append(answers, a), a.Yes
		case edge.Question != "":
			if err := r.askFirst(ctx, from, i, edge, j, verdicts); err != nil {
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
func (r *run) askFirst(ctx workflow.Context, from source, i int, edge *plan.Edge, j *journal, verdicts []*contract.JudgeResult) error {
	in := r.judgeInput(from)
	in.Question = edge.Question
	judges := newGroup(ctx)
	r.judge(judges, from, asking{i, edge.ID, 0}, in, j, verdicts)
	return judges.wait()
}

// compare evaluates a condition on a value. It says what it saw, so that the trace explains
// the run's way.
func (r *run) compare(from source, edge *plan.Edge) (contract.Answer, error) {
	c := edge.Compare
	v, _, err := r.valueAt(from.view, cmp.Or(c.Key, contract.ValueKey))
	if err != nil {
		return contract.Answer{}, err
	}
	yes, seen, err := holds(c, v)
	if err != nil {
		return contract.Answer{}, &contract.Failure{Class: contract.ClassInvalidValue, Text: err.Error(),
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
func (r *run) unmatched(x *execution, edges []int, answers []contract.Answer) *contract.Failure {
	v, _, err := r.valueAt(x.view, contract.ValueKey)
	seen := r.printed(v)
	if err != nil {
		seen = err.Error()
	}
	f := r.fail(x, contract.ClassNoRoute, "add an edge without a condition, or one whose condition holds", "none of the conditions holds for %s", seen)
	if text := r.flow.NoRoute.Text; text != "" {
		f.Text = strings.NewReplacer("{node}", x.node.ID, "{value}", seen).Replace(text)
	}
	for _, a := range answers {
		f.Text += fmt.Sprintf("; %s%s: %s", cut(a.Question, 200), r.edgePlace(edges, a.Edge), yesNo(a.Yes))
	}
	f.Text = cut(f.Text, 2000)
	f.Answers, f.NoRoute = answers, []string{x.id}
	return f
}

// edgePlace is where an edge was written, in brackets, if that is known.
func (r *run) edgePlace(edges []int, id string) string {
	i := slices.IndexFunc(edges, func(e int) bool { return r.flow.Edges[e].ID == id })
	if i < 0 {
		return ""
	}
	if at := r.source.At(plan.EdgePath(edges[i])); at != "" && at != r.source.File {
		return " (" + at + ")"
	}
	return ""
}
