package workflows

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
	"weft/workflows/schedule"
)

// Typed values live in the state, under keys that models neither see nor write: the one that
// flows along the edges under [contract.ValueKey]. So they are causal, bounded and carried
// like all state.

// valueAt reads a typed value from the state of a view, and says who wrote it.
func valueAt(r *run, v *contract.View, key string) (value.Value, contract.Stamp, error) {
	e, ok := schedule.Entry(v, key)
	if !ok {
		return value.Value{}, e.By, &contract.Failure{Class: contract.ClassValue, Text: fmt.Sprintf("nothing has written the value %q", key)}
	}
	raw, ok := r.transcript.valueOf(&e)
	if !ok {
		return value.Value{}, e.By, &contract.Failure{Class: contract.ClassTranscriptLost, Text: fmt.Sprintf("this run does not hold the value %q of %d bytes", key, e.Size)}
	}
	out, err := value.Parse(raw)
	if err != nil {
		return out, e.By, &contract.Failure{Class: contract.ClassValue, Text: fmt.Sprintf("the value %q: %v", key, err)}
	}
	return out, e.By, nil
}

// putValue writes a typed value into the state that an execution sees.
func putValue(r *run, x *execution, key string, v value.Value) error {
	raw := v.JSON()
	if d := plan.Depth(raw); d > maxDepth {
		return r.fail(x, contract.ClassValue, "return a flatter value", "the value nests %d deep, at most %d are kept", d, maxDepth)
	}
	e, err := r.transcript.value(key, raw, contract.Stamp{})
	if err != nil {
		return err
	}
	grown := schedule.StateBytes(x.view) + schedule.EntryBytes(&e)
	if old, ok := schedule.Entry(x.view, key); ok {
		grown -= schedule.EntryBytes(&old)
	}
	if limit := r.flow.Limits.MaxStateBytes; grown > limit {
		return r.fail(x, contract.ClassStateTooLarge, "let the node return less, or a reference to it",
			"with the node's value of %d bytes the state would hold %d, at most %d are allowed", len(raw), grown, limit)
	}
	e.By = schedule.NextStamp(x.view, x.strand, x.id, x.step)
	schedule.SetEntry(x.view, e)
	return nil
}

// settleValue writes what a node gave where its flow wants it, and makes text and data of the
// outcome agree with it.
func settleValue(r *run, x *execution, out *outcome) error {
	if r.flow.Values == nil {
		return nil
	}
	if x.node.Ports != nil {
		return settlePorts(r, x, out)
	}
	v := value.Of(out.text)
	switch {
	case out.value != nil:
		v = *out.value
	case out.data != nil:
		var err error
		if v, err = value.Parse(out.data); err != nil {
			return r.fail(x, contract.ClassValue, "", "the node's value: %v", err)
		}
	}
	if err := putValue(r, x, cmp.Or(x.node.Into, contract.ValueKey), v); err != nil {
		return err
	}
	out.text, out.data = spoken(v)
	if out.value == nil {
		return nil
	}
	var err error
	out.ref, err = textMessage(r, out.text)
	return err
}

// spoken is a value as the text, and the data, of an execution: no string has data.
func spoken(v value.Value) (string, json.RawMessage) {
	if v.Kind == value.String {
		return v.Text, nil
	}
	return v.Words(), v.JSON()
}

// words stores a text as a message that others can refer to.
func textMessage(r *run, text string) (contract.ContentRef, error) {
	raw, err := (&contract.Message{Role: contract.RoleAssistant, Text: text}).Encode()
	if err != nil {
		return contract.ContentRef{}, err
	}
	return r.ref(r.transcript.keep(raw).SHA), nil
}

// passOn changes the value as the taken edge asks.
func passOn(r *run, x *execution, taken []int, done *contract.Execution) error {
	if len(taken) != 1 || r.flow.Edges[taken[0]].Pass == nil {
		return nil
	}
	edge := &r.flow.Edges[taken[0]]
	v, _, err := valueAt(r, x.view, contract.ValueKey)
	if err != nil {
		return err
	}
	if v, err = value.Selected(edge.Pass.Rules, edge.Pass.Path, v); err != nil {
		return r.fail(x, contract.ClassValue, "correct the transformation of the edge to "+edge.To, "the edge to %s: %s", edge.To, err.Error())
	}
	if edge.To == plan.End {
		text, data := spoken(v)
		done.Text, done.Data = &text, data
	}
	return putValue(r, x, contract.ValueKey, v)
}

// longValues are the stored bytes of a view's long values that workflow code itself reads, and
// of short outputs, which it sends itself.
func longValues(r *run, v *contract.View) []json.RawMessage {
	var out []json.RawMessage
	for i := range v.State {
		if e := &v.State[i]; e.SHA != "" && contract.Reserved(e.Key) && r.transcript.has(e.SHA) {
			out = append(out, r.transcript.content[e.SHA])
		}
	}
	for i := range v.Outputs {
		if raw, ok := r.transcript.content[v.Outputs[i].SHA]; ok && len(raw) <= maxInline {
			out = append(out, raw)
		}
	}
	return out
}

// printed is a value as the flow's messages write it.
func printed(r *run, v value.Value) string {
	if r.flow.Values != nil {
		for _, p := range r.flow.Values.Printed {
			if p.Type == typeOf(v) {
				return inForm(r, p.Form, v)
			}
		}
	}
	return v.Brief()
}

func inForm(r *run, form string, v value.Value) string {
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
		pairs = append(pairs, "{success}", success.Words(), "{feedback}", feedback.Text, "{input}", printed(r, input))
	}
	return strings.NewReplacer(pairs...).Replace(form)
}

// typeOf is a value's type by the names of [plan.Printed].
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

// textPart is a text as part of a message: a long one by reference.
func textPart(r *run, text string) (contract.Part, error) {
	if len(text) <= maxInline {
		return contract.Part{Text: text}, nil
	}
	ref, err := textMessage(r, text)
	return contract.Part{Ref: &contract.ContentRef{SHA: ref.SHA}}, err
}
