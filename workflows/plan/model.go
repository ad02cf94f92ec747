package plan

// WantsModel reports whether something in the flow, or in flows below it, asks the run's model: a
// node that names none, a question on an edge, or a tool that has a model shorten values.
func (f *Flow) WantsModel() bool {
	for i := range f.Edges {
		if f.Edges[i].Question != "" {
			return true
		}
	}
	for i := range f.Nodes {
		if a := f.Nodes[i].Agent; a != nil && a.wantsModel() {
			return true
		}
	}
	for i := range f.Agents {
		if f.Agents[i].WantsModel() {
			return true
		}
	}
	return f.Hooks != nil
}

func (a *Agent) wantsModel() bool {
	if a.Model == "" || len(a.Builtins) > 0 {
		return true
	}
	for i := range a.Members {
		if a.Members[i].Agent.wantsModel() {
			return true
		}
	}
	return false
}
