package values

import (
	"fmt"
	"slices"
	"strings"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
	"weft/workflows/runtime"
	"weft/workflows/schedule"
)

// Where values have names, a node takes its own from state keys and leaves them under others,
// see [plan.Ports]. The value that flows along the edges is not used then.

// Given is what a node takes by name, as an object in the order of its ports.
func Given(r *runtime.Run, x *runtime.Execution) (value.Value, error) {
	out := value.Value{Kind: value.Object}
	if x.Node.Ports == nil {
		return out, nil
	}
	for i := range x.Node.Ports.In {
		in := &x.Node.Ports.In[i]
		v, err := portValue(r, x, in)
		if err != nil {
			return out, err
		}
		if v, err = value.Cast(in.Type, v); err != nil {
			return out, r.Fail(x, contract.ClassInvalidValue, "correct what gives the value, or its type", "input %q: %s", in.Name, err.Error())
		}
		out.Members = append(out.Members, value.Member{Key: in.Name, Value: v})
	}
	return out, nil
}

// portValue is the value of one port: what was written last, or its default.
func portValue(r *runtime.Run, x *runtime.Execution, in *plan.In) (value.Value, error) {
	if e, ok := schedule.Entry(x.View, in.Key); ok && in.Key != "" && (e.SHA != "" || len(e.Value) > 0) {
		v, _, err := ValueAt(r, x.View, in.Key)
		return v, err
	}
	if len(in.Default) == 0 {
		return value.Value{}, r.Fail(x, contract.ClassInvalidValue, "let a node that runs before give it, or give it a default",
			"nothing has given the input %q a value", in.Name)
	}
	v, err := value.Parse(in.Default)
	if err != nil {
		return v, r.Fail(x, contract.ClassInvalidValue, "correct the default", "the default of input %q: %v", in.Name, err)
	}
	return v, nil
}

// settlePorts writes what a node left to the keys from which others take it, and makes text and
// data of the outcome agree with it.
func settlePorts(r *runtime.Run, x *runtime.Execution, out *runtime.Outcome) error {
	left, err := leftBy(r, x, out)
	if err != nil {
		return err
	}
	forget(x, x.Node.Ports.Clear)
	all := value.Value{Kind: value.Object}
	for i := range x.Node.Ports.Out {
		o := &x.Node.Ports.Out[i]
		v, err := written(r, x, o, left)
		if err != nil {
			return err
		}
		for _, key := range o.Keys {
			if err := putValue(r, x, key, v); err != nil {
				return err
			}
		}
		if o.Name[0] != '.' || x.Node.Exit {
			all.Members = append(all.Members, value.Member{Key: o.Name, Value: v})
		}
	}
	if len(all.Members) == 0 && out.Value == nil {
		return nil
	}
	out.Text, out.Data = spoken(all)
	if out.Ref.SHA == "" {
		out.Ref, err = textMessage(r, out.Text)
	}
	return err
}

// written is what a node leaves by one port, with what is already there.
func written(r *runtime.Run, x *runtime.Execution, o *plan.Out, left value.Value) (value.Value, error) {
	if o.Write == "" || o.Write == "overwrite" {
		return Leaving(r, x, o, left)
	}
	v, _ := left.Get(o.Name)
	old, err := portValue(r, x, &plan.In{Name: o.Name, Key: o.Keys[0], Default: o.Default})
	if err != nil {
		return v, err
	}
	switch {
	case o.Write == "insert" && old.Kind == value.Array:
		old.Items = append(slices.Clip(old.Items), v)
	case o.Write == "merge" && old.Kind == value.Array && v.Kind == value.Array:
		old.Items = append(slices.Clip(old.Items), v.Items...)
	case o.Write == "merge" && old.Kind == value.Object && v.Kind == value.Object:
		old.Members = slices.DeleteFunc(slices.Clone(old.Members), func(m value.Member) bool {
			_, ok := v.Get(m.Key)
			return ok
		})
		old.Members = append(old.Members, v.Members...)
	default:
		return v, r.Fail(x, contract.ClassInvalidValue, "write overwrite, or give what can be added", "%s cannot be added to %s by %s", v.Kind, old.Kind, o.Write)
	}
	return Leaving(r, x, o, Object(o.Name, old))
}

// leftBy is what a node gave, as an object.
func leftBy(r *runtime.Run, x *runtime.Execution, out *runtime.Outcome) (value.Value, error) {
	switch {
	case out.Value != nil:
		return *out.Value, nil
	case out.Data != nil:
		v, err := value.Parse(out.Data)
		if err != nil {
			return v, r.Fail(x, contract.ClassInvalidValue, "", "the node's value: %v", err)
		}
		return v, nil
	case len(x.Node.Ports.Out) == 1:
		return Object(x.Node.Ports.Out[0].Name, value.Of(out.Text)), nil
	}
	return value.Value{Kind: value.Object}, nil
}

// Leaving is what a node leaves by one port: what it gave, or the port's default.
func Leaving(r *runtime.Run, x *runtime.Execution, o *plan.Out, left value.Value) (value.Value, error) {
	v, ok := left.Get(o.Name)
	var err error
	switch {
	case ok:
	case len(o.Default) > 0:
		v, err = value.Parse(o.Default)
	default:
		err = fmt.Errorf("the node gave no value, and it has no default")
	}
	if err == nil {
		v, err = value.Cast(o.Type, v)
	}
	if err != nil {
		return v, r.Fail(x, contract.ClassInvalidValue, "correct what the node gives, or the type of its output", "output %q: %s", o.Name, err.Error())
	}
	return v, nil
}

// forget marks what was written under a prefix as not written.
func forget(x *runtime.Execution, prefix string) {
	if prefix == "" {
		return
	}
	for i := range x.View.State {
		if e := &x.View.State[i]; strings.HasPrefix(e.Key, prefix) {
			*e = contract.StateEntry{Key: e.Key, By: schedule.NextStamp(x.View, x.Strand, x.ID, x.Step)}
		}
	}
}

// Object is an object with one member.
func Object(key string, v value.Value) value.Value {
	return value.Value{Kind: value.Object, Members: []value.Member{{Key: key, Value: v}}}
}

// Wanted are those of some values that a flow takes.
func Wanted(flow *plan.Flow, in value.Value) value.Value {
	out := value.Value{Kind: value.Object}
	for _, m := range in.Members {
		takes := slices.ContainsFunc(flow.Nodes, func(n plan.Node) bool {
			return n.Ports != nil && slices.ContainsFunc(n.Ports.In, func(p plan.In) bool { return p.Key == plan.InKey(m.Key) })
		})
		if takes {
			out.Members = append(out.Members, m)
		}
	}
	return out
}
