package node

import (
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
	"weft/workflows/runtime"
	"weft/workflows/values"
)

// transform runs a node of kind transform: it takes apart the value that comes in.
func transform(_ workflow.Context, r *runtime.Run, x *runtime.Execution) (runtime.Outcome, error) {
	t := x.Node.Transform
	if t.Fail != "" {
		return runtime.Outcome{}, r.Fail(x, contract.ClassInvalidValue, "correct the node", "%s", t.Fail)
	}
	v, _, err := values.ValueAt(r, x.View, contract.ValueKey)
	if err != nil {
		return runtime.Outcome{}, err
	}
	if t.Select != nil {
		if v, err = value.Selected(t.Select.Rules, t.Select.Path, v); err != nil {
			return runtime.Outcome{}, r.Fail(x, contract.ClassInvalidValue, "correct the transformation, or what the node before returns", "%s", err.Error())
		}
	}
	return runtime.Outcome{Value: &v}, nil
}

// merge runs a node of kind merge: it makes one value of those that parallel nodes left.
func merge(_ workflow.Context, r *runtime.Run, x *runtime.Execution) (runtime.Outcome, error) {
	m := x.Node.Merge
	if m.Fail != "" {
		return runtime.Outcome{}, r.Fail(x, contract.ClassInvalidValue, "correct the node", "%s", m.Fail)
	}
	if m.Pick != nil {
		return runPick(r, x)
	}
	all := value.Value{Kind: value.Array}
	for _, res := range m.Results {
		v, _, err := values.ValueAt(r, x.View, res.Key)
		if err != nil {
			return runtime.Outcome{}, err
		}
		all.Items = append(all.Items, value.Value{Kind: value.Object, Members: []value.Member{
			{Key: "name", Value: value.Of(res.Name)}, {Key: "output", Value: v}}})
	}
	r.Conversation.DropForks(m)
	return runtime.Outcome{Value: &all}, nil
}

// runPick makes one result the value, if the merge's condition holds for it.
func runPick(r *runtime.Run, x *runtime.Execution) (runtime.Outcome, error) {
	m := x.Node.Merge
	res := m.Results[*m.Pick]
	v, _, err := values.ValueAt(r, x.View, res.Key)
	if err != nil {
		return runtime.Outcome{}, err
	}
	if m.Compare != nil {
		seen := v
		switch m.Field {
		case "name":
			seen = value.Of(res.Name)
		case "input":
			if seen, _, err = values.ValueAt(r, x.View, m.Input); err != nil {
				return runtime.Outcome{}, err
			}
		}
		yes, part, err := holds(m.Compare, seen)
		if err != nil {
			return runtime.Outcome{}, r.Fail(x, contract.ClassInvalidValue, "correct the merge's condition, or what the agents return", "%s", err.Error())
		}
		if !yes {
			return runtime.Outcome{}, r.Fail(x, contract.ClassNoRoute, "let the condition hold, or leave the merge out to go on with all results",
				"Merge condition not satisfied: %s is false, because it is %s", strings.TrimSpace(m.Compare.Text), part.Brief())
		}
	}
	pickFork(&r.Conversation, res.Node, m)
	return runtime.Outcome{Value: &v}, nil
}

// pickFork goes on with what was said in one of the nodes that a merge joins, and with what it cost. A node that stopped in
// its middle has left several parts.
func pickFork(c *runtime.Conversation, node string, m *plan.Merge) {
	for _, f := range c.Forks {
		switch {
		case f.Node == node:
			c.Add(f.Messages, false)
		case slices.ContainsFunc(m.Results, func(res plan.Result) bool { return res.Node == f.Node }):
			c.Spent -= f.Spent
		}
	}
	c.DropForks(m)
}
