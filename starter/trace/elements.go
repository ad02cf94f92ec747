package trace

import (
	"encoding/json"
	"strconv"
	"time"

	"weft/starter/runtree"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// elements adds the flows of a map's elements that made no call, of which history has nothing, and says what each of them took
// and gave.
func (r *reader) elements(w *runtree.Workflow, s *Span) {
	n := w.Flow.Node(s.of().Node)
	if n == nil || n.Call == nil || !n.Call.Map || !s.ended || s.isMember() {
		return
	}
	flow := w.Flow.Closure(n.Call.Flows[0])
	for i, params := range divided(n.Call, s.inputs) {
		place := s.ID + ":" + strconv.Itoa(i+1) + " › "
		if r.byID[flowID(place)] == nil {
			r.flow(place, time.Unix(0, s.StartTime), nil)
			r.byID[flowID(place)].inside = true
			r.tree.Workflows = append(r.tree.Workflows, &runtree.Workflow{Place: place, Flow: flow})
		}
		of := r.byID[flowID(place)]
		if of.inside {
			of.inputs = inputsOf(flow, params)
		}
	}
}

// divided are what the flows of a map's elements are given, where the map's lists are known.
func divided(c *plan.Call, in Object) []Object {
	rounds := 1
	for _, name := range c.Over {
		rounds = len(itemsOf(in[name]))
	}
	var out []Object
	for i := range rounds {
		params := Object{}
		for name, v := range in {
			params[name] = v
		}
		for _, name := range c.Over {
			if all := itemsOf(in[name]); i < len(all) {
				params[name] = json.RawMessage(all[i].JSON())
				for _, u := range c.Unpack {
					part := all[i]
					for _, key := range u.Path {
						part, _ = part.Get(key)
					}
					params[u.Name] = json.RawMessage(part.JSON())
				}
			}
		}
		out = append(out, params)
	}
	return out
}

// itemsOf are the elements of a list; those of an object are its members, as maps of them have them.
func itemsOf(list any) []value.Value {
	raw, _ := list.(json.RawMessage)
	v, err := value.Parse(raw)
	if err != nil {
		return nil
	}
	for _, m := range v.Members {
		v.Items = append(v.Items, value.Value{Kind: value.Object, Members: []value.Member{{Key: "_key", Value: value.Of(m.Key)}, {Key: "_value", Value: m.Value}}})
	}
	return v.Items
}

// inputsOf are the values that a flow takes of those it is given, and the defaults of others.
func inputsOf(f *plan.Flow, params Object) Object {
	out := Object{}
	for _, e := range edges(f, func(e *plan.Edge) bool { return e.From == plan.Start }) {
		n := f.Node(e.To)
		if n == nil || n.Ports == nil {
			continue
		}
		for _, in := range n.Ports.In {
			if v, ok := params[in.Name]; ok {
				out[in.Name] = v
			} else if in.Default != nil && !isInternal(in.Name) {
				out[in.Name] = in.Default
			}
		}
	}
	return out
}

// prefixed are values under names that begin with a prefix.
func prefixed(prefix string, values Object) Object {
	out := Object{}
	for name, v := range values {
		out[prefix+name] = v
	}
	return out
}
