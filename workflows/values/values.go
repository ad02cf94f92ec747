// Package values reads and writes the typed values of a flow.
//
// The values are stored in the state under keys that models can neither read nor write: the value that is passed along the edges
// under [contract.ValueKey] or, if values have names, each under the keys of [plan.Ports].
package values

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
	"weft/workflows/runtime"
	"weft/workflows/schedule"
	"weft/workflows/transcript"
)

// ValueAt returns the typed value of a key in a view's state.
func ValueAt(r *runtime.Run, v *contract.View, key string) (value.Value, error) {
	e, ok := schedule.Entry(v, key)
	if !ok {
		return value.Value{}, contract.Failf(contract.ClassInvalidValue, "", "the value %q has not been written", key)
	}
	raw, ok := r.Transcript.ValueOf(&e)
	if !ok {
		return value.Value{}, contract.Failf(contract.ClassTranscriptLost, "", "the content of the value %q of %d bytes is missing from this run", key, e.Size)
	}
	out, err := value.Parse(raw)
	if err != nil {
		return out, contract.Failf(contract.ClassInvalidValue, "", "the value %q: %v", key, err)
	}
	return out, nil
}

// putValue writes a typed value into the state of an execution's view.
func putValue(r *runtime.Run, x *runtime.Execution, key string, v value.Value) error {
	raw := v.JSON()
	if d := plan.Depth(raw); d > transcript.MaxDepth {
		return r.Fail(x, contract.ClassInvalidValue, "return a flatter value", "the value nests %d deep, at most %d are stored", d, transcript.MaxDepth)
	}
	tooLarge, err := WriteState(r, x, key, raw)
	if err == nil && tooLarge > 0 {
		return r.Fail(x, contract.ClassStateTooLarge, "return a shorter value or a reference from the node, or raise limits.max_state_bytes in weft.yaml",
			"with the node's value of %d bytes the state would hold %d, at most %d are allowed", len(raw), tooLarge, r.Flow.Limits.MaxStateBytes)
	}
	return err
}

// WriteState writes a key into an execution's state. If the state would be too large, it only returns its size in bytes as tooLarge.
func WriteState(r *runtime.Run, x *runtime.Execution, key string, raw json.RawMessage) (tooLarge int, err error) {
	e, err := r.Transcript.Value(key, raw, contract.Stamp{})
	if err != nil {
		return 0, err
	}
	size := schedule.StateBytes(x.View) + schedule.EntryBytes(&e)
	if old, ok := schedule.Entry(x.View, key); ok {
		size -= schedule.EntryBytes(&old)
	}
	if size > r.Flow.Limits.MaxStateBytes {
		return size, nil
	}
	e.By = schedule.NextStamp(x.View, x.Strand, x.ID, x.Step)
	schedule.SetEntry(x.View, e)
	return 0, nil
}

// StoreResult writes a node's result to the keys that its flow declares, and sets the outcome's text and data accordingly.
func StoreResult(r *runtime.Run, x *runtime.Execution, out *runtime.Outcome) error {
	if r.Flow.Values == nil {
		return nil
	}
	v, err := nodeValue(r, x, out)
	switch {
	case err != nil:
		return err
	case x.Node.Ports == nil:
		err = putValue(r, x, cmp.Or(x.Node.StateKey, contract.ValueKey), v)
	default:
		if v, err = writePorts(r, x, v); err == nil && len(v.Members) == 0 && out.Value == nil {
			return nil
		}
	}
	if err != nil {
		return err
	}
	out.Text, out.Data = textAndData(v)
	if out.Ref.SHA == "" {
		out.Ref = textMessage(r, out.Text)
	}
	return nil
}

// nodeValue returns a node's result as a value: an object if values have names.
func nodeValue(r *runtime.Run, x *runtime.Execution, out *runtime.Outcome) (value.Value, error) {
	switch {
	case out.Value != nil:
		return *out.Value, nil
	case out.Data != nil:
		v, err := value.Parse(out.Data)
		if err != nil {
			return v, r.Fail(x, contract.ClassInvalidValue, "", "the node's value: %v", err)
		}
		return v, nil
	case x.Node.Ports == nil:
		return value.Of(out.Text), nil
	case len(x.Node.Ports.Out) == 1:
		return value.ObjectOf(x.Node.Ports.Out[0].Name, value.Of(out.Text)), nil
	}
	return value.Value{Kind: value.Object}, nil
}

