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

// isTeam reports whether a component is several agents: an agent that has others is one too.
func isTeam(c *model.Component) bool {
	return c.Type.ActsAs("ManagerWorkers") || c.Type.ActsAs("Swarm") || c.Type.ActsAs("Agent") && len(c.Components("agents")) > 0
}

// crew makes one node of a team: the agent that begins is the node's own, all others are members.
// An agent is a member once for each part that it has: with the node's conversation, and asked in
// one of its own.
type crew struct {
	*builder
	node *plan.Node
	root bool
	// out are what the members give whose finish tool asks for values; ids are taken ones.
	ids map[string]bool
	// inside are the agents that were met; groups are the names of the teams in the team.
	inside []*model.Component
	groups map[*model.Component]string
	// asked are the members that are asked, by team and agent.
	asked map[[2]*model.Component]string
	// left are the members that are still to be made.
	left []func()
}

type part struct {
	// id is the member's; that of the node stands for the node's own agent.
	id string
	// human reports whether the conversation is the node's, in which people are; outputs end it.
	human   bool
	outputs []*model.Property
	// ask and hand are whom the agent can turn to.
	ask, hand []recipient
}

type recipient struct {
	plan.Contact
	about string
}

// agentNode configures an AgentNode: an Agent, a team, or a Flow, which has its own conversation.
func (b *builder) agentNode(c *model.Component, n *plan.Node) {
	inner := c.Component("agent")
	if inner.Type.Acts() == "Flow" {
		n.Kind, n.Call = plan.KindCall, &plan.Call{AtOnce: 1, Apart: true, Flows: []string{b.called(inner)}}
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

// team makes the agents of a node and returns those of their inputs that the node does not take.
func (b *builder) team(c *model.Component, n *plan.Node, outputs []*model.Property, root bool) []*model.Property {
	t := &crew{builder: b, node: n, root: root, ids: map[string]bool{n.ID: true}, groups: map[*model.Component]string{c: ""}, asked: map[[2]*model.Component]string{}}
	n.Agent = &plan.Agent{} // what stands for the node's own agent until it is made
	t.join(c, part{id: n.ID, human: true, outputs: outputs})
	for len(t.left) > 0 && !b.full {
		next := t.left[0]
		t.left = t.left[1:]
		next()
	}
	n.Agent.Conversation, n.Agent.Opening = plan.ConversationFlow, opening(c.Inputs)
	var more []*model.Property
	have := map[string]bool{}
	for _, in := range n.Ports.In {
		have[in.Name] = true
	}
	for _, m := range t.inside {
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

// join adds a component to a conversation: an agent, or a team's agents, of which one begins.
func (t *crew) join(c *model.Component, p part) {
	switch c.Type.Acts() {
	case "Agent", "SpecializedAgent":
		for _, a := range c.Components("agents") {
			p.ask = append(p.ask, t.recipient(c, c, a, func(id string) part { return part{id: id, outputs: a.Outputs} }))
		}
		t.member(c, p)
	case "A2AAgent", "OciAgent", "OpenAiAgent":
		t.elsewhere(c, p)
	case "ManagerWorkers":
		manager := c.Component("group_manager")
		for _, w := range c.Components("workers") {
			p.ask = append(p.ask, t.recipient(c, manager, w, func(id string) part { return part{id: id, outputs: w.Outputs} }))
		}
		t.join(manager, p)
	case "Swarm":
		t.swarm(c, p)
	case "Flow":
		t.Errorf(c.At, "field-value", "start with an Agent that calls the flow", "%s cannot hold a conversation, so it cannot be the first agent of a team", c)
	}
}

func handoffs(c *model.Component) (asks, hands bool) {
	mode := c.Text("handoff")
	if f := c.Field("handoff"); f != nil && f.JSON.Kind == source.Bool {
		mode = map[bool]string{true: "optional", false: "never"}[f.JSON.True]
	}
	return mode != "always", mode != "never"
}

// swarm makes the agents of a Swarm that can come to have a conversation: the one that begins, and
// with handing over all that it leads to. Whom the conversation's agent could turn to without the
// Swarm, all of them can.
func (t *crew) swarm(c *model.Component, p part) {
	asks, hands := handoffs(c)
	first := c.Component("first_agent")
	ids := map[*model.Component]string{first: p.id}
	todo := []*model.Component{first}
	for len(todo) > 0 {
		m := todo[0]
		todo = todo[1:]
		own := part{id: ids[m], human: p.human, outputs: p.outputs, ask: slices.Clone(p.ask), hand: slices.Clone(p.hand)}
		for _, to := range neighbours(c, m) {
			if asks {
				own.ask = append(own.ask, t.inSwarm(c, m, to))
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
			own.hand = append(own.hand, t.handed(to, ids[to]))
		}
		t.join(m, own)
	}
}

// inSwarm is an agent of a Swarm that another one asks. Asked, it can ask others itself.
func (t *crew) inSwarm(c, from, to *model.Component) recipient {
	if to.Type.Acts() == "Flow" && len(neighbours(c, to)) > 0 {
		t.Warnf(to.At, CodeNoEffect, "use an Agent to contact others", "%s has no model and cannot contact agents; relationships from it in %s have no effect", to, c)
	}
	return t.recipient(c, from, to, func(id string) part {
		p := part{id: id, outputs: to.Outputs}
		for _, next := range neighbours(c, to) {
			p.ask = append(p.ask, t.inSwarm(c, to, next))
		}
		return p
	})
}

// neighbours are those that an agent of a Swarm may turn to, each once.
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

func (t *crew) handed(to *model.Component, id string) recipient {
	if id == t.node.ID {
		id = ""
	}
	return recipient{Contact: plan.Contact{Name: cmp.Or(to.Name, to.ID), Member: id}, about: to.Description}
}

// recipient returns whom another agent of a team asks, made once for all that ask.
func (t *crew) recipient(team, from, to *model.Component, make func(id string) part) recipient {
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
		t.left = append(t.left, func() { t.join(to, make(id)) })
	}
	name := cmp.Or(to.Name, to.ID)
	return recipient{Contact: plan.Contact{Name: name, Member: id, Thread: t.group(team) + cmp.Or(from.Name, from.ID) + ">" + name}, about: to.Description}
}

// flow is a Flow that another agent asks. It is run anew for each question.
func (t *crew) flow(c *model.Component) recipient {
	id := t.called(c)
	t.alone(c, id)
	if !slices.Contains(t.inside, c) {
		t.inside = append(t.inside, c, &model.Component{Inputs: t.outers[id]})
	}
	return recipient{Contact: plan.Contact{Name: cmp.Or(c.Name, c.ID), Flow: id}, about: c.Description}
}

func (t *crew) group(c *model.Component) string {
	if _, ok := t.groups[c]; !ok {
		t.groups[c] = fmt.Sprintf("%s~%d/", cmp.Or(c.Name, c.ID), len(t.groups)+1)
	}
	return t.groups[c]
}

func (t *crew) name(c *model.Component, suffix string) string {
	return unique(t.ids, unique(t.taken, t.node.ID+"/"+model.SafeID(cmp.Or(c.Name, c.ID, c.Type.Name))+suffix))
}

func (t *crew) member(c *model.Component, p part) {
	if !t.room(c.At) {
		return
	}
	t.inside = append(t.inside, c)
	who := resolveAgent(c)
	a, taken := t.baseAgent(who, p.id)
	a.Ask = contactsOf(unique(taken, "send_message"), p.ask,
		"Ask another agent and get its answer. It does not see your conversations with others: include everything it needs to know.", true)
	a.Handoff = contactsOf(unique(taken, "handoff_conversation"), p.hand,
		"Hand the conversation over to another agent, which continues it in your place.", false)
	t.setChat(a, cmp.Or(t.node.Name, who.Name), p.human && who.human, p.human && t.root, p.outputs, taken)
	t.settle(c, p, a)
}

// settle puts an agent in its place: the node's own, or a member's.
func (t *crew) settle(c *model.Component, p part, a *plan.Agent) {
	if p.id == t.node.ID {
		a.Members = t.node.Agent.Members
		t.node.Agent = a
		return
	}
	t.place(plan.NodePath(p.id), c.At)
	t.node.Agent.Members = append(t.node.Agent.Members, plan.Member{ID: p.id, Agent: *a, Out: outputs(p.outputs)})
}

// elsewhere adds a remote agent, which can be asked or handed the conversation, but contacts nobody.
func (t *crew) elsewhere(c *model.Component, p part) {
	if len(p.ask) > 0 || len(p.hand) > 0 {
		if p.id == t.node.ID {
			t.Errorf(c.At, "field-value", "start with an Agent that contacts this one", "%s is a remote agent and cannot contact other agents, so it cannot be the first agent of a team", c)
			return
		}
		t.Warnf(c.At, CodeNoEffect, "use an Agent to contact others", "%s is a remote agent and cannot contact other agents of the team", c)
	}
	if !t.room(c.At) {
		return
	}
	t.inside = append(t.inside, c)
	a := t.remote(c, p.human && t.root)
	a.Conversation = ""
	if !p.human {
		a.Chat, a.Opening = nil, nil // who asks answers
	}
	t.settle(c, p, a)
}

// contactsOf is the tool by which an agent turns to others, or nil where there are none.
func contactsOf(name string, to []recipient, text string, asks bool) *plan.Contacts {
	if len(to) == 0 {
		return nil
	}
	k := &plan.Contacts{Name: name, Description: text + " The agents are:"}
	var names []string
	for _, r := range to {
		if slices.Contains(names, r.Name) {
			continue // agents-names-unique has said so
		}
		names = append(names, r.Name)
		k.To = append(k.To, r.Contact)
		k.Description += "\n- " + r.Name
		if r.about != "" {
			k.Description += ": " + r.about
		}
	}
	list, _ := json.Marshal(names) // texts always encode
	schema := `{"type":"object","properties":{"recipient":{"type":"string","enum":%s}},"required":["recipient"]}`
	if asks {
		schema = `{"type":"object","properties":{"recipient":{"type":"string","enum":%s},"message":{"type":"string"}},"required":["recipient","message"]}`
	}
	k.Schema = json.RawMessage(fmt.Sprintf(schema, list))
	return k
}
