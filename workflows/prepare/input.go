package prepare

import (
	"encoding/json"
	"errors"
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
	"weft/workflows/runtime"
	"weft/workflows/schedule"
	"weft/workflows/transcript"
)

// undeclared refuses params that the flow does not declare, and values of placeholders that it does not replace.
func (p *Preparation) undeclared(in *contract.RunInput) error {
	f := p.Run.Flow
	given := func(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
	refuse := func(what, remedy string) error {
		return contract.Failf(contract.ClassBadRequest, remedy, "the run supplies %s, but the flow %q, of the dialect %s, declares no inputs", what, f.Name, f.Dialect)
	}
	switch {
	case f.Inputs != nil:
		return nil
	case given(in.Scope):
		return refuse("a scope", "leave the scope out")
	case given(in.Params) && (f.Values == nil || !f.Values.Named):
		return refuse("params", "give the text with input, and values for the nodes with state")
	}
	return nil
}

// broughtConnections are the run's own connections.
func broughtConnections(in *contract.RunInput) ([]plan.Connection, error) {
	var out []plan.Connection
	for i := range in.DataConnections {
		c, err := in.DataConnections[i].Connection()
		if err != nil {
			remedy := "correct the run's input"
			if errors.Is(err, contract.ErrSecret) {
				remedy = contract.InHistory + "; " + remedy
			}
			return nil, contract.Failf(contract.ClassBadRequest, remedy, "%v", err)
		}
		out = append(out, c)
	}
	return out, nil
}

// Accept stores what the run was given, and makes the view with which it begins. The run's own connections come before the flow's.
func (p *Preparation) Accept(in *contract.RunInput) (*contract.View, error) {
	for i := range p.brought {
		if k := slices.IndexFunc(p.Run.Flow.Connections, func(c plan.Connection) bool { return c.ID == p.brought[i].ID }); k >= 0 {
			p.brought[i].WholeResults = p.Run.Flow.Connections[k].WholeResults // what its agents see is the flow's
		}
	}
	p.Run.Flow.Connections = append(p.brought, p.Run.Flow.Connections...)
	text, given, err := p.inputOf(in)
	if err != nil {
		return nil, err
	}
	p.SetInput("input", text, in.Media)
	p.Run.Shared.MaxEvents = in.MaxEvents
	if len(in.History) > 0 {
		raw, _ := json.Marshal(in.History)
		p.Run.Shared.Chat = new(p.Run.Transcript.Write(p.Run.Transcript.Open("chat"), &contract.Message{Role: contract.RoleUser, Text: string(raw)}))
	}
	first := &contract.View{}
	if err := p.writeInput(first, in, given); err != nil {
		return nil, err
	}
	for _, key := range workflow.DeterministicKeys(in.State) {
		if d := plan.Depth(in.State[key]); d > transcript.MaxDepth {
			return nil, contract.Failf(contract.ClassBadRequest, "", "the input's state key %q nests %d deep, at most %d are stored", key, d, transcript.MaxDepth)
		}
		if err := p.write(first, key, in.State[key]); err != nil {
			return nil, err
		}
	}
	if n, limit := schedule.StateBytes(first), p.Run.Flow.Limits.MaxStateBytes; n > limit {
		return nil, contract.Failf(contract.ClassTooLarge, "shorten its values, or raise limits.max_state_bytes in weft.yaml",
			"the input's state holds %d bytes, at most %d are allowed", n, limit)
	}
	return first, nil
}

// SetInput makes a text with files the run's input, under a thread's name. A long one, or one with files, is read by reference.
func (p *Preparation) SetInput(thread, text string, files []contract.Media) {
	m := contract.InputMessage(text, files)
	p.Run.Shared.Text, p.Run.Shared.Input = "", p.Run.Transcript.Write(p.Run.Transcript.Open(thread), m)
	if len(m.Text) <= transcript.MaxInline && len(files) == 0 {
		p.Run.Shared.Text = m.Text
	}
}

// beginNamed writes the params into the view with which the run begins, and its text as what a person said first.
func (p *Preparation) beginNamed(first *contract.View, in *contract.RunInput) error {
	if raw := in.Params; len(raw) > 0 && string(raw) != "null" {
		params, err := value.Parse(raw)
		if err != nil {
			return contract.Failf(contract.ClassBadRequest, "give a JSON object", "the run's params: %v", err)
		}
		for _, m := range params.Members {
			if err := p.write(first, plan.InKey(m.Key), m.Value.JSON()); err != nil {
				return err
			}
		}
	}
	if in.Conversation != nil {
		p.Run.Conversation.Add(in.Conversation.Messages, p.Run.Above == nil)
		p.Run.Conversation.Inherited = len(in.Conversation.Messages)
	}
	if in.Input != "" || len(in.Media) > 0 {
		p.Run.Transcript.Write(p.Run.Conversation.Open(), contract.InputMessage(in.Input, in.Media))
	}
	return nil
}

// inputOf is what a run is given: its text, and the value that flows from START.
func (p *Preparation) inputOf(in *contract.RunInput) (text string, v value.Value, err error) {
	values, raw := p.Run.Flow.Values, in.Value
	switch {
	case len(raw) > 0 && values != nil && values.Named:
		return "", v, contract.Failf(contract.ClassBadRequest, "give its inputs by name, with params", "the run supplies a typed value, but the values of the flow %q have names", p.Run.Flow.Name)
	case len(raw) > 0 && values == nil:
		return "", v, contract.Failf(contract.ClassBadRequest, "give the text with input, and values for the nodes with state",
			"the run supplies a typed value, but the flow %q, of the dialect %s, takes text", p.Run.Flow.Name, p.Run.Flow.Dialect)
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

// readInput reads a run's typed value. Where JSON is taken as it is, its type may also stand beside it.
func readInput(way string, raw json.RawMessage) (value.Value, error) {
	v, err := value.Read(way, raw)
	if err == nil && way == value.Literal && (v.IsTagged() || v.IsTaggedCritique()) {
		return value.Reread(value.Tagged, v)
	}
	return v, err
}

// writeInput writes the run's value into the view with which it begins.
func (p *Preparation) writeInput(first *contract.View, in *contract.RunInput, v value.Value) error {
	if p.Run.Flow.Values == nil {
		return nil
	}
	for _, key := range workflow.DeterministicKeys(in.State) {
		if contract.Reserved(key) {
			return contract.Failf(contract.ClassBadRequest, "use another key, or give the value with value or params", "the input's state has the key %q; keys that begin with $ are the flow's own", key)
		}
	}
	if p.Run.Flow.Values.Named {
		return p.beginNamed(first, in)
	}
	return p.write(first, contract.ValueKey, v.JSON())
}

// write writes a value into the view with which the run begins.
func (p *Preparation) write(first *contract.View, key string, raw json.RawMessage) error {
	e, err := p.Run.Transcript.Value(key, raw, contract.Stamp{Exec: plan.Start})
	if err == nil {
		schedule.SetEntry(first, e)
	}
	return err
}

// RepairThread answers tool calls in whose middle a turn or a flow ended: no provider takes a conversation without their results.
func RepairThread(r *runtime.Run) error {
	t := r.Conversation.Thread
	if t == nil {
		return nil
	}
	answered := map[string]bool{}
	for i := len(t.Entries) - 1; i >= 0; i-- {
		m, err := contract.DecodeMessage(t.Entries[i].Raw)
		if err != nil {
			return err
		}
		if m.Role == contract.RoleTool {
			answered[m.CallID] = true
			continue
		}
		for _, c := range m.Calls {
			if answered[c.ID] {
				continue
			}
			lost := contract.Message{Role: contract.RoleTool, Text: "the flow ended before the call had its result", CallID: c.ID, Name: c.Name, Error: true}
			r.Transcript.Write(t, &lost)
		}
		return nil
	}
	return nil
}
