package fork

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/input"
	"weft/starter/runs"
	"weft/starter/usage"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// override puts results that were given in the places of recorded ones, and gives the labels of the
// executions and the content that they name now. What later nodes take of an execution is its
// message and, in flows with values, what it left in the state.
func override(flow *plan.Flow, past []runs.Record, results []input.Param, at contract.Execution) (labels []string, content []json.RawMessage, err error) {
	for _, r := range results {
		p, err := recordedOf(flow, past, r.Key, at)
		if err != nil {
			return nil, nil, err
		}
		v, err := value.Parse(r.Raw)
		if err != nil {
			return nil, nil, usage.Errorf("%s: %v", r.From, err)
		}
		if p.Conversation != nil && len(p.Conversation.Messages) > 0 {
			return nil, nil, usage.Errorf("%s: the messages of %s are part of the conversation that later nodes continue; fork at %s, or change its prompt there", r.From, history.Label(p.Execution), p.Node)
		}
		stored, err := settle(flow, p, v, r.From)
		if err != nil {
			return nil, nil, err
		}
		labels, content = append(labels, history.Label(p.Execution)), append(content, stored...)
	}
	return labels, content, nil
}

func recordedOf(flow *plan.Flow, past []runs.Record, word string, at contract.Execution) (*runs.Record, error) {
	var found []*runs.Record
	var labels []string
	for i := range past {
		p := &past[i]
		node := flow.Node(p.Node)
		if label := history.Label(p.Execution); label == word || p.Node == word || node != nil && strings.EqualFold(node.Name, word) {
			found, labels = append(found, p), append(labels, label)
		}
	}
	switch len(found) {
	case 0:
		return nil, usage.Errorf("-override has %q, but no such node ran before %s; fork at a later node", word, history.Label(at))
	case 1:
		return found[0], nil
	}
	return nil, usage.Errorf("-override has %q, which ran %d times; specify which: %s", word, len(found), strings.Join(labels, " or "))
}

func settle(flow *plan.Flow, p *runs.Record, v value.Value, from string) ([]json.RawMessage, error) {
	node := flow.Node(p.Node)
	left := map[string]value.Value{}
	switch {
	case flow.Values == nil:
	case node.Ports != nil:
		all, err := ported(node, v, from)
		if err != nil {
			return nil, err
		}
		for _, o := range node.Ports.Out {
			for _, key := range o.Keys {
				left[key], _ = all.Get(o.Name)
			}
		}
		v = all
	default:
		left[cmp.Or(node.StateKey, contract.ValueKey)] = v
		if err := passed(flow, p, left, from); err != nil {
			return nil, err
		}
	}
	text := v.Text
	if v.Kind != value.String {
		text = v.Words()
	}
	raw, err := (&contract.Message{Role: contract.RoleAssistant, Text: text}).Encode()
	if err != nil {
		return nil, usage.Errorf("%s: %v", from, err)
	}
	p.SHA = contract.SHA(raw)
	content := []json.RawMessage{raw}
	for _, key := range slices.Sorted(maps.Keys(left)) {
		stored, err := leave(p, key, left[key])
		if err != nil {
			return nil, usage.Errorf("%s: %v", from, err)
		}
		content = append(content, stored)
	}
	return content, nil
}

// ported is a value as the outputs of a node: an object with all of them, or the only one.
func ported(node *plan.Node, v value.Value, from string) (value.Value, error) {
	all := value.Value{Kind: value.Object}
	for _, o := range node.Ports.Out {
		one, ok := v.Get(o.Name)
		if !ok && len(node.Ports.Out) > 1 {
			return all, usage.Errorf("%s has no %q; use an object with all outputs of the node", from, o.Name)
		}
		if !ok {
			one = v
		}
		one, err := value.Cast(o.Type, one)
		if err != nil {
			return all, usage.Errorf("%s: the output %q: %v", from, o.Name, err)
		}
		all.Members = append(all.Members, value.Member{Key: o.Name, Value: one})
	}
	return all, nil
}

func passed(flow *plan.Flow, p *runs.Record, left map[string]value.Value, from string) error {
	v, ok := left[contract.ValueKey]
	if !ok || len(p.Taken) != 1 {
		return nil
	}
	k := slices.IndexFunc(flow.Edges, func(e plan.Edge) bool { return e.ID == p.Taken[0] })
	if k < 0 || flow.Edges[k].Pass == nil {
		return nil
	}
	v, err := value.Selected(flow.Edges[k].Pass.Rules, flow.Edges[k].Pass.Path, v)
	if err != nil {
		return usage.Errorf("%s: the edge to %s: %v", from, flow.Edges[k].To, err)
	}
	left[contract.ValueKey] = v
	return nil
}

// leave writes a state key as an execution that is taken over would have, and gives its content.
func leave(p *runs.Record, key string, v value.Value) (json.RawMessage, error) {
	raw := v.JSON()
	stored, err := (&contract.Message{Role: contract.RoleTool, Text: string(raw)}).Encode()
	if err != nil {
		return nil, err
	}
	e := contract.StateEntry{Key: key, SHA: contract.SHA(stored), Size: len(raw)}
	if k := slices.IndexFunc(p.Writes, func(w contract.StateEntry) bool { return w.Key == key }); k >= 0 {
		p.Writes[k] = e
	} else {
		p.Writes = append(p.Writes, e)
	}
	return stored, nil
}
