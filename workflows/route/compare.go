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

// compare evaluates a condition on a value. It says what it saw, so that the trace explains the run's way.
func compare(x *runtime.Execution, edge *plan.Edge) (contract.Answer, error) {
	c := edge.Compare
	v, err := values.ValueAt(x.Run, x.View, cmp.Or(c.Key, contract.ValueKey))
	if err != nil {
		return contract.Answer{}, err
	}
	yes, seen, err := values.Holds(c, v)
	if err != nil {
		remedy := fmt.Sprintf("correct the condition %q of the edge to %s, or what the node returns", c.Text, edge.To)
		return contract.Answer{}, contract.Failf(contract.ClassInvalidValue, remedy, "%s", err.Error())
	}
	return contract.Answer{Execution: x.ID, Edge: edge.ID, Question: c.Text, Yes: yes, Reason: "it is " + seen.Brief()}, nil
}

// Unmatched is the failure of a run that must go on behind a node and cannot.
func Unmatched(x *runtime.Execution) *contract.Failure {
	v, err := values.ValueAt(x.Run, x.View, contract.ValueKey)
	seen := values.Printed(x.Run, v)
	if err != nil {
		seen = err.Error()
	}
	f := x.Run.Fail(x, contract.ClassNoRoute, "add an edge without a condition, or one whose condition holds", "none of the conditions holds for %s", seen)
	if text := x.Run.Flow.NoRoute.Text; text != "" {
		f.Text = strings.NewReplacer("{node}", x.Node.ID, "{value}", seen).Replace(text)
	}
	for _, a := range x.Exit.Answers {
		f.Text += fmt.Sprintf("; %s%s: %s", textutil.Cut(a.Question, 200), edgePlace(x, a.Edge), values.YesNo(a.Yes))
	}
	f.Text = textutil.Cut(f.Text, 2000)
	f.Answers, f.NoRoute = x.Exit.Answers, []string{x.ID}
	return f
}

// edgePlace is where an edge was written, in brackets, if that is known.
func edgePlace(x *runtime.Execution, id string) string {
	i := slices.IndexFunc(x.Edges, func(e int) bool { return x.Run.Flow.Edges[e].ID == id })
	if i < 0 {
		return ""
	}
	if at := x.Run.Source.At(plan.EdgePath(x.Edges[i])); at != "" && at != x.Run.Source.File {
		return " (" + at + ")"
	}
	return ""
}

// NoEdge is the failure of a run that leaves a node by a branch without an edge, with what the node caught and gave as data.
func NoEdge(x *runtime.Execution, data json.RawMessage, branch string) *contract.Failure {
	f := x.Run.Fail(x, contract.ClassNoRoute, "let an edge leave the node by this branch", "the node %q leaves by its branch %q, which no edge has", x.Node.ID, branch)
	if c := x.Node.Call; c != nil && c.Catch != nil {
		v, _ := value.Parse(data) // without it, the failure is what it is
		if info, _ := v.Get(c.Catch.Info); info.Kind == value.String {
			f.Text += "; it caught: " + textutil.Cut(info.Text, 2000)
		}
	}
	f.NoRoute = []string{x.ID}
	return f
}
