package workflows

import (
	"slices"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// talk is what all nodes of a run share: a conversation, where the flow has one, and the
// count against its meter.
type conversation struct {
	run    *run
	thread *thread
	forks  []contract.Fork
	spent  int
	// heard is how much of the conversation came from the run above.
	heard int
	// reminded counts how often nodes were reminded to call a tool.
	reminded []contract.Reminded
}

// conversationThread is the flow's conversation.
func (c *conversation) open() *thread {
	if c.thread == nil {
		c.thread = c.run.transcript.open(conversationName)
	}
	return c.thread
}

// talkThread is the name of the thread of a flow's conversation.
const conversationName = "conversation"

// fork is what a parallel node leaves for the merge behind it.
func (t *conversation) fork(node string) *contract.Fork {
	for i := range t.forks {
		if t.forks[i].Node == node {
			return &t.forks[i]
		}
	}
	t.forks = append(t.forks, contract.Fork{Node: node})
	return &t.forks[len(t.forks)-1]
}

// spentFor is what is spent for a node. Nodes beside each other count each for itself, until a merge picks one.
func (t *conversation) spentFor(n *plan.Node) int {
	spent := t.spent
	for i := range t.forks {
		if n.Cost != nil && n.Cost.Forked && t.forks[i].Node != n.ID {
			spent -= t.forks[i].Spent
		}
	}
	return spent
}

// pickFork goes on with what was said in one of the nodes that a merge joins, and with what it
// cost. A node that stopped in its middle has left several parts.
func (c *conversation) pickFork(node string, m *plan.Merge) error {
	for _, f := range c.forks {
		switch {
		case f.Node == node:
			c.add(f.Messages)
		case slices.ContainsFunc(m.Results, func(res plan.Result) bool { return res.Node == f.Node }):
			c.spent -= f.Spent
		}
	}
	c.dropForks(m)
	return nil
}

func (c *conversation) dropForks(m *plan.Merge) {
	c.forks = slices.DeleteFunc(c.forks, func(f contract.Fork) bool {
		return slices.ContainsFunc(m.Results, func(res plan.Result) bool { return res.Node == f.Node })
	})
}

// hold appends messages to the flow's conversation.
func (c *conversation) add(messages []contract.CarriedMessage) {
	if len(messages) == 0 {
		return
	}
	t := c.open()
	for _, m := range messages {
		sha := contract.SHA(m.Raw)
		c.run.transcript.content[sha] = m.Raw
		t.add(threadEntry{sha: sha, raw: m.Raw, own: m.Own})
	}
}

func carriedMessages(entries []threadEntry) []contract.CarriedMessage {
	var out []contract.CarriedMessage
	for _, e := range entries {
		out = append(out, contract.CarriedMessage{Raw: e.raw, Own: e.own})
	}
	return out
}

// remind counts one more reminder of a node, and says how many there have been before.
func (t *conversation) remind(node string) int {
	for i := range t.reminded {
		if t.reminded[i].Node == node {
			t.reminded[i].N++
			return t.reminded[i].N - 1
		}
	}
	t.reminded = append(t.reminded, contract.Reminded{Node: node, N: 1})
	return 0
}

// handTalk is what a run hands on of its talk: to the next run, or to a branch. whole says
// that no agent that stopped in its middle has the conversation already.
func (c *conversation) snapshot(whole bool) *contract.Talk {
	t := contract.Talk{Forks: c.forks, Spent: c.spent, Reminded: c.reminded, Heard: c.heard}
	if c.thread != nil && whole {
		t.Messages = carriedMessages(c.thread.entries)
		t.Sent = c.thread.carriedSent()
	}
	if t.Messages == nil && t.Forks == nil && t.Spent == 0 && t.Reminded == nil && t.Heard == 0 {
		return nil
	}
	return &t
}

// takeTalk goes on with what another run handed on.
func (c *conversation) restore(t *contract.Talk) {
	if t == nil {
		return
	}
	c.add(t.Messages)
	if c.thread != nil {
		c.thread.resent(t.Sent)
	}
	c.forks, c.spent, c.reminded, c.heard = t.Forks, t.Spent, t.Reminded, t.Heard
}

// addTalk takes back what a branch added to the talk that it was handed.
func (c *conversation) merge(t *contract.Talk) {
	if t == nil {
		return
	}
	c.forks = append(c.forks, t.Forks...)
	c.spent += t.Spent
	for _, m := range t.Reminded {
		c.atLeast(m)
	}
}

// atLeast takes over a count that a branch went on with.
func (t *conversation) atLeast(m contract.Reminded) {
	for i := range t.reminded {
		if t.reminded[i].Node == m.Node {
			t.reminded[i].N = max(t.reminded[i].N, m.N)
			return
		}
	}
	t.reminded = append(t.reminded, m)
}

// needsTalk reports whether nodes of a branch go on with the flow's conversation.
func needsConversation(nodes []plan.Node) bool {
	return slices.ContainsFunc(nodes, func(n plan.Node) bool { return n.Agent != nil && n.Agent.Conversation != "" })
}

// spend counts against the flow's meter.
func (c *conversation) spend(x *execution, n int) error {
	m := c.run.flow.Meter
	if m == nil || n == 0 {
		return nil
	}
	c.spent += n
	if cost := x.node.Cost; cost != nil && cost.Forked {
		c.fork(x.node.ID).Spent += n
	}
	return c.within(x, m.Base-1)
}

// spendEnd counts the run's last step, where an edge to its end is taken. A node that has no
// edge to take fails for that, though the limit leaves no step more.
func (c *conversation) spendEnd(x *execution, taken []int) error {
	if c.run.flow.Meter == nil || !slices.ContainsFunc(taken, func(e int) bool { return c.run.flow.Edges[e].To == plan.End }) {
		return nil
	}
	return c.within(x, c.run.flow.Meter.Base)
}

// within fails where the run has spent more than its flow's meter allows; base is what it
// spends beside its nodes.
func (c *conversation) within(x *execution, base int) error {
	m := c.run.flow.Meter
	if c.spentFor(x.node)+base <= m.Limit {
		return nil
	}
	return c.run.fail(x, contract.ClassStepLimit, "give the loop a condition that ends it, or raise the flow's limit", "%s", m.Text)
}
