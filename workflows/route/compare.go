package route

import (
	"cmp"
	"encoding/json"
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

// compare evaluates an edge's condition on a value. The answer holds the operand as its reason, so that a trace explains the route.
func compare(x *runtime.Execution, edge *plan.Edge) (contract.Answer, error) {
	c := edge.Compare
	v, err := values.ValueAt(x.Run, x.View, cmp.Or(c.Key, contract.ValueKey))
	if err != nil {
		return contract.Answer{}, err
	}
	ok, operand, err := values.Holds(c, v)
	if err != nil {
		remedy := fmt.Sprintf("correct the condition %q of the edge to %s, or the node's result", c.Text, edge.To)
		return contract.Answer{}, contract.Failf(contract.ClassInvalidValue, remedy, "%s", err.Error())
	}
	return contract.Answer{Execution: x.ID, Edge: edge.ID, Question: c.Text, Yes: ok, Reason: "it is " + operand.Brief()}, nil
}

// Unmatched returns the failure of a run if no edge of a node matches and the flow requires one.
func Unmatched(x *runtime.Execution) *contract.Failure {
	v, err := values.ValueAt(x.Run, x.View, contract.ValueKey)
	printed := values.Format(x.Run, v)
	if err != nil {
		printed = err.Error()
	}
	f := x.Run.Fail(x, contract.ClassNoRoute, "add an edge without a condition, or one whose condition holds", "none of the conditions holds for %s", printed)
	if text := x.Run.Flow.NoRoute.Text; text != "" {
		f.Text = strings.NewReplacer("{node}", x.Node.ID, "{value}", printed).Replace(text)
	}
	for _, a := range x.Exit.Answers {
		f.Text += fmt.Sprintf("; %s%s: %s", textutil.Cut(a.Question, 200), edgePosition(x, a.Edge), values.YesNo(a.Yes))
	}
	f.Text = textutil.Cut(f.Text, 2000)
	f.Answers, f.NoRoute = x.Exit.Answers, []string{x.ID}
	return f
}

// edgePosition returns the source position of an edge in parentheses, "" if it is unknown.
func edgePosition(x *runtime.Execution, id string) string {
	i := slices.IndexFunc(x.Edges, func(e int) bool { return x.Run.Flow.Edges[e].ID == id })
	if i < 0 {
		return ""
	}
	if at := x.Run.Source.At(plan.EdgePath(x.Edges[i])); at != "" && at != x.Run.Source.File {
		return " (" + at + ")"
	}
	return ""
}

// NoEdge returns the failure of a run whose node has chosen a branch without an edge, with the failure caught in data, the node's result.
func NoEdge(x *runtime.Execution, data json.RawMessage, branch string) *contract.Failure {
	f := x.Run.Fail(x, contract.ClassNoRoute, "add an edge for this branch", "branch %q of the node %q has no edge", branch, x.Node.ID)
	if c := x.Node.Call; c != nil && c.Catch != nil {
		v, _ := value.Parse(data) // the caught failure is optional
		if info, _ := v.Get(c.Catch.Info); info.Kind == value.String {
			f.Text += "; it caught: " + textutil.Cut(info.Text, 2000)
		}
	}
	f.NoRoute = []string{x.ID}
	return f
}
