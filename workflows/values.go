package workflows

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
	"weft/workflows/schedule"
)

// Typed values live in the state, under keys that models neither see nor write: the one that
// flows along the edges under [contract.ValueKey]. So they are causal, bounded and carried
// like all state.

// valueAt reads a typed value from the state of a view, and says who wrote it.
func (r *run) valueAt(v *contract.View, key string) (value.Value, contract.Stamp, error) {
	e, ok := schedule.Entry(v, key)
	if !ok {
		return value.Value{}, e.By, &contract.Failure{Class: contract.ClassInvalidValue, Text: fmt.Sprintf("nothing has written the value %q", key)}
	}
	raw, ok := r.store.valueOf(&e)
	if !ok {
		return value.Value{}, e.By, &contract.Failure{Class: contract.ClassTranscriptLost, Text: fmt.Sprintf("this run does not hold the value %q of %d bytes", key, e.Size)}
	}
	out, err := value.Parse(raw)
	if err != nil {
		return out, e.By, &contract.Failure{Class: contract.ClassInvalidValue, Text: fmt.Sprintf("the value %q: %v", key, err)}
	}
	return out, e.By, nil
}

// putValue writes a typed value into the state that an execution sees.
func (r *run) putValue(x *execution, key string, v value.Value) error {
	raw := v.JSON()
	if d := plan.Depth(raw); d > maxDepth {
		return r.fail(x, contract.ClassInvalidValue, "return a flatter value", "the value nests %d deep, at most %d are kept", d, maxDepth)
	}
	e, err := r.store.value(key, raw, contract.Stamp{})
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
	e.By = schedule.NextStamp(x.view, x.strand, x.id, x.n)
	schedule.SetEntry(x.view, e)
	return nil
}

// settleValue writes what a node gave where its flow wants it, and makes text and data of the
// outcome agree with it.
func (r *run) settleValue(x *execution, out *outcome) error {
	if r.flow.Values == nil {
		return nil
	}
	if x.node.Ports != nil {
		return r.settlePorts(x, out)
	}
	v := value.Of(out.text)
	switch {
	case out.value != nil:
		v = *out.value
	case out.data != nil:
		var err error
		if v, err = value.Parse(out.data); err != nil {
			return r.fail(x, contract.ClassInvalidValue, "", "the node's value: %v", err)
		}
	}
	if err := r.putValue(x, cmp.Or(x.node.Into, contract.ValueKey), v); err != nil {
		return err
	}
	out.text, out.data = spoken(v)
	if out.value == nil {
		return nil
	}
	var err error
	out.ref, err = r.words(out.text)
	return err
}

// account settles what a visit of a node gave and cost.
func (r *run) account(x *execution, out *outcome) error {
	if err := r.settleValue(x, out); err != nil {
		return err
	}
	if x.node.Cost == nil {
		return nil
	}
	return r.spend(x, x.node.Cost.Visit)
}

// spoken is a value as the text, and the data, of an execution: no string has data.
func spoken(v value.Value) (string, json.RawMessage) {
	if v.Kind == value.String {
		return v.Text, nil
	}
	return v.Words(), v.JSON()
}

// words stores a text as a message that others can refer to.
func (r *run) words(text string) (contract.ContentRef, error) {
	raw, err := (&contract.Message{Role: contract.RoleAssistant, Text: text}).Encode()
	if err != nil {
		return contract.ContentRef{}, err
	}
	return r.ref(r.store.keep(raw).SHA), nil
}

// passOn changes the value as the taken edge asks.
func (r *run) passOn(x *execution, taken []int, done *contract.Execution) error {
	if len(taken) != 1 || r.flow.Edges[taken[0]].Pass == nil {
		return nil
	}
	edge := &r.flow.Edges[taken[0]]
	v, _, err := r.valueAt(x.view, contract.ValueKey)
	if err != nil {
		return err
	}
	if v, err = value.Selected(edge.Pass.Rules, edge.Pass.Path, v); err != nil {
		return r.fail(x, contract.ClassInvalidValue, "correct the transformation of the edge to "+edge.To, "the edge to %s: %s", edge.To, err.Error())
	}
	if edge.To == plan.End {
		text, data := spoken(v)
		done.Text, done.Data = &text, data
	}
	return r.putValue(x, contract.ValueKey, v)
}

// spend counts against the flow's meter.
func (r *run) spend(x *execution, n int) error {
	m := r.flow.Meter
	if m == nil || n == 0 {
		return nil
	}
	r.conversation.spent += n
	if c := x.node.Cost; c != nil && c.Forked {
		r.conversation.fork(x.node.ID).Spent += n
	}
	return r.within(x, m.Base-1)
}

