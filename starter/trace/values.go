package trace

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/starter/runtree"
	"weft/workflows/plan"
	"weft/workflows/plan/result"
	"weft/workflows/plan/value"
)

// setInputs sets the inputs of a node by name, if no worker has returned them.
func (r *reader) setInputs(f *plan.Flow, s *Span, n *plan.Node) {
	if n.Ports == nil || len(s.inputs) > 0 {
		return
	}
	s.inputs = Object{}
	for _, in := range n.Ports.In {
		if v := r.value(f, s.place, &in, s.step); v != nil && !isInternal(in.Name) {
			s.inputs[in.Name] = v
		}
	}
}

func isInternal(port string) bool { return strings.HasPrefix(port, ".") }

// value returns the value of an input of a node at a step, nil if history does not have it.
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
			if o >= 0 && s.execution().Node == n.ID && !s.isMember() && s.step < step && (last == nil || s.step > last.step) {
				last, from, name = s, n, n.Ports.Out[o].Name
			}
		}
	}
	if last == nil {
		return in.Default
	}
	return r.outputValue(f, last, from, name)
}

// outputValue returns the value of an output of a node, nil if history does not have it.
func (r *reader) outputValue(f *plan.Flow, s *Span, n *plan.Node, name string) json.RawMessage {
	for _, known := range []Object{s.outputs, nodeOutputs(s, n)} {
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

// branchOf returns the branch that a node selected by a value, "" if the value is unknown.
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

// elements adds the flows of a map's elements that made no calls, which have no events in history, and sets the inputs and
// outputs of all elements.
func (r *reader) elements(w *runtree.Workflow, s *Span, n *plan.Node) {
	if n.Call == nil || !n.Call.Map || !s.ended {
		return
	}
	flow := w.Flow.Closure(n.Call.Flows[0])
	for i, params := range divideInputs(n.Call, s.inputs) {
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

func divideInputs(c *plan.Call, in Object) []Object {
	rounds := 1
	for _, name := range c.Over {
		rounds = len(itemsOf(in[name]))
	}
	var out []Object
	for i := range rounds {
		params := maps.Clone(in)
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

// itemsOf returns the elements of a list, or the members of an object as maps over objects have them.
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

// inputsOf returns the declared inputs of a flow from params, with defaults for missing ones.
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

func prefixed(prefix string, values Object) Object {
	out := Object{}
	for name, v := range values {
		out[prefix+name] = v
	}
	return out
}

// toolTypes are the types of tools by the kind of their connection; functions of workers have no connection in the plan.
var toolTypes = map[string]string{plan.ConnectionMCP: "MCPTool", plan.ConnectionHTTP: "RemoteTool", plan.ConnectionClient: "ClientTool"}

func (r *reader) nodeOf(place, exec string) (*plan.Flow, *plan.Node) {
	f := r.plan(place)
	if f == nil {
		return nil, nil
	}
	x, _ := executionOf(exec)
	return f, f.Node(x.Node)
}

// boundTool returns the tool of a node by its name and the name for its caller, nil if the plan has none.
func (r *reader) boundTool(place, exec, name, as string) (*plan.Flow, *plan.Tool) {
	f, n := r.nodeOf(place, exec)
	if n == nil {
		return f, nil
	}
	for _, b := range n.BoundTools() {
		if b.Tool.Name == name && b.Tool.As == as {
			return f, b.Tool
		}
	}
	return f, nil
}

// tool returns the component of a tool that a node of a flow calls, and its declared outputs.
func (r *reader) tool(place, exec, connection, name, as string) (Object, []plan.Out) {
	f, t := r.boundTool(place, exec, name, as)
	out := component(toolType(f, connection), connection+"/"+name, name, "")
	if t == nil {
		return out, nil
	}
	out["description"] = t.Description
	return out, t.Outputs
}

func toolType(f *plan.Flow, connection string) string {
	return cmp.Or(toolTypes[connectionOf(f, connection).Kind], "ServerTool")
}

// connectionOf returns a connection of a flow, an empty one if it is unknown.
func connectionOf(f *plan.Flow, id string) *plan.Connection {
	if f != nil {
		for i := range f.Connections {
			if f.Connections[i].ID == id {
				return &f.Connections[i]
			}
		}
	}
	return &plan.Connection{}
}

// offered returns the component of a tool that is offered to a model; a tool that no node names is a server's.
func (r *reader) offered(place, exec string, t *contract.ProfileTool) Object {
	f, bound := r.boundTool(place, exec, t.Name, t.As)
	if bound == nil {
		return component("MCPTool", t.As, t.As, t.Description)
	}
	return component(toolType(f, bound.BoundTo()), t.As, t.As, t.Description)
}

// returned returns the values of a tool's outputs. The result of a tool without declared outputs is a single value.
func returned(outs []plan.Out, text string, whole any) Object {
	if len(outs) > 0 {
		if v, err := result.Named(outs, text); err == nil {
			return declared(outs, v)
		}
	}
	return Object{"output": whole}
}

// declared returns the values of outputs that the document declares.
func declared(outs []plan.Out, v value.Value) Object {
	out := Object{}
	for i := range outs {
		if of, ok := v.Get(outs[i].Name); ok && !isInternal(outs[i].Name) {
			out[outs[i].Name] = json.RawMessage(of.JSON())
		}
	}
	return out
}