// textAndData returns a value as the text and the data of an execution; a string has no data.
func textAndData(v value.Value) (string, json.RawMessage) {
	if v.Kind == value.String {
		return v.Text, nil
	}
	return v.Words(), v.JSON()
}

// textMessage stores a text as a message and returns a reference to it.
func textMessage(r *runtime.Run, text string) contract.ContentRef {
	raw, _ := (&contract.Message{Role: contract.RoleAssistant, Text: text}).Encode()
	return r.Transcript.Keep(raw)
}

// ApplyEdge applies the transformation of the taken edge to the value.
func ApplyEdge(r *runtime.Run, x *runtime.Execution, taken []int, done *contract.Execution) error {
	if len(taken) != 1 || r.Flow.Edges[taken[0]].Pass == nil {
		return nil
	}
	edge := &r.Flow.Edges[taken[0]]
	v, err := ValueAt(r, x.View, contract.ValueKey)
	if err != nil {
		return err
	}
	if v, err = value.Selected(edge.Pass.Rules, edge.Pass.Path, v); err != nil {
		return r.Fail(x, contract.ClassInvalidValue, "correct the transformation of the edge to "+edge.To, "the edge to %s: %s", edge.To, err.Error())
	}
	if edge.To == plan.End {
		text, data := textAndData(v)
		done.Text, done.Data = &text, data
	}
	return putValue(r, x, contract.ValueKey, v)
}

// LongValues returns the stored content of a view's long values that workflow code reads, and of its short outputs.
func LongValues(r *runtime.Run, v *contract.View) []json.RawMessage {
	var out []json.RawMessage
	for i := range v.State {
		if e := &v.State[i]; e.SHA != "" && contract.Reserved(e.Key) && r.Transcript.Has(e.SHA) {
			out = append(out, r.Transcript.Content[e.SHA])
		}
	}
	for i := range v.Outputs {
		if raw, ok := r.Transcript.Content[v.Outputs[i].SHA]; ok && len(raw) <= transcript.MaxInline {
			out = append(out, raw)
		}
	}
	return out
}

// Format returns a value as the flow's messages print it.
func Format(r *runtime.Run, v value.Value) string {
	if r.Flow.Values != nil {
		for _, p := range r.Flow.Values.Printed {
			if p.Type == typeOf(v) {
				return format(r, p.Template, v)
			}
		}
	}
	return v.Brief()
}

// format fills a template of [plan.Printed] in with a value.
func format(r *runtime.Run, template string, v value.Value) string {
	data := v.Words()
	if v.Kind == value.Array {
		var items []string
		for _, i := range v.Items {
			items = append(items, i.Words())
		}
		data = "[" + strings.Join(items, ", ") + "]"
	}
	pairs := []string{"{data}", data}
	if v.IsCritique() {
		success, _ := v.Get("success")
		feedback, _ := v.Get("feedback")
		input, _ := v.Get("input")
		pairs = append(pairs, "{success}", success.Words(), "{feedback}", feedback.Text, "{input}", Format(r, input))
	}
	return strings.NewReplacer(pairs...).Replace(template)
}

// typeOf returns a value's type by the names of [plan.Printed].
func typeOf(v value.Value) string {
	names := map[value.Kind]string{value.Bool: "boolean", value.Int: "int", value.Double: "double", value.String: "string"}
	switch {
	case v.IsCritique():
		return "critique"
	case v.Kind == value.Array && len(v.Items) > 0:
		return "array_" + names[v.Items[0].Kind]
	case v.Kind == value.Array:
		return "array_string"
	}
	return names[v.Kind]
}

// TextPart returns a text as a part of a message, by reference if it is long.
func TextPart(r *runtime.Run, text string) contract.Part {
	if len(text) <= transcript.MaxInline {
		return contract.Part{Text: text}
	}
	return contract.Part{Ref: &contract.ContentRef{SHA: textMessage(r, text).SHA}}
}

// YesNo returns "yes" or "no".
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// Inputs returns a node's named inputs as an object in the order of its ports.
func Inputs(r *runtime.Run, x *runtime.Execution) (value.Value, error) {
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
			return out, r.Fail(x, contract.ClassInvalidValue, "correct the value's source, or its type", "input %q: %s", in.Name, err.Error())
		}
		out.Members = append(out.Members, value.Member{Key: in.Name, Value: v})
	}
	return out, nil
}