// spendEnd counts the run's last step, where an edge to its end is taken. A node that has no
// edge to take fails for that, though the limit leaves no step more.
func (r *run) spendEnd(x *execution, taken []int) error {
	if r.flow.Meter == nil || !slices.ContainsFunc(taken, func(e int) bool { return r.flow.Edges[e].To == plan.End }) {
		return nil
	}
	return r.within(x, r.flow.Meter.Base)
}

// within fails where the run has spent more than its flow's meter allows; base is what it
// spends beside its nodes.
func (r *run) within(x *execution, base int) error {
	m := r.flow.Meter
	if r.conversation.spentFor(x.node)+base <= m.Limit {
		return nil
	}
	return r.fail(x, contract.ClassStepLimit, "give the loop a condition that ends it, or raise the flow's limit", "%s", m.Text)
}

// inputOf is what a run is given: its text, and the value that flows from START.
func (f *flowRun) inputOf(in *contract.RunInput) (text string, v value.Value, err error) {
	values := f.flow.Values
	raw := in.Value
	switch {
	case len(raw) > 0 && values != nil && values.Named:
		return "", v, &contract.Failure{Class: contract.ClassBadRequest, Remedy: "give its inputs by name, with params",
			Text: fmt.Sprintf("the run brings a typed value, but the values of the flow %q have names", f.flow.Name)}
	case len(raw) > 0 && values == nil:
		return "", v, &contract.Failure{Class: contract.ClassBadRequest, Remedy: "give the text with input, and values for the nodes with state",
			Text: fmt.Sprintf("the run brings a typed value, but the flow %q, of the dialect %s, takes text", f.flow.Name, f.flow.Dialect)}
	case values == nil, len(raw) == 0 && in.Input != "":
		return in.Input, value.Of(in.Input), nil
	case len(raw) == 0 && values.Missing != "":
		return "", v, &contract.Failure{Class: contract.ClassBadRequest, Remedy: "give the run an input", Text: values.Missing}
	case len(raw) == 0 && len(values.Default) == 0:
		return "", value.Of(""), nil
	case len(raw) == 0:
		v, err = value.Parse(values.Default)
		return "", v, err
	}
	if v, err = readInput(values.Read, raw); err != nil {
		return "", v, &contract.Failure{Class: contract.ClassBadRequest, Text: fmt.Sprintf("the run's value: %v", err),
			Remedy: "give a string, a number, a boolean, an array of one of them, or a critique result"}
	}
	return v.Words(), v, nil
}

// readInput reads a run's typed value. Where JSON is taken as it is, its type may also stand
// beside it.
func readInput(way string, raw json.RawMessage) (value.Value, error) {
	v, err := value.Read(way, raw)
	if err == nil && way == value.Literal && (v.IsTagged() || v.IsTaggedCritique()) {
		return value.Reread(value.Tagged, v)
	}
	return v, err
}

// begun writes the run's value into the view with which it begins.
func (f *flowRun) writeInput(first *contract.View, in *contract.RunInput, v value.Value) error {
	switch {
	case f.flow.Values == nil:
		return nil
	case f.flow.Values.Named:
		return f.beginNamed(first, in)
	}
	for _, key := range workflow.DeterministicKeys(in.State) {
		if contract.Reserved(key) {
			return &contract.Failure{Class: contract.ClassBadRequest, Text: fmt.Sprintf("the input's state has the key %q; keys that begin with $ are the flow's own", key),
				Remedy: "use another key, or give the run's value with value"}
		}
	}
	e, err := f.store.value(contract.ValueKey, v.JSON(), contract.Stamp{Exec: plan.Start})
	if err != nil {
		return err
	}
	schedule.SetEntry(first, e)
	return nil
}

// longValues are the stored bytes of a view's long values that workflow code itself reads, and
// of short outputs, which it sends itself.
func (r *run) longValues(v *contract.View) []json.RawMessage {
	var out []json.RawMessage
	for i := range v.State {
		if e := &v.State[i]; e.SHA != "" && contract.Reserved(e.Key) && r.store.has(e.SHA) {
			out = append(out, r.store.content[e.SHA])
		}
	}
	for i := range v.Outputs {
		if raw, ok := r.store.content[v.Outputs[i].SHA]; ok && len(raw) <= maxInline {
			out = append(out, raw)
		}
	}
	return out
}

// printed is a value as the flow's messages write it.
func (r *run) printed(v value.Value) string {
	if r.flow.Values != nil {
		for _, p := range r.flow.Values.Printed {
			if p.Type == typeOf(v) {
				return r.inForm(p.Form, v)
			}
		}
	}
	return v.Brief()
}

func (r *run) inForm(form string, v value.Value) string {
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
		pairs = append(pairs, "{success}", success.Words(), "{feedback}", feedback.Text, "{input}", r.printed(input))
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
