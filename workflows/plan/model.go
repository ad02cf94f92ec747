package plan

import "slices"

// WantsModel reports whether something in the flow, or in flows below it, asks the run's model: a
// node that names none, a question on an edge, or a tool that has a model shorten values.
func (f *Flow) WantsModel() bool {
	return f.Hooks != nil ||
		slices.ContainsFunc(f.Edges, func(e Edge) bool { return e.Question != "" }) ||
		slices.ContainsFunc(f.Nodes, func(n Node) bool { return n.Agent != nil && n.Agent.wantsModel() }) ||
		slices.ContainsFunc(f.Agents, func(sub Flow) bool { return sub.WantsModel() })
}

func (a *Agent) wantsModel() bool {
	if a.Model == "" || len(a.Builtins) > 0 {
		return true
	}
	return slices.ContainsFunc(a.Members, func(m Member) bool { return m.Agent.wantsModel() })
}
