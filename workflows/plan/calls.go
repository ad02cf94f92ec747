package plan

import "slices"

// Calls returns how many calls of models, tools and programs one execution of a node may make, without those of the edges
// behind it. It is false where the plan does not bound them, where the node runs other flows or agents, and where it waits
// for a person.
func (n *Node) Calls() (calls int, bounded bool) {
	switch n.Kind {
	case KindAgent:
		return n.Agent.calls()
	case KindCall, KindAsk:
		return 0, false
	case KindTool, KindProgram:
		return 1, true
	}
	return 0, true
}

func (a *Agent) calls() (calls int, bounded bool) {
	if len(a.Members) > 0 || a.Ask != nil || a.Handoff != nil || a.Chat != nil || a.Conversation != "" || len(a.Contexts())+len(a.Longs()) > 0 ||
		slices.ContainsFunc(a.Builtins, func(name string) bool { return slices.Contains(SessionTools, name) }) {
		return 0, false
	}
	calls = 1
	if a.Output != nil {
		calls += a.Output.Repairs
		if a.Output.IfLast != "" {
			calls++
		}
	}
	if a.Finish != nil {
		calls += a.Finish.Reminders
	}
	if len(a.Tools)+len(a.Builtins) > 0 || a.Finish != nil {
		calls += 2 * a.MaxCalls // the tool, and the model with its result
	}
	return calls, true
}
