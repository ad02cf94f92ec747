package plan

import (
	"encoding/json"
	"slices"
)

// Member is an agent beside a node's own, which the node's agents can turn to. What it says stays
// in the node: members are not nodes, and no edge leads to them.
//
// Sources: Agent Spec's ManagerWorkers and Swarm.
type Member struct {
	// ID names the member in scripts, transcripts and failures; it is that of no node.
	ID string `json:"id"`
	// Agent is how it works. What settles a node's conversation has no effect: Conversation,
	// Opening, Members.
	Agent Agent `json:"agent"`
	// Out are the values that the arguments of its finish tool must give, where it has one.
	Out []Out `json:"out,omitempty"`
}

// Contacts are members that an agent can turn to by a tool with the arguments "recipient" and, to
// ask, "message".
type Contacts struct {
	// Name, Description and Schema are the tool's, as the model sees it.
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	To          []Contact       `json:"to"`
}

// Contact is a member under the name by which an agent knows it.
type Contact struct {
	Name string `json:"name"`
	// Member is its id; empty: the node's own agent.
	Member string `json:"member,omitempty"`
	// Thread is the conversation in which the member is asked; it goes on with every question.
	// One at a time is asked in it. Empty: the conversation is handed over.
	Thread string `json:"thread,omitempty"`
	// Flow, if set, is the id of a flow in [Flow.Agents] that answers in the place of a member: a
	// run of its own for each question, which it begins with.
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

// TeamAgents are a node's agents, its own first; none for a node of another kind.
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

// members checks those that a node's agents turn to.
func (c *checker) members(n *Node) {
	if n.Agent == nil {
		return
	}
	ids := map[string]bool{}
	for i := range n.Agent.Members {
		m := &n.Agent.Members[i]
		if m.ID == "" || ids[m.ID] || c.f.Node(m.ID) != nil {
			c.add("node %q has the member %q twice, or a node has its name", n.ID, m.ID)
		}
		ids[m.ID] = true
		if len(m.Agent.Members) > 0 {
			c.add("member %q of node %q has members itself", m.ID, n.ID)
		}
		// It is checked as the node that it could be.
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
		if known := ids[t.Member] || !asked && t.Member == ""; !known || t.Name == "" || asked != (t.Thread != "") {
			c.add("agent %q refers to %q, which is not a member to %s", s.ID, t.Member, map[bool]string{true: "ask", false: "hand over to"}[asked])
		}
	}
}

// askedFlow checks a flow that an agent asks: one that there is, and nothing else besides.
func (c *checker) askedFlow(s TeamAgent, t *Contact, asked bool) {
	there := c.whole.SubFlow(t.Flow) != nil || c.f.SubFlow(t.Flow) != nil
	if !asked || !there || t.Name == "" || t.Member != "" || t.Thread != "" {
		c.add("agent %q refers to the unknown flow %q", s.ID, t.Flow)
	}
}

// ConnectionA2A is an agent that runs elsewhere and speaks the Agent2Agent protocol. It has no
// tools: see [Remote].
const ConnectionA2A = "a2a"

// Remote is an agent that runs elsewhere. It is told what was said to the node since it spoke
// last, in place of a model, and keeps the conversation itself.
//
// Sources: Agent Spec's A2AAgent.
type Remote struct {
	// Connection is one of the flow's, of kind a2a.
	Connection string `json:"connection"`
	// PollMillis is the pause between two looks at what the agent does; 0 is the protocol's.
	PollMillis int `json:"poll_millis,omitempty"`
}

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
