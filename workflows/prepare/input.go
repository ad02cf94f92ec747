package prepare

import (
	"encoding/json"
	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
	"weft/workflows/schedule"

	"go.temporal.io/sdk/workflow"
)

// beginNamed writes what a run is given into the view with which it begins: its params by their
// names, and its text as what a person said first.
func (p *Preparation) beginNamed(first *contract.View, in *contract.RunInput) error {
	if raw := in.Params; len(raw) > 0 && string(raw) != "null" {
		params, err := value.Parse(raw)
		if err != nil {
			return contract.Failf(contract.ClassBadRequest, "give a JSON object", "the run's params: %v", err)
		}
		for _, m := range params.Members {
			e, err := p.Run.Transcript.Value(plan.InKey(m.Key), m.Value.JSON(), contract.Stamp{Exec: plan.Start})
			if err != nil {
				return err
			}
			schedule.SetEntry(first, e)
		}
	}
	if in.Conversation != nil {
		p.Run.Conversation.Add(in.Conversation.Messages, p.Run.Above == nil)
		p.Run.Conversation.Inherited = len(in.Conversation.Messages)
	}
	if in.Input == "" && len(in.Media) == 0 {
		return nil
	}
	_, err := p.Run.Transcript.Write(p.Run.Conversation.Open(), contract.InputMessage(in.Input, in.Media))
	return err
}

// inputOf is what a run is given: its text, and the value that flows from START.
func (p *Preparation) inputOf(in *contract.RunInput) (text string, v value.Value, err error) {
	values, raw := p.Run.Flow.Values, in.Value
	switch {
	case len(raw) > 0 && values != nil && values.Named:
		return "", v, contract.Failf(contract.ClassBadRequest, "give its inputs by name, with params", "the run brings a typed value, but the values of the flow %q have names", p.Run.Flow.Name)
	case len(raw) > 0 && values == nil:
		return "", v, contract.Failf(contract.ClassBadRequest, "give the text with input, and values for the nodes with state",
			"the run brings a typed value, but the flow %q, of the dialect %s, takes text", p.Run.Flow.Name, p.Run.Flow.Dialect)
	case values == nil, len(raw) == 0 && in.Input != "":
		return in.Input, value.Of(in.Input), nil
	case len(raw) == 0 && values.Missing != "":
		return "", v, contract.Failf(contract.ClassBadRequest, "give the run an input", "%s", values.Missing)
	case len(raw) == 0 && len(values.Default) == 0:
		return "", value.Of(""), nil
	case len(raw) == 0:
		v, err = value.Parse(values.Default)
		return "", v, err
	}
	if v, err = readInput(values.Read, raw); err != nil {
		return "", v, contract.Failf(contract.ClassBadRequest, "give a string, a number, a boolean, an array of one of them, or a critique result", "the run's value: %v", err)
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

// writeInput writes the run's value into the view with which it begins.
func (p *Preparation) writeInput(first *contract.View, in *contract.RunInput, v value.Value) error {
	switch {
	case p.Run.Flow.Values == nil:
		return nil
	case p.Run.Flow.Values.Named:
		return p.beginNamed(first, in)
	}
	for _, key := range workflow.DeterministicKeys(in.State) {
		if contract.Reserved(key) {
			return contract.Failf(contract.ClassBadRequest, "use another key, or give the run's value with value", "the input's state has the key %q; keys that begin with $ are the flow's own", key)
		}
	}
	e, err := p.Run.Transcript.Value(contract.ValueKey, v.JSON(), contract.Stamp{Exec: plan.Start})
	if err != nil {
		return err
	}
	schedule.SetEntry(first, e)
	return nil
}
