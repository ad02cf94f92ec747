package agentspec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"weft/specadapter/agentspec/model"
	"weft/specadapter/source"
	"weft/workflows/plan"
)

// isTeam reports whether a component consists of several agents; an agent with sub-agents does too.
func isTeam(c *model.Component) bool {
	return c.Type.ActsAs("ManagerWorkers") || c.Type.ActsAs("Swarm") || c.Type.ActsAs("Agent") && len(c.Components("agents")) > 0
}

// teamBuilder compiles a team to one node: the first agent is the node's own, all others are members.
// An agent is a member once per role: in the node's conversation, and when asked in a separate one.
type teamBuilder struct {
	*builder
	node *plan.Node
	root bool
	// ids are the ids of members.
	ids map[string]bool
	// components are the agents and flows of the team; groups are the prefixes of threads, by nested team.
	components []*model.Component
	groups     map[*model.Component]string
	// asked are the ids of members that are asked, by team and agent.
	asked map[[2]*model.Component]string
	// pending are functions that compile further members.
	pending []func()
}

// role is the role of an agent in a team.
type role struct {
	// id is the member's id, or the node's id for the node's own agent.
	id string
	// human reports whether the agent has the node's conversation, which users can take part in; outputs end the conversation.
	human   bool
	outputs []*model.Property
	// ask and handoff are the agents that the agent can ask and hand the conversation over to.
	ask, handoff []recipient
}

type recipient struct {
	plan.Contact
	about string
}

// agentNode configures an AgentNode: an Agent, a team, or a Flow, which has a separate conversation.
func (b *builder) agentNode(c *model.Component, n *plan.Node) {
	inner := c.Component("agent")
	if inner.Type.Acts() == "Flow" {
		n.Kind, n.Call = plan.KindCall, &plan.Call{AtOnce: 1, Apart: true, Flows: []string{b.subflowID(inner)}}
		return
	}
	n.Kind, n.Component = plan.KindAgent, componentOf(inner)
	if !isTeam(inner) {
		n.Agent = b.agent(inner, n.ID, false)
		return
	}
	for _, p := range b.team(inner, n, c.Outputs, false) {
		b.Errorf(c.At, "input-unfed", "declare the input with "+inner.String()+", or give it a default",
			"an agent in %s requires the input %s, which has no value", inner, source.Quote(p.Title))
	}
}

// team compiles the agents of a node and returns their inputs that the node lacks.
func (b *builder) team(c *model.Component, n *plan.Node, outputs []*model.Property, root bool) []*model.Property {
	t := &teamBuilder{builder: b, node: n, root: root, ids: map[string]bool{n.ID: true}, groups: map[*model.Component]string{c: ""}, asked: map[[2]*model.Component]string{}}
	n.Agent = &plan.Agent{} // collects members until the node's own agent is compiled
	t.join(c, role{id: n.ID, human: true, outputs: outputs})
	for len(t.pending) > 0 && !b.full {
		next := t.pending[0]
		t.pending = t.pending[1:]
		next()
	}
	n.Agent.Conversation, n.Agent.Opening = plan.ConversationFlow, opening(c.Inputs)
	var more []*model.Property
	have := map[string]bool{}
	for _, in := range n.Ports.In {
		have[in.Name] = true
	}
	for _, m := range t.components {
		for _, p := range m.Inputs {
			if have[p.Title] {
				continue
			}
			have[p.Title] = true
			in := input(p, "")
			if root {
				in.Key = plan.InKey(p.Title)
			}
			if root || p.Default == nil {
				more = append(more, p)
			}
			n.Ports.In = append(n.Ports.In, in)
		}
	}
	return more
}

// join adds a component to a conversation: an agent, or the agents of a nested team.
func (t *teamBuilder) join(c *model.Component, p role) {
	switch c.Type.Acts() {
	case "Agent", "SpecializedAgent":
		for _, a := range c.Components("agents") {
			p.ask = append(p.ask, t.recipient(c, c, a, func(id string) role { return role{id: id, outputs: a.Outputs} }))
		}
		t.member(c, p)
	case "A2AAgent", "OciAgent", "OpenAiAgent":
		t.remoteMember(c, p)
	case "ManagerWorkers":
		manager := c.Component("group_manager")
		for _, w := range c.Components("workers") {
			p.ask = append(p.ask, t.recipient(c, manager, w, func(id string) role { return role{id: id, outputs: w.Outputs} }))
		}
		t.join(manager, p)
	case "Swarm":
		t.swarm(c, p)
	case "Flow":
		t.Errorf(c.At, "field-value", "start with an Agent that calls the flow", "%s cannot hold a conversation, so it cannot be the first agent of a team", c)
	}
}

