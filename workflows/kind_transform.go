package workflows

import (
	"strings"

	"weft/activities/contract"
	"weft/workflows/plan/value"
)

// transform runs a node of kind transform: it takes apart the value that comes in.
func (r *run) transform(x *execution) (outcome, error) {
	t := x.node.Transform
	if t.Fail != "" {
		return outcome{}, r.fail(x, contract.ClassInvalidValue, "correct the node", "%s", t.Fail)
	}
	v, _, err := r.valueAt(x.view, contract.ValueKey)
	if err != nil {
		return outcome{}, err
	}
	if t.Select != nil {
		if v, err = value.Selected(t.Select.Rules, t.Select.Path, v); err != nil {
			return outcome{}, r.fail(x, contract.ClassInvalidValue, "correct the transformation, or what the node before returns", "%s", err.Error())
		}
	}
	return outcome{value: &v}, nil
}

// merge runs a node of kind merge: it makes one value of those that parallel nodes left.
func (r *run) merge(x *execution) (outcome, error) {
	m := x.node.Merge
	if m.Fail != "" {
		return outcome{}, r.fail(x, contract.ClassInvalidValue, "correct the node", "%s", m.Fail)
	}
	if m.Pick != nil {
		return r.pick(x)
	}
	all := value.Value{Kind: value.Array}
	for _, res := range m.Results {
		v, _, err := r.valueAt(x.view, res.Key)
		if err != nil {
			return outcome{}, err
		}
		all.Items = append(all.Items, value.Value{Kind: value.Object, Members: []value.Member{
			{Key: "name", Value: value.Of(res.Name)}, {Key: "output", Value: v}}})
	}
	r.dropForks(m)
	return outcome{value: &all}, nil
}

// pick makes one result the value, if the merge's condition holds for it.
func (r *run) pick(x *execution) (outcome, error) {
	m := x.node.Merge
	res := m.Results[*m.Pick]
	v, _, err := r.valueAt(x.view, res.Key)
	if err != nil {
		return outcome{}, err
	}
	if m.Compare != nil {
		seen := v
		switch m.Field {
		case "name":
			seen = value.Of(res.Name)
		case "input":
			if seen, _, err = r.valueAt(x.view, m.Input); err != nil {
				return outcome{}, err
			}
		}
		yes, part, err := holds(m.Compare, seen)
		if err != nil {
			return outcome{}, r.fail(x, contract.ClassInvalidValue, "correct the merge's condition, or what the agents return", "%s", err.Error())
		}
		if !yes {
			return outcome{}, r.fail(x, contract.ClassNoRoute, "let the condition hold, or leave the merge out to go on with all results",
				"Merge condition not satisfied: %s is false, because it is %s", strings.TrimSpace(m.Compare.Words), part.Brief())
		}
	}
	return outcome{value: &v}, r.pickFork(res.Node, m)
}