// portValue returns the value of a port: the last one written, or its default.
func portValue(r *runtime.Run, x *runtime.Execution, in *plan.In) (value.Value, error) {
	if e, ok := schedule.Entry(x.View, in.Key); ok && in.Key != "" && (e.SHA != "" || len(e.Value) > 0) {
		return ValueAt(r, x.View, in.Key)
	}
	if len(in.Default) == 0 {
		return value.Value{}, r.Fail(x, contract.ClassInvalidValue, "connect it to the output of an earlier node, or declare a default",
			"the input %q has no value", in.Name)
	}
	v, err := value.Parse(in.Default)
	if err != nil {
		return v, r.Fail(x, contract.ClassInvalidValue, "correct the default", "the default of input %q: %v", in.Name, err)
	}
	return v, nil
}

// writePorts writes a node's result to the keys of its output ports, and returns the node's outputs.
func writePorts(r *runtime.Run, x *runtime.Execution, result value.Value) (value.Value, error) {
	clearPrefix(x, x.Node.Ports.Clear)
	outputs := value.Value{Kind: value.Object}
	for i := range x.Node.Ports.Out {
		o := &x.Node.Ports.Out[i]
		v, err := portOutput(r, x, o, result)
		if err != nil {
			return outputs, err
		}
		for _, key := range o.Keys {
			if err := putValue(r, x, key, v); err != nil {
				return outputs, err
			}
		}
		if o.Name[0] != '.' || x.Node.Exit {
			outputs.Members = append(outputs.Members, value.Member{Key: o.Name, Value: v})
		}
	}
	return outputs, nil
}

// portOutput returns the value to write to an output port: the node's result, combined with the port's old value if o.Write says so.
func portOutput(r *runtime.Run, x *runtime.Execution, o *plan.Out, result value.Value) (value.Value, error) {
	if o.Write == "" || o.Write == "overwrite" {
		return PortOutput(r, x, o, result)
	}
	v, _ := result.Get(o.Name)
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
		return v, r.Fail(x, contract.ClassInvalidValue, "use overwrite, or return a value that can be added", "%s cannot be added to %s by %s", v.Kind, old.Kind, o.Write)
	}
	return PortOutput(r, x, o, value.ObjectOf(o.Name, old))
}

// PortOutput returns a node's result for one port, or else the port's default.
func PortOutput(r *runtime.Run, x *runtime.Execution, o *plan.Out, result value.Value) (value.Value, error) {
	v, ok := result.Get(o.Name)
	var err error
	switch {
	case ok:
	case len(o.Default) > 0:
		v, err = value.Parse(o.Default)
	default:
		err = fmt.Errorf("the node returned no value, and there is no default")
	}
	if err == nil {
		v, err = value.Cast(o.Type, v)
	}
	if err != nil {
		return v, r.Fail(x, contract.ClassInvalidValue, "correct the node's result, or the type of its output", "output %q: %s", o.Name, err.Error())
	}
	return v, nil
}

// clearPrefix clears the state entries whose keys have a prefix.
func clearPrefix(x *runtime.Execution, prefix string) {
	if prefix == "" {
		return
	}
	for i := range x.View.State {
		if e := &x.View.State[i]; strings.HasPrefix(e.Key, prefix) {
			*e = contract.StateEntry{Key: e.Key, By: schedule.NextStamp(x.View, x.Strand, x.ID, x.Step)}
		}
	}
}

// SelectInputs returns the members of an object that a flow declares as inputs.
func SelectInputs(flow *plan.Flow, in value.Value) value.Value {
	out := value.Value{Kind: value.Object}
	for _, m := range in.Members {
		accepted := slices.ContainsFunc(flow.Nodes, func(n plan.Node) bool {
			return n.Ports != nil && slices.ContainsFunc(n.Ports.In, func(p plan.In) bool { return p.Key == plan.InKey(m.Key) })
		})
		if accepted {
			out.Members = append(out.Members, m)
		}
	}
	return out
}

// Holds evaluates a comparison on a value, and returns the part of the value that was compared.
func Holds(c *plan.Compare, v value.Value) (bool, value.Value, error) {
	if c.Fail != "" {
		return false, v, errors.New(c.Fail)
	}
	operand, err := value.Operand(c.Rules, c.Path, v)
	if err != nil {
		return false, operand, err
	}
	want, err := value.Parse(c.Value)
	if err != nil {
		return false, operand, err
	}
	return value.Holds(c.Rules, c.Op, operand, want), operand, nil
}
