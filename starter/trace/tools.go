package trace

import (
	"cmp"
	"encoding/json"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/plan/result"
	"weft/workflows/plan/value"
)

// toolTypes are the types of tools by the kind of their connection; functions of workers have none in the plan.
var toolTypes = map[string]string{plan.ConnectionMCP: "MCPTool", plan.ConnectionHTTP: "RemoteTool", plan.ConnectionClient: "ClientTool"}

// nodeOf is the node of an execution in the plan, nil where it is not known.
func (r *reader) nodeOf(place, exec string) (*plan.Flow, *plan.Node) {
	f := r.plan(place)
	if f == nil {
		return nil, nil
	}
	x, _ := executionOf(exec)
	return f, f.Node(x.Node)
}

// boundTool is the tool of a node by its name and that which its caller knows, nil where the plan has none.
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

// isRequest reports whether a node makes its call itself, and has no tool.
func (r *reader) isRequest(place, exec string) bool {
	f, n := r.nodeOf(place, exec)
	return n != nil && n.Tool != nil && componentType(f, n) != "ToolNode"
}

// tool returns the component of a tool that a node of a flow calls, and the values that it is declared to return.
func (r *reader) tool(place, exec, connection, name, as string) (Object, []plan.Out) {
	f, t := r.boundTool(place, exec, name, as)
	out := component(toolType(f, connection), connection+"/"+name, name, "")
	if t == nil {
		return out, nil
	}
	out["description"] = t.Description
	return out, t.Outputs
}

// toolType is the type of the tools of a connection.
func toolType(f *plan.Flow, connection string) string {
	if f != nil {
		for i := range f.Connections {
			if c := &f.Connections[i]; c.ID == connection {
				return cmp.Or(toolTypes[c.Kind], "ServerTool")
			}
		}
	}
	return "ServerTool"
}

// offered returns the component of a tool that a model is offered; those that no node names are a server's.
func (r *reader) offered(place, exec string, t *contract.ProfileTool) Object {
	f, bound := r.boundTool(place, exec, t.Name, t.As)
	if bound == nil {
		return component("MCPTool", t.As, t.As, t.Description)
	}
	return component(toolType(f, bound.BoundTo()), t.As, t.As, t.Description)
}

// returned are the values of a tool's outputs. What a tool returned that declares none is one value.
func returned(outs []plan.Out, text string, whole any) Object {
	if len(outs) > 0 {
		if v, err := result.Named(outs, text); err == nil {
			return declared(outs, v)
		}
	}
	return Object{"output": whole}
}

// declared are the values of outputs that the document knows.
func declared(outs []plan.Out, v value.Value) Object {
	out := Object{}
	for i := range outs {
		if of, ok := v.Get(outs[i].Name); ok && !isInternal(outs[i].Name) {
			out[outs[i].Name] = json.RawMessage(of.JSON())
		}
	}
	return out
}