func handoffModes(c *model.Component) (asks, hands bool) {
	mode := c.Text("handoff")
	if f := c.Field("handoff"); f != nil && f.JSON.Kind == source.Bool {
		mode = map[bool]string{true: "optional", false: "never"}[f.JSON.True]
	}
	return mode != "always", mode != "never"
}

// swarm adds the agents of a Swarm that can take part in a conversation: the first agent and, with
// handoffs, all agents reachable from it. All of them can also contact the agents that the enclosing
// team allows.
func (t *teamBuilder) swarm(c *model.Component, p role) {
	asks, hands := handoffModes(c)
	first := c.Component("first_agent")
	ids := map[*model.Component]string{first: p.id}
	todo := []*model.Component{first}
	for len(todo) > 0 {
		m := todo[0]
		todo = todo[1:]
		own := role{id: ids[m], human: p.human, outputs: p.outputs, ask: slices.Clone(p.ask), handoff: slices.Clone(p.handoff)}
		for _, to := range neighbours(c, m) {
			if asks {
				own.ask = append(own.ask, t.swarmContact(c, m, to))
			}
			if !hands || to.Type.Acts() == "Flow" {
				if !asks {
					t.Errorf(to.At, "field-value", `set "handoff" to "optional" or "never", so that other agents can call it`, "%s cannot take over a conversation, and the agents of %s only hand over", to, c)
				}
				continue
			}
			if ids[to] == "" {
				ids[to] = t.name(to, "")
				todo = append(todo, to)
			}
			own.handoff = append(own.handoff, t.handoffTo(to, ids[to]))
		}
		t.join(m, own)
	}
}

// swarmContact returns an agent of a Swarm as a contact of another. The agent can ask its own neighbours.
func (t *teamBuilder) swarmContact(c, from, to *model.Component) recipient {
	if to.Type.Acts() == "Flow" && len(neighbours(c, to)) > 0 {
		t.Warnf(to.At, CodeNoEffect, "use an Agent to contact others", "%s has no model and cannot contact agents; relationships from it in %s have no effect", to, c)
	}
	return t.recipient(c, from, to, func(id string) role {
		p := role{id: id, outputs: to.Outputs}
		for _, next := range neighbours(c, to) {
			p.ask = append(p.ask, t.swarmContact(c, to, next))
		}
		return p
	})
}

// neighbours returns the agents that an agent of a Swarm may contact, without duplicates.
func neighbours(c, from *model.Component) []*model.Component {
	pairs := c.Components("relationships")
	var out []*model.Component
	for i := 1; i < len(pairs); i += 2 {
		if pairs[i-1] == from && pairs[i] != from && !slices.Contains(out, pairs[i]) {
			out = append(out, pairs[i])
		}
	}
	return out
}

func (t *teamBuilder) handoffTo(to *model.Component, id string) recipient {
	if id == t.node.ID {
		id = ""
	}
	return recipient{Contact: plan.Contact{Name: cmp.Or(to.Name, to.ID), Member: id}, about: to.Description}
}

// recipient returns an agent as a contact of another. It is compiled once per team.
func (t *teamBuilder) recipient(team, from, to *model.Component, make func(id string) role) recipient {
	if to.Type.Acts() == "Flow" {
		return t.flow(to)
	}
	key := [2]*model.Component{team, to}
	id := t.asked[key]
	if id == "" {
		suffix := ""
		if team.Type.Acts() == "Swarm" {
			suffix = "/asked"
		}
		id = t.name(to, suffix)
		t.asked[key] = id
		t.pending = append(t.pending, func() { t.join(to, make(id)) })
	}
	name := cmp.Or(to.Name, to.ID)
	return recipient{Contact: plan.Contact{Name: name, Member: id, Thread: t.group(team) + cmp.Or(from.Name, from.ID) + ">" + name}, about: to.Description}
}

