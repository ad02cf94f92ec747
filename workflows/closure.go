package workflows

import "weft/workflows/plan"

// appendAgent adds an agent and those that it can call.
func appendAgent(list []plan.Flow, f *plan.Flow, id string) []plan.Flow {
	for i := range list {
		if list[i].ID == id {
			return list
		}
	}
	c := closure(f, id)
	if c == nil {
		return list
	}
	more := c.Agents
	c.Agents, c.Connections = nil, nil
	list = append(list, *c)
	for i := range more {
		list = appendAgent(list, f, more[i].ID)
	}
	return list
}

// toolOf is a tool that a node or one of its agents may call.
type toolOf struct {
	tool  *plan.Tool
	of    string
	index int
}

// toolsOf are the tools that a node may call.
func toolsOf(n *plan.Node) []toolOf {
	if n.Tool != nil {
		return []toolOf{{tool: n.Tool, of: n.ID}}
	}
	var out []toolOf
	for _, s := range n.Speakers() {
		for i := range s.Agent.Tools {
			out = append(out, toolOf{tool: &s.Agent.Tools[i], of: s.ID, index: i})
		}
	}
	return out
}

// startClosure is a flow of those beside f, or f's own again, with all that it can start and all
// that its hooks run; nil where there is none.
func startClosure(f *plan.Flow, id string) *plan.Flow {
	found := f.SubFlow(id)
	if found == nil {
		return nil
	}
	out := *found
	out.Agents = nil
	reached := map[string]bool{id: true}
	for todo := []*plan.Flow{found}; len(todo) > 0; todo = todo[1:] {
		for _, next := range started(todo[0]) {
			sub := f.SubFlow(next)
			if sub == nil || reached[next] {
				continue
			}
			reached[next] = true
			lone := *sub
			lone.Agents = nil
			out.Agents = append(out.Agents, lone)
			todo = append(todo, sub)
		}
	}
	return &out
}

// started are the flows that a flow's agents can start and that its hooks run, in order.
func started(f *plan.Flow) []string {
	var out []string
	for i := range f.Nodes {
		if a := f.Nodes[i].Agent; a != nil {
			for _, s := range a.Starts {
				out = append(out, s.Agent)
			}
		}
	}
	if f.Hooks == nil {
		return out
	}
	for _, h := range []*plan.Hook{f.Hooks.Before, f.Hooks.After} {
		if h != nil {
			out = append(out, h.Flow)
		}
	}
	return out
}

// closure is the flow with an id among those that f can call, with all that it can call
// itself and no more; nil if there is none.
func closure(f *plan.Flow, id string) *plan.Flow {
	found := f.SubFlow(id)
	if found == nil {
		return nil
	}
	out := *found
	out.Connections, out.Agents = f.Connections, nil
	reached := map[string]bool{id: true}
	todo := []*plan.Flow{found}
	for len(todo) > 0 {
		next := todo[0]
		todo = todo[1:]
		for _, a := range called(f, next.Nodes) {
			if sub := f.SubFlow(a); sub != nil && !reached[a] {
				reached[a] = true
				lone := *sub
				lone.Connections, lone.Agents = nil, nil
				out.Agents = append(out.Agents, lone)
				todo = append(todo, sub)
			}
		}
	}
	return &out
}

// called lists the agents that nodes can call, in order.
func called(f *plan.Flow, nodes []plan.Node) []string {
	agents := map[string]string{}
	for _, c := range f.Connections {
		if c.Kind == plan.ConnectionAgent {
			agents[c.ID] = c.Agent
		}
	}
	var out []string
	for i := range nodes {
		if nodes[i].Call != nil {
			out = append(out, nodes[i].Call.Flows...)
		}
		for _, s := range nodes[i].Speakers() {
			if s.Agent.Ask != nil {
				for _, k := range s.Agent.Ask.To {
					if k.Flow != "" {
						out = append(out, k.Flow)
					}
				}
			}
		}
		for _, t := range toolsOf(&nodes[i]) {
			if a := agents[t.tool.Connection]; a != "" {
				out = append(out, a)
			}
		}
	}
	return out
}
