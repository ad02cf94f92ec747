package plan

import "slices"

// The tools by which an agent starts sessions of other agents and talks with them. The names
// are those of the blueprint dialect's framework.
const (
	SessionAgents  = "list_agent_blueprints"
	SessionList    = "list_agent_sessions"
	SessionStart   = "start_agent_session"
	SessionResume  = "resume_agent_session"
	SessionStatus  = "get_agent_session_status"
	SessionResult  = "get_agent_session_result"
	SessionDestroy = "delete_all_agent_sessions"
)

// SessionTools are all of them, in the order in which a model sees them. They stand among an
// agent's [Agent.Builtins].
var SessionTools = []string{SessionAgents, SessionList, SessionStart, SessionResume, SessionStatus, SessionResult, SessionDestroy}

// Startable is an agent that another may start.
type Startable struct {
	// Agent is the id of a flow in [Flow.Agents] of the whole flow, or of that itself.
	Agent string `json:"agent"`
	// Type is autonomous or procedural; Tags are the author's.
	Type string   `json:"type"`
	Tags []string `json:"tags,omitempty"`
	// Hidden leaves it out of the list that the model gets; it can be started by its name.
	Hidden bool `json:"hidden,omitempty"`
}

// StartsSessions reports whether an agent of the flow has [SessionTools].
func (f *Flow) StartsSessions() bool {
	return slices.ContainsFunc(f.Nodes, func(n Node) bool { return n.Agent != nil && slices.Contains(n.Agent.Builtins, SessionStart) })
}

// LoneAgent is the flow's only node where that is an agent that takes text, or nil.
func (f *Flow) LoneAgent() *Node {
	if len(f.Nodes) != 1 || f.Nodes[0].Agent == nil || f.Values != nil || f.Nodes[0].Agent.Finish != nil {
		return nil
	}
	return &f.Nodes[0]
}

func (c *checker) starts(n *Node) {
	for _, s := range n.Agent.Starts {
		if c.whole.SubFlow(s.Agent) == nil {
			c.add("node %q starts the unknown agent %q", n.ID, s.Agent)
		}
	}
	if len(n.Agent.Starts) > 0 && c.f.LoneAgent() == nil {
		c.add("node %q starts sessions, but is not the only node of its flow", n.ID)
	}
}
