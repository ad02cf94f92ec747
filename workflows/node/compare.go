package node

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
	"weft/workflows/runtime"
	"weft/workflows/values"
)

// compare evaluates a condition on a value. It says what it saw, so that the trace explains the run's way.
func (n *Runner) compare(x *runtime.Execution, edge *plan.Edge) (contract.Answer, error) {
	c := edge.Compare
	v, _, err := values.ValueAt(n.run, x.View, cmp.Or(c.Key, contract.ValueKey))
	if err != nil {
		return contract.Answer{}, err
	}
	yes, seen, err := holds(c, v)
	if err != nil {
		remedy := fmt.Sprintf("correct the condition %q of the edge to %s, or what the node returns", c.Text, edge.To)
		return contract.Answer{}, contract.Failf(contract.ClassInvalidValue, remedy, "%s", err.Error())
	}
	return contract.Answer{Execution: x.ID, Edge: edge.ID, Question: c.Text, Yes: yes, Reason: "it is " + seen.Brief()}, nil
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
func (n *Runner) unmatched(x *runtime.Execution, edges []int, answers []contract.Answer) *contract.Failure {
	v, _, err := values.ValueAt(n.run, x.View, contract.ValueKey)
	seen := values.Printed(n.run, v)
	if err != nil {
		seen = err.Error()
	}
	f := n.run.Fail(x, contract.ClassNoRoute, "add an edge without a condition, or one whose condition holds", "none of the conditions holds for %s", seen)
	if text := n.run.Flow.NoRoute.Text; text != "" {
		f.Text = strings.NewReplacer("{node}", x.Node.ID, "{value}", seen).Replace(text)
	}
	for _, a := range answers {
		f.Text += fmt.Sprintf("; %s%s: %s", textutil.Cut(a.Question, 200), n.edgePlace(edges, a.Edge), values.YesNo(a.Yes))
	}
	f.Text = textutil.Cut(f.Text, 2000)
	f.Answers, f.NoRoute = answers, []string{x.ID}
	return f
}

// edgePlace is where an edge was written, in brackets, if that is known.
func (n *Runner) edgePlace(edges []int, id string) string {
	i := slices.IndexFunc(edges, func(e int) bool { return n.run.Flow.Edges[e].ID == id })
	if i < 0 {
		return ""
	}
	if at := n.run.Source.At(plan.EdgePath(edges[i])); at != "" && at != n.run.Source.File {
		return " (" + at + ")"
	}
	return ""
}

// leavingBy are the edges that may be taken by a branch: those of the branch, and those of none.
func (n *Runner) leavingBy(branch string, edges []int) []int {
	return slices.DeleteFunc(slices.Clone(edges), func(e int) bool {
		own := n.run.Flow.Edges[e].Branch
		return own != "" && own != branch
	})
}

// noEdge is the failure of a run that leaves a node by a branch without an edge, with what the node caught.
func (n *Runner) noEdge(x *runtime.Execution, done *Executed, branch string) *contract.Failure {
	f := n.run.Fail(x, contract.ClassNoRoute, "let an edge leave the node by this branch", "the node %q leaves by its branch %q, which no edge has", x.Node.ID, branch)
	if c := x.Node.Call; c != nil && c.Catch != nil {
		v, _ := value.Parse(done.Data) // without it, the failure is what it is
		if info, _ := v.Get(c.Catch.Info); info.Kind == value.String {
			f.Text += "; it caught: " + textutil.Cut(info.Text, 2000)
		}
	}
	f.NoRoute = []string{x.ID}
	return f
}