// flow returns a Flow as a contact of an agent. Each question starts a new run of it.
func (t *teamBuilder) flow(c *model.Component) recipient {
	id := t.subflowID(c)
	t.rejectStores(c, id)
	if !slices.Contains(t.components, c) {
		t.components = append(t.components, c, &model.Component{Inputs: t.flowRunInputs[id]})
	}
	return recipient{Contact: plan.Contact{Name: cmp.Or(c.Name, c.ID), Flow: id}, about: c.Description}
}

func (t *teamBuilder) group(c *model.Component) string {
	if _, ok := t.groups[c]; !ok {
		t.groups[c] = fmt.Sprintf("%s~%d/", cmp.Or(c.Name, c.ID), len(t.groups)+1)
	}
	return t.groups[c]
}

func (t *teamBuilder) name(c *model.Component, suffix string) string {
	return unique(t.ids, unique(t.taken, t.node.ID+"/"+model.SafeID(cmp.Or(c.Name, c.ID, c.Type.Name))+suffix))
}

func (t *teamBuilder) member(c *model.Component, p role) {
	if !t.countNode(c.At) {
		return
	}
	t.components = append(t.components, c)
	who := resolveAgent(c)
	a, taken := t.baseAgent(who, p.id)
	a.Ask = contactsOf(unique(taken, "send_message"), p.ask,
		"Ask another agent and get its answer. It does not see your conversations with others: include everything it needs to know.", true)
	a.Handoff = contactsOf(unique(taken, "handoff_conversation"), p.handoff,
		"Hand the conversation over to another agent, which continues it in your place.", false)
	t.setChat(a, cmp.Or(t.node.Name, who.Name), p.human && who.human, p.human && t.root, p.outputs, taken)
	t.setAgent(c, p, a)
}

// setAgent sets the node's own agent or adds a member.
func (t *teamBuilder) setAgent(c *model.Component, p role, a *plan.Agent) {
	if p.id == t.node.ID {
		a.Members = t.node.Agent.Members
		t.node.Agent = a
		return
	}
	t.addPosition(plan.NodePath(p.id), c.At)
	t.node.Agent.Members = append(t.node.Agent.Members, plan.Member{ID: p.id, Agent: *a, Out: outputs(p.outputs)})
}

// remoteMember adds a remote agent. It can be asked and take over a conversation, but cannot contact other agents.
func (t *teamBuilder) remoteMember(c *model.Component, p role) {
	if len(p.ask) > 0 || len(p.handoff) > 0 {
		if p.id == t.node.ID {
			t.Errorf(c.At, "field-value", "start with an Agent that contacts this one", "%s is a remote agent and cannot contact other agents, so it cannot be the first agent of a team", c)
			return
		}
		t.Warnf(c.At, CodeNoEffect, "use an Agent to contact others", "%s is a remote agent and cannot contact other agents of the team", c)
	}
	if !t.countNode(c.At) {
		return
	}
	t.components = append(t.components, c)
	a := t.remote(c, p.human && t.root)
	a.Conversation = ""
	if !p.human {
		a.Chat, a.Opening = nil, nil // the asking agent answers its questions
	}
	t.setAgent(c, p, a)
}

// contactsOf returns the tool by which an agent contacts others, or nil if there are none.
func contactsOf(name string, to []recipient, text string, asks bool) *plan.Contacts {
	if len(to) == 0 {
		return nil
	}
	k := &plan.Contacts{Name: name, Description: text + " The agents are:"}
	var names []string
	for _, r := range to {
		if slices.Contains(names, r.Name) {
			continue // reported as agent-names-unique
		}
		names = append(names, r.Name)
		k.To = append(k.To, r.Contact)
		k.Description += "\n- " + r.Name
		if r.about != "" {
			k.Description += ": " + r.about
		}
	}
	list, _ := json.Marshal(names) // cannot fail for strings
	schema := `{"type":"object","properties":{"recipient":{"type":"string","enum":%s}},"required":["recipient"]}`
	if asks {
		schema = `{"type":"object","properties":{"recipient":{"type":"string","enum":%s},"message":{"type":"string"}},"required":["recipient","message"]}`
	}
	k.Schema = json.RawMessage(fmt.Sprintf(schema, list))
	return k
}
