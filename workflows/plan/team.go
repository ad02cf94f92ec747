package plan

import (
	"encoding/json"
	"slices"
)

// Member is a further agent within a node, which the node's agents can ask or hand over to. Its messages stay within the
// node: members are not nodes, and edges cannot lead to them.
//
// Sources: Agent Spec's ManagerWorkers and Swarm.
type Member struct {
	// ID identifies the member in scripts, transcripts and failures. It must differ from the ids of all nodes.
	ID string `json:"id"`
	// Agent configures the member. Conversation, Opening and Members have no effect.
	Agent Agent `json:"agent"`
	// Out are the values that the arguments of its finish tool must contain, if it has one.
	Out []Out `json:"out,omitempty"`
}

// Contacts are members that an agent can address by a tool with the arguments "recipient" and, for questions, "message".
type Contacts struct {
	// Name, Description and Schema are the tool's, as the model sees it.
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	To          []Contact       `json:"to"`
}

// Contact is a member with the name by which an agent addresses it.
type Contact struct {
	Name string `json:"name"`
	// Member is the member's id; if empty, the node's own agent.
	Member string `json:"member,omitempty"`
	// Thread is the conversation in which the member is asked, shared by all questions, one at a time. If empty, the
	// conversation is handed over.
	Thread string `json:"thread,omitempty"`
	// Flow, if set, is the id of a flow in [Flow.Agents] that answers instead of a member: each question starts a run
	// with the question as its input.
	Flow string `json:"flow,omitempty"`
}

// MemberNamed returns the member with an id, or nil.
func (a *Agent) MemberNamed(id string) *Member {
	for i := range a.Members {
		if a.Members[i].ID == id {
			return &a.Members[i]
		}
	}
	return nil
}

// TeamAgent is an agent of a node: the node's own, or a member.
type TeamAgent struct {
	ID    string
	Agent *Agent
}

// TeamAgents returns a node's agents, its own first; nil if the node is not of kind agent.
func (n *Node) TeamAgents() []TeamAgent {
	if n.Agent == nil {
		return nil
	}
	out := []TeamAgent{{ID: n.ID, Agent: n.Agent}}
	for i := range n.Agent.Members {
		out = append(out, TeamAgent{ID: n.Agent.Members[i].ID, Agent: &n.Agent.Members[i].Agent})
	}
	return out
}

// members checks a node's members and contacts.
func (c *checker) members(n *Node) {
	if n.Agent == nil {
		return
	}
	ids := map[string]bool{}
	for i := range n.Agent.Members {
		m := &n.Agent.Members[i]
		if m.ID == "" || ids[m.ID] || c.f.Node(m.ID) != nil {
			c.add("node %q: the id of member %q is empty or a duplicate", n.ID, m.ID)
		}
		ids[m.ID] = true
		if len(m.Agent.Members) > 0 {
			c.add("member %q of node %q must not have members", m.ID, n.ID)
		}
		c.agent(&Node{ID: m.ID, Kind: KindAgent, Agent: &m.Agent})
	}
	for _, s := range n.TeamAgents() {
		c.contacts(s, s.Agent.Ask, ids, true)
		c.contacts(s, s.Agent.Handoff, ids, false)
	}
}

func (c *checker) contacts(s TeamAgent, k *Contacts, ids map[string]bool, asked bool) {
	if k == nil {
		return
	}
	if k.Name == "" || !json.Valid(k.Schema) || len(k.To) == 0 {
		c.add("agent %q has a contact tool without a name, a schema or contacts", s.ID)
	}
	for _, t := range k.To {
		if t.Flow != "" {
			c.askedFlow(s, &t, asked)
			continue
		}
		// The node's own agent can take its conversation back.
		if valid := ids[t.Member] || !asked && t.Member == ""; !valid || t.Name == "" || asked != (t.Thread != "") {
			c.add("agent %q refers to %q, which is not a member to %s", s.ID, t.Member, map[bool]string{true: "ask", false: "hand over to"}[asked])
		}
	}
}

// askedFlow checks a contact that is a flow, which must exist and exclude the other fields.
func (c *checker) askedFlow(s TeamAgent, t *Contact, asked bool) {
	exists := c.root.SubFlow(t.Flow) != nil || c.f.SubFlow(t.Flow) != nil
	if !asked || !exists || t.Name == "" || t.Member != "" || t.Thread != "" {
		c.add("agent %q refers to the unknown flow %q", s.ID, t.Flow)
	}
}

// ConnectionA2A is a remote agent that speaks the Agent2Agent protocol. It has no tools; see [Remote].
const ConnectionA2A = "a2a"

// Remote is a remote agent that is called instead of a model. It is sent the node's messages since its last answer, and
// maintains the conversation itself.
//
// Sources: Agent Spec's A2AAgent.
type Remote struct {
	// Connection is the id of one of the flow's connections of kind a2a.
	Connection string `json:"connection"`
	// PollMillis is the interval for polling the agent's task; 0 means the protocol's default.
	PollMillis int `json:"poll_millis,omitempty"`
}

// UsesRunModel reports whether anything in the flow or its sub-agents uses the run's model: a node that does not specify
// one, a question on an edge, or a tool that condenses values.
func (f *Flow) UsesRunModel() bool {
	return f.Hooks != nil ||
		slices.ContainsFunc(f.Edges, func(e Edge) bool { return e.Question != "" }) ||
		slices.ContainsFunc(f.Nodes, func(n Node) bool { return n.Agent != nil && n.Agent.wantsModel() }) ||
		slices.ContainsFunc(f.Agents, func(sub Flow) bool { return sub.UsesRunModel() })
}

func (a *Agent) wantsModel() bool {
	if a.Model == "" || len(a.Builtins) > 0 {
		return true
	}
	return slices.ContainsFunc(a.Members, func(m Member) bool { return m.Agent.wantsModel() })
}
