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

// checkDeclared rejects params that the flow does not declare, and scopes of placeholders that it does not replace.
func (p *Preparation) checkDeclared(in *contract.RunInput) error {
	f := p.Run.Flow
	present := func(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
	refuse := func(what, remedy string) error {
		return contract.Failf(contract.ClassBadRequest, remedy, "the run supplies %s, but the flow %q, of the dialect %s, declares no inputs", what, f.Name, f.Dialect)
	}
	switch {
	case f.Inputs != nil:
		return nil
	case present(in.Scope):
		return refuse("a scope", "remove the scope")
	case present(in.Params) && (f.Values == nil || !f.Values.Named):
		return refuse("params", "pass the text as input, and values for the nodes as state")
	}
	return nil
}

// decodeConnections returns the connections that the run's input supplies.
func decodeConnections(in *contract.RunInput) ([]plan.Connection, error) {
	var out []plan.Connection
	for i := range in.DataConnections {
		c, err := in.DataConnections[i].Connection()
		if err != nil {
			remedy := "correct the run's input"
			if errors.Is(err, contract.ErrSecret) {
				remedy = contract.SecretInHistoryRemedy + "; " + remedy
			}
			return nil, contract.Failf(contract.ClassBadRequest, remedy, "%v", err)
		}
		out = append(out, c)
	}
	return out, nil
}

// Accept stores the run's inputs and returns the run's initial view. Connections of the input precede the flow's.
func (p *Preparation) Accept(in *contract.RunInput) (*contract.View, error) {
	for i := range p.runConnections {
		if k := slices.IndexFunc(p.Run.Flow.Connections, func(c plan.Connection) bool { return c.ID == p.runConnections[i].ID }); k >= 0 {
			p.runConnections[i].WholeResults = p.Run.Flow.Connections[k].WholeResults // the flow decides what its agents see
		}
	}
	p.Run.Flow.Connections = append(p.runConnections, p.Run.Flow.Connections...)
	text, v, err := p.inputOf(in)
	if err != nil {
		return nil, err
	}
	p.SetInput("input", text, in.Media)
	p.Run.Shared.MaxEvents = in.MaxEvents
	if len(in.History) > 0 {
		raw, _ := json.Marshal(in.History)
		p.Run.Shared.Chat = new(p.Run.Transcript.Write(p.Run.Transcript.Open("chat"), &contract.Message{Role: contract.RoleUser, Text: string(raw)}))
	}
	view := &contract.View{}
	if err := p.writeInput(view, in, v); err != nil {
		return nil, err
	}
	for _, key := range workflow.DeterministicKeys(in.State) {
		if d := plan.Depth(in.State[key]); d > transcript.MaxDepth {
			return nil, contract.Failf(contract.ClassBadRequest, "", "the input's state key %q nests %d deep, at most %d are stored", key, d, transcript.MaxDepth)
		}
		if err := p.write(view, key, in.State[key]); err != nil {
			return nil, err
		}
	}
	if n, limit := schedule.StateBytes(view), p.Run.Flow.Limits.MaxStateBytes; n > limit {
		return nil, contract.Failf(contract.ClassTooLarge, "shorten the values, or raise limits.max_state_bytes in weft.yaml",
			"the input's state holds %d bytes, at most %d are allowed", n, limit)
	}
	return view, nil
}

// SetInput stores a text with files as the run's input, in the named thread. A long text, or one with files, is kept by reference.
func (p *Preparation) SetInput(thread, text string, files []contract.Media) {
	m := contract.InputMessage(text, files)
	p.Run.Shared.Text, p.Run.Shared.Input = "", p.Run.Transcript.Write(p.Run.Transcript.Open(thread), m)
	if len(m.Text) <= transcript.MaxInline && len(files) == 0 {
		p.Run.Shared.Text = m.Text
	}
}

// writeParams writes the params into the run's initial view, and adds the run's text to the conversation as a user message.
func (p *Preparation) writeParams(view *contract.View, in *contract.RunInput) error {
	if raw := in.Params; len(raw) > 0 && string(raw) != "null" {
		params, err := value.Parse(raw)
		if err != nil {
			return contract.Failf(contract.ClassBadRequest, "pass a JSON object", "the run's params: %v", err)
		}
		for _, m := range params.Members {
			if err := p.write(view, plan.InKey(m.Key), m.Value.JSON()); err != nil {
				return err
			}
		}
	}
	if in.Conversation != nil {
		p.Run.Conversation.Add(in.Conversation.Messages, p.Run.ParentJournal == nil)
		p.Run.Conversation.Inherited = len(in.Conversation.Messages)
	}
	if in.Input != "" || len(in.Media) > 0 {
		p.Run.Transcript.Write(p.Run.Conversation.Open(), contract.InputMessage(in.Input, in.Media))
	}
	return nil
}

// inputOf returns a run's text, and the value that flows from START.
func (p *Preparation) inputOf(in *contract.RunInput) (text string, v value.Value, err error) {
	values, raw := p.Run.Flow.Values, in.Value
	switch {
	case len(raw) > 0 && values != nil && values.Named:
		return "", v, contract.Failf(contract.ClassBadRequest, "pass the inputs by name, as params", "the run supplies a typed value, but the values of the flow %q have names", p.Run.Flow.Name)
	case len(raw) > 0 && values == nil:
		return "", v, contract.Failf(contract.ClassBadRequest, "pass the text as input, and values for the nodes as state",
			"the run supplies a typed value, but the flow %q, of the dialect %s, accepts text only", p.Run.Flow.Name, p.Run.Flow.Dialect)
	case values == nil, len(raw) == 0 && in.Input != "":
		return in.Input, value.Of(in.Input), nil
	case len(raw) == 0 && values.Missing != "":
		return "", v, contract.Failf(contract.ClassBadRequest, "pass an input", "%s", values.Missing)
	case len(raw) == 0 && len(values.Default) == 0:
		return "", value.Of(""), nil
	case len(raw) == 0:
		v, err = value.Parse(values.Default)
		return "", v, err
	}
	if v, err = readInput(values.Read, raw); err != nil {
		return "", v, contract.Failf(contract.ClassBadRequest, "pass a string, a number, a boolean, an array of one of these, or a critique result", "the run's value: %v", err)
	}
	return v.Words(), v, nil
}

// readInput reads a run's typed value. A literal value may also be tagged with its type.
func readInput(way string, raw json.RawMessage) (value.Value, error) {
	v, err := value.Read(way, raw)
	if err == nil && way == value.Literal && (v.IsTagged() || v.IsTaggedCritique()) {
		return value.Reread(value.Tagged, v)
	}
	return v, err
}

// writeInput writes the run's value or params into its initial view.
func (p *Preparation) writeInput(view *contract.View, in *contract.RunInput, v value.Value) error {
	if p.Run.Flow.Values == nil {
		return nil
	}
	for _, key := range workflow.DeterministicKeys(in.State) {
		if contract.Reserved(key) {
			return contract.Failf(contract.ClassBadRequest, "use another key, or pass the value as value or params", "the input's state has the key %q; keys that begin with $ are reserved", key)
		}
	}
	if p.Run.Flow.Values.Named {
		return p.writeParams(view, in)
	}
	return p.write(view, contract.ValueKey, v.JSON())
}

// write writes a value into the run's initial view.
func (p *Preparation) write(view *contract.View, key string, raw json.RawMessage) error {
	e, err := p.Run.Transcript.Value(key, raw, contract.Stamp{Exec: plan.Start})
	if err == nil {
		schedule.SetEntry(view, e)
	}
	return err
}

// RepairThread adds error results for interrupted tool calls, because providers reject a conversation without results.
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
			lost := contract.Message{Role: contract.RoleTool, Text: "the flow ended before the call completed", CallID: c.ID, Name: c.Name, Error: true}
			r.Transcript.Write(t, &lost)
		}
		return nil
	}
	return nil
}
