package workflows

import (
	"fmt"
	"regexp"
	"strings"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
	"weft/workflows/schedule"
)

// Where values have names, a node takes its own from state keys and leaves them under others,
// see [plan.Ports]. The value that flows along the edges is not used then.

// given is what a node takes by name, as an object in the order of its ports.
func (r *run) given(x *execution) (value.Value, error) {
	out := value.Value{Kind: value.Object}
	if x.node.Ports == nil {
		return out, nil
	}
	for i := range x.node.Ports.In {
		in := &x.node.Ports.In[i]
		v, err := r.taken(x, in)
		if err != nil {
			return out, err
		}
		if v, err = value.Cast(in.Type, v); err != nil {
			return out, r.fail(x, contract.ClassInvalidValue, "correct what gives the value, or its type", "input %q: %s", in.Name, err.Error())
		}
		out.Members = append(out.Members, value.Member{Key: in.Name, Value: v})
	}
	return out, nil
}

// taken is the value of one port: what was written last, or its default.
func (r *run) taken(x *execution, in *plan.In) (value.Value, error) {
	if e, ok := schedule.Entry(x.view, in.Key); ok && in.Key != "" && (e.SHA != "" || len(e.Value) > 0) {
		v, _, err := r.valueAt(x.view, in.Key)
		return v, err
	}
	if len(in.Default) == 0 {
		return value.Value{}, r.fail(x, contract.ClassInvalidValue, "let a node that runs before give it, or give it a default",
			"nothing has given the input %q a value", in.Name)
	}
	v, err := value.Parse(in.Default)
	if err != nil {
		return v, r.fail(x, contract.ClassInvalidValue, "correct the default", "the default of input %q: %v", in.Name, err)
	}
	return v, nil
}

// settlePorts writes what a node left to the keys from which others take it, and makes text and
// data of the outcome agree with it.
func (r *run) settlePorts(x *execution, out *outcome) error {
	left, err := r.leftBy(x, out)
	if err != nil {
		return err
	}
	forget(x, x.node.Ports.Clear)
	all := value.Value{Kind: value.Object}
	for i := range x.node.Ports.Out {
		o := &x.node.Ports.Out[i]
		v, err := r.leaving(x, o, left)
		if err != nil {
			return err
		}
		for _, key := range o.Keys {
			if err := r.putValue(x, key, v); err != nil {
				return err
			}
		}
		all.Members = append(all.Members, value.Member{Key: o.Name, Value: v})
	}
	if len(all.Members) == 0 && out.value == nil {
		return nil
	}
	out.text, out.data = spoken(all)
	if out.ref.SHA == "" {
		out.ref, err = r.words(out.text)
	}
	return err
}

// leftBy is what a node gave, as an object.
func (r *run) leftBy(x *execution, out *outcome) (value.Value, error) {
	switch {
	case out.value != nil:
		return *out.value, nil
	case out.data != nil:
		v, err := value.Parse(out.data)
		if err != nil {
			return v, r.fail(x, contract.ClassInvalidValue, "", "the node's value: %v", err)
		}
		return v, nil
	case len(x.node.Ports.Out) == 1:
		return object(x.node.Ports.Out[0].Name, value.Of(out.text)), nil
	}
	return value.Value{Kind: value.Object}, nil
}

// leaving is what a node leaves by one port: what it gave, or the port's default.
func (r *run) leaving(x *execution, o *plan.Out, left value.Value) (value.Value, error) {
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
		return v, r.fail(x, contract.ClassInvalidValue, "correct what the node gives, or the type of its output", "output %q: %s", o.Name, err.Error())
	}
	return v, nil
}

// forget marks what was written under a prefix as not written.
func forget(x *execution, prefix string) {
	if prefix == "" {
		return
	}
	for i := range x.view.State {
		if e := &x.view.State[i]; strings.HasPrefix(e.Key, prefix) {
			*e = contract.StateEntry{Key: e.Key, By: schedule.NextStamp(x.view, x.strand, x.id, x.n)}
		}
	}
}

// object is an object with one member.
func object(key string, v value.Value) value.Value {
	return value.Value{Kind: value.Object, Members: []value.Member{{Key: key, Value: v}}}
}

// placeholder is what a value replaces in a text.
var placeholder = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)

// fillIn is a text with its placeholders replaced, each once: what a value holds stays as it
// is. A name without a value stays too.
func fillIn(text string, in value.Value) string {
	return placeholder.ReplaceAllStringFunc(text, func(m string) string {
		if v, ok := in.Get(placeholder.FindStringSubmatch(m)[1]); ok {
			return v.Spaced()
		}
		return m
	})
}

// beginNamed writes what a run is given into the view with which it begins: its params by their
// names, and its text as what a person said first.
func (f *flowRun) beginNamed(first *contract.View, in *contract.RunInput) error {
	if raw := in.Params; len(raw) > 0 && string(raw) != "null" {
		params, err := value.Parse(raw)
		if err != nil {
			return &contract.Failure{Class: contract.ClassBadRequest, Text: fmt.Sprintf("the run's params: %v", err), Remedy: "give a JSON object"}
		}
		for _, m := range params.Members {
			e, err := f.store.value(plan.InKey(m.Key), m.Value.JSON(), contract.Stamp{Exec: plan.Start})
			if err != nil {
				return err
			}
			schedule.SetEntry(first, e)
		}
	}
	if in.Talk != nil {
		f.hold(in.Talk.Messages)
		f.conversation.heard = len(in.Talk.Messages)
	}
	if in.Input == "" && len(in.Images) == 0 {
		return nil
	}
	_, err := f.store.write(f.conversationThread(), contract.InputMessage(in.Input, in.Images))
	return err
}
