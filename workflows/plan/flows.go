package plan

import "slices"

// Closure returns the flow with an id among f's sub-agents, with the flows that it can call, each once, and f's
// connections. It returns nil if there is no such flow.
func (f *Flow) Closure(id string) *Flow {
	found := f.SubFlow(id)
	if found == nil {
		return nil
	}
	out := *found
	out.Connections = f.Connections
	out.Agents = f.reachable(f.Calls(found.Nodes), func(sub *Flow) []string { return f.Calls(sub.Nodes) }, id)
	for i := range out.Agents {
		out.Agents[i].Connections = nil
	}
	return &out
}

// StartClosure returns the flow with an id among f and its sub-agents, with the flows that its agents can start and that
// its hooks run, each once. It returns nil if there is no such flow.
func (f *Flow) StartClosure(id string) *Flow {
	found := f.SubFlow(id)
	if found == nil {
		return nil
	}
	out := *found
	out.Agents = f.reachable(found.starts(), (*Flow).starts, id)
	return &out
}

// Callable returns the flows that nodes of f can call, directly or indirectly, each once.
func (f *Flow) Callable(nodes []Node) []Flow {
	out := f.reachable(f.Calls(nodes), func(sub *Flow) []string { return f.Calls(sub.Nodes) }, "")
	for i := range out {
		out[i].Connections = nil
	}
	return out
}

// reachable returns the flows reachable from ids, each once, without their own sub-flows, and without except.
func (f *Flow) reachable(ids []string, next func(*Flow) []string, except string) []Flow {
	var out []Flow
	seen := map[string]bool{except: true}
	for ; len(ids) > 0; ids = ids[1:] {
		sub := f.SubFlow(ids[0])
		if sub == nil || seen[ids[0]] {
			continue
		}
		seen[ids[0]] = true
		lone := *sub
		lone.Agents = nil
		out = append(out, lone)
		ids = append(ids, next(sub)...)
	}
	return out
}

// starts returns the ids of the flows that a flow's agents can start and that its hooks run, in order.
func (f *Flow) starts() []string {
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
	for _, h := range []*Hook{f.Hooks.Before, f.Hooks.After} {
		if h != nil {
			out = append(out, h.Flow)
		}
	}
	return out
}

// Calls returns the ids of the flows that nodes of f can call as sub-agents, in order.
func (f *Flow) Calls(nodes []Node) []string {
	agents := map[string]string{}
	for _, c := range f.Connections {
		if c.Kind == ConnectionAgent {
			agents[c.ID] = c.Agent
		}
	}
	var out []string
	for i := range nodes {
		n := &nodes[i]
		if n.Call != nil {
			out = append(out, n.Call.Flows...)
		}
		for _, s := range n.TeamAgents() {
			if s.Agent.Ask != nil {
				for _, k := range s.Agent.Ask.To {
					if k.Flow != "" {
						out = append(out, k.Flow)
					}
				}
			}
		}
		for _, t := range n.BoundTools() {
			if a := agents[t.Tool.Connection]; a != "" {
				out = append(out, a)
			}
		}
	}
	return out
}

// BoundTool is a tool that a node may call. Of is the id of the node or agent that has the tool at Index.
type BoundTool struct {
	Tool  *Tool
	Of    string
	Index int
}

// BoundTools returns the tools that a node and its agents may call.
func (n *Node) BoundTools() []BoundTool {
	if n.Tool != nil {
		return []BoundTool{{Tool: n.Tool, Of: n.ID}}
	}
	var out []BoundTool
	for _, s := range n.TeamAgents() {
		for i := range s.Agent.Tools {
			out = append(out, BoundTool{Tool: &s.Agent.Tools[i], Of: s.ID, Index: i})
		}
	}
	return out
}

