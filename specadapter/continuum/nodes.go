package continuum

import (
	"fmt"
	"slices"

	"weft/specadapter/source"
	"weft/workflows/plan"
)

func (g *graph) node(i int, v *source.Value) {
	o := g.adaptation.Fields(v, fmt.Sprintf("node %d", i+1), g.object.Path+"nodes[].").Of(&nodeShape)
	if !o.OK {
		return
	}
	id, usable := g.nodeID(o)
	if id != "" {
		o.Name = "node " + source.Quote(id)
	}
	n := plan.Node{ID: id, Kind: plan.KindAgent, Name: o.Required("name"), Exit: o.Flag("is_exit_node"), Deferred: o.Flag("defer")}
	agent := &plan.Agent{Prompt: o.Required("prompt"), MaxCalls: g.maxCalls(o), MaxErrors: defaultMaxErrors}
	tools := g.tools(o)
	agent.Tools, agent.Builtins = named(tools, g.conns), builtins(tools)
	if n.Exit {
		g.lintExit(o, len(tools))
	}
	n.Agent = agent
	if !usable {
		return
	}
	g.index[id] = len(g.flow.Nodes)
	g.flow.Nodes = append(g.flow.Nodes, n)
	g.places = append(g.places, v.Pos)
	g.place(plan.NodePath(id), v.Pos)
	for i := range tools {
		g.place(plan.ToolPath(id, i), tools[i].at)
	}
}

// nodeID reads a node's id. Usable reports whether edges can refer to it.
func (g *graph) nodeID(o *source.Fields) (id string, usable bool) {
	v, bad := o.Want("id", source.String), !o.Is("id", source.String)
	if v == nil {
		if !bad {
			g.Errorf(o.Pos("id"), "V12", `set "id"`, "%s has no id", o.Name)
		}
		return "", false
	}
	switch id = v.Text; {
	case id == "":
		g.Errorf(v.Pos, "V1", "add an id", "the id of %s is empty", o.Name)
	case id == plan.Start || id == plan.End:
		g.Errorf(v.Pos, "V1", "use another id; edges use START and END for the flow's entry and exit", "%s has the id %s", o.Name, id)
	default:
		if first, double := g.index[id]; double {
			g.Errorf(v.Pos, "V1", "use a unique id", "duplicate node id %s, first used at line %d", source.Quote(id), g.places[first].Line)
			return id, false
		}
		g.lintUUID(o)
		return id, true
	}
	return id, false
}

func (g *graph) maxCalls(o *source.Fields) int {
	v := o.Get("max_iterations")
	if v == nil {
		return defaultMaxCalls
	}
	n, ok := v.Int()
	if !ok {
		g.Errorf(v.Pos, "V7", "use a whole number, or remove it for the default of 10", "max_iterations of %s is %s, want a whole number from 1 to 2147483647",
			o.Name, v.Describe())
		return defaultMaxCalls
	}
	return n
}

// outputs gives the response format to the nodes that give the result: the exit nodes or, where there are none, those at
// which a branch ends. A node with only conditional edges, none of them to END, is asked for it once none of them holds.
func (g *graph) outputs() {
	exits := slices.ContainsFunc(g.flow.Nodes, func(n plan.Node) bool { return n.Exit })
	ends, goesOn, always := make([]bool, g.end()), make([]bool, g.end()), make([]bool, g.end())
	for _, l := range g.links {
		ends[l.from] = ends[l.from] || l.to == g.end()
		goesOn[l.from] = goesOn[l.from] || l.to != g.end()
		always[l.from] = always[l.from] || !l.conditional
	}
	for i := range g.flow.Nodes {
		n := &g.flow.Nodes[i]
		n.Agent.System = fmt.Sprintf("You are the step %q of the flow %q. What earlier steps of this run gave is in the conversation, under their names. "+
			"Steps share values through the state: set_state writes a value, get_state reads values by their keys, list_state_keys lists the keys.\n\n%s",
			n.Name, g.flow.Name, n.Agent.Prompt)
		switch {
		case !g.format.json:
		case n.Exit || !exits && (ends[i] || !goesOn[i]):
			n.Agent.System = g.format.ask(n.Agent.System)
			n.Agent.Output = &plan.Output{Schema: g.format.schema, Repairs: 1}
		case !exits && !always[i]:
			n.Agent.Output = &plan.Output{Schema: g.format.schema, Repairs: 1,
				IfLast: g.format.ask("No step follows this one, so your answer is the result of the flow. Give it again in the format of the result.")}
		}
	}
}

// lintExit judges an exit node's tools by the response format.
func (g *graph) lintExit(o *source.Fields, tools int) {
	if !g.format.json && tools > 0 {
		g.Infof(o.Value.Pos, CodeExitTools, "move the tools to an earlier node if this node should only summarize",
			"%s is an exit node with Markdown output and has tools", o.Name)
	}
	if g.format.json && len(g.format.schema) == 0 && tools == 0 {
		g.Warnf(o.Value.Pos, "L9", `set "output_schema", or bind a tool that produces the output`,
			"%s must answer in JSON but has neither a schema nor a tool", o.Name)
	}
}
