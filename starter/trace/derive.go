package trace

import (
	"encoding/json"
	"slices"
	"strings"

	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// takes says what a node was given, by the names of its inputs, where no worker has.
func (r *reader) takes(f *plan.Flow, s *Span) {
	n := f.Node(s.of().Node)
	if n == nil || n.Ports == nil || len(s.inputs) > 0 || s.isMember() {
		return
	}
	s.inputs = Object{}
	for _, in := range n.Ports.In {
		if v := r.value(f, s.place, &in, s.step); v != nil && !isInternal(in.Name) {
			s.inputs[in.Name] = v
		}
	}
}

// isInternal reports whether a port is no input or output in the document.
func isInternal(port string) bool { return strings.HasPrefix(port, ".") }

// value is that of an input of a node at a step, as far as history tells; nil otherwise.
func (r *reader) value(f *plan.Flow, place string, in *plan.In, step int) json.RawMessage {
	if name, own := strings.CutPrefix(in.Key, plan.InKey("")); own {
		if v, ok := r.byID[flowID(place)].inputs[name].(json.RawMessage); ok {
			return v
		}
		return in.Default
	}
	var last *Span
	var from *plan.Node
	var name string
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.Ports == nil {
			continue
		}
		o := slices.IndexFunc(n.Ports.Out, func(o plan.Out) bool { return slices.Contains(o.Keys, in.Key) })
		for _, s := range r.nodes[place] {
			if o >= 0 && s.of().Node == n.ID && !s.isMember() && s.step < step && (last == nil || s.step > last.step) {
				last, from, name = s, n, n.Ports.Out[o].Name
			}
		}
	}
	if last == nil {
		return in.Default
	}
	return r.left(f, last, from, name)
}

// left is the value of an output of a node, as far as history tells.
func (r *reader) left(f *plan.Flow, s *Span, n *plan.Node, name string) json.RawMessage {
	for _, known := range []Object{s.outputs, gave(s, n)} {
		if v, ok := known[name].(json.RawMessage); ok {
			return v
		}
	}
	if n.Kind == plan.KindPass && n.Pass.Text == nil && n.Pass.Match == nil && n.Pass.Store == nil {
		for _, in := range n.Ports.In {
			if in.Name == name {
				return r.value(f, s.place, &in, s.step)
			}
		}
	}
	return nil
}

// branchOf is the branch by which a node leaves that selects one by a value, "" where the value is not known.
func (r *reader) branchOf(f *plan.Flow, s *Span, n *plan.Node) string {
	in := &n.Ports.In[0]
	v, err := value.Parse(r.value(f, s.place, in, s.step))
	if err == nil {
		v, err = value.Cast(in.Type, v)
	}
	if err != nil {
		return ""
	}
	for _, c := range n.Branch.Cases {
		if c.Text == v.Spaced() {
			return c.Branch
		}
	}
	return n.Branch.Default
}