// CallsTools reports whether a node of the flow or of its sub-agents may have a tool that is bound to a connection.
func (f *Flow) CallsTools() bool {
	calls := func(n Node) bool {
		return len(n.BoundTools()) > 0 || slices.ContainsFunc(n.TeamAgents(), func(s TeamAgent) bool { return s.Agent.Toolboxes != nil })
	}
	return slices.ContainsFunc(f.Nodes, calls) || slices.ContainsFunc(f.Agents, func(sub Flow) bool { return slices.ContainsFunc(sub.Nodes, calls) })
}

// BoundTo returns the id of the connection that a tool is bound to.
func (t *Tool) BoundTo() string {
	if t.Connection == "" {
		return "tool:" + t.Name
	}
	return t.Connection
}

// Reachable returns everything that can be reached from start by following next, including start.
func Reachable[T comparable](start T, next func(T) []T) map[T]bool {
	reached, todo := map[T]bool{start: true}, []T{start}
	for ; len(todo) > 0; todo = todo[1:] {
		for _, to := range next(todo[0]) {
			if !reached[to] {
				reached[to] = true
				todo = append(todo, to)
			}
		}
	}
	return reached
}

// The tools by which an agent starts sessions of other agents and communicates with them. Their names are those of the
// blueprint dialect's framework.
const (
	SessionAgents  = "list_agent_blueprints"
	SessionList    = "list_agent_sessions"
	SessionStart   = "start_agent_session"
	SessionResume  = "resume_agent_session"
	SessionStatus  = "get_agent_session_status"
	SessionResult  = "get_agent_session_result"
	SessionDestroy = "delete_all_agent_sessions"
)

// SessionTools lists these tools, in the order in which a model sees them. They are listed in an agent's
// [Agent.Builtins].
var SessionTools = []string{SessionAgents, SessionList, SessionStart, SessionResume, SessionStatus, SessionResult, SessionDestroy}

// Startable is an agent that another may start.
type Startable struct {
	// Agent is the id of a flow in [Flow.Agents] of the root flow, or of the root flow itself.
	Agent string `json:"agent"`
	// Type is autonomous or procedural; Tags are the author's.
	Type string   `json:"type"`
	Tags []string `json:"tags,omitempty"`
	// Hidden omits it from the list that the model gets; it can be started by name.
	Hidden bool `json:"hidden,omitempty"`
}

// StartsSessions reports whether an agent of the flow has [SessionTools].
func (f *Flow) StartsSessions() bool {
	return slices.ContainsFunc(f.Nodes, func(n Node) bool { return n.Agent != nil && slices.Contains(n.Agent.Builtins, SessionStart) })
}

// Converse reports whether any of the nodes takes part in its flow's conversation.
func Converse(nodes []Node) bool {
	return slices.ContainsFunc(nodes, func(n Node) bool { return n.Agent != nil && n.Agent.Conversation != "" })
}

// SingleAgent returns the flow's only node if that is an agent with text input, or nil.
func (f *Flow) SingleAgent() *Node {
	if len(f.Nodes) != 1 || f.Nodes[0].Agent == nil || f.Values != nil || f.Nodes[0].Agent.Finish != nil {
		return nil
	}
	return &f.Nodes[0]
}

func (c *checker) starts(n *Node) {
	for _, s := range n.Agent.Starts {
		if c.root.SubFlow(s.Agent) == nil {
			c.add("node %q starts the unknown agent %q", n.ID, s.Agent)
		}
	}
	if len(n.Agent.Starts) > 0 && c.f.SingleAgent() == nil {
		c.add("node %q starts sessions, but is not the only node of its flow", n.ID)
	}
}

// Calls returns how many calls of models, tools and programs one execution of a node may make, without those for its
// outgoing edges. It reports false if the plan does not limit them, or if the node runs other flows or agents or waits
// for a user.
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
	if len(a.Members) > 0 || a.Ask != nil || a.Handoff != nil || a.Chat != nil || a.Conversation != "" || len(a.Contexts())+len(a.LongMessagePolicies()) > 0 ||
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
		calls += 2 * a.MaxCalls // each tool call is followed by a model call
	}
	return calls, true
}
