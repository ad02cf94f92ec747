package transcript

import (
	"slices"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// Conversation is what all nodes of a run share: a conversation, where the flow has one, and the count against its meter.
type Conversation struct {
	transcript *Transcript
	Thread     *Thread
	Forks      []contract.Fork
	Spent      int
	// Inherited is how much of the conversation came from the run above.
	Inherited int
	// reminded counts how often nodes were reminded to call a tool.
	reminded []contract.Reminded
}

// NewConversation is the conversation of a flow, in its transcript. It has no thread until it is opened.
func NewConversation(s *Transcript) Conversation { return Conversation{transcript: s} }

// Open is the flow's conversation.
func (c *Conversation) Open() *Thread {
	if c.Thread == nil {
		c.Thread = c.transcript.Open(contract.ConversationThread)
	}
	return c.Thread
}

// Fork is the conversation of a parallel node, for the merge behind it.
func (c *Conversation) Fork(node string) *contract.Fork {
	i := slices.IndexFunc(c.Forks, func(f contract.Fork) bool { return f.Node == node })
	if i < 0 {
		i, c.Forks = len(c.Forks), append(c.Forks, contract.Fork{Node: node})
	}
	return &c.Forks[i]
}

// SpentFor is what is spent for a node. Nodes beside each other count each for itself, until a merge picks one.
func (c *Conversation) SpentFor(n *plan.Node) int {
	spent := c.Spent
	for i := range c.Forks {
		if n.Cost != nil && n.Cost.Forked && c.Forks[i].Node != n.ID {
			spent -= c.Forks[i].Spent
		}
	}
	return spent
}

// DropForks forgets what the nodes that a merge joins have said.
func (c *Conversation) DropForks(m *plan.Merge) {
	c.Forks = slices.DeleteFunc(c.Forks, func(f contract.Fork) bool {
		return slices.ContainsFunc(m.Results, func(res plan.Result) bool { return res.Node == f.Node })
	})
}

// Add appends messages to the flow's conversation. recorded says that a history holds them.
func (c *Conversation) Add(messages []contract.ThreadMessage, recorded bool) {
	if len(messages) == 0 {
		return
	}
	c.transcript.take(c.Open(), messages, recorded)
}

// Mark is how much a run has said before an execution.
type Mark struct{ messages, forks, spent int }

// Mark is how much has been said so far.
func (c *Conversation) Mark() Mark {
	m := Mark{forks: len(c.Forks), spent: c.Spent}
	if c.Thread != nil {
		m.messages = len(c.Thread.Entries)
	}
	return m
}

// Since is what has been added since a mark; nil is nothing.
func (c *Conversation) Since(before Mark) *contract.Conversation {
	t := contract.Conversation{Spent: c.Spent - before.spent}
	if c.Thread != nil {
		t.Messages = Carried(c.Thread.Entries[before.messages:])
	}
	if len(c.Forks) > before.forks {
		t.Forks = slices.Clone(c.Forks[before.forks:])
	}
	if t.Messages == nil && t.Forks == nil && t.Spent == 0 {
		return nil
	}
	return &t
}

// Carried are the messages of some entries.
func Carried(entries []Entry) []contract.ThreadMessage {
	var out []contract.ThreadMessage
	for _, e := range entries {
		out = append(out, contract.ThreadMessage{Raw: e.Raw, Own: e.own})
	}
	return out
}

// Remind counts one more reminder of a node, and says how many there have been before.
func (c *Conversation) Remind(node string) int {
	r := c.reminders(node)
	r.N++
	return r.N - 1
}

// reminders are those of a node.
func (c *Conversation) reminders(node string) *contract.Reminded {
	i := slices.IndexFunc(c.reminded, func(r contract.Reminded) bool { return r.Node == node })
	if i < 0 {
		i, c.reminded = len(c.reminded), append(c.reminded, contract.Reminded{Node: node})
	}
	return &c.reminded[i]
}

// Snapshot is what the next run, or a branch, goes on with. whole says that no agent that stopped in its middle has the
// conversation already.
func (c *Conversation) Snapshot(whole bool) *contract.Conversation {
	t := contract.Conversation{Forks: c.Forks, Spent: c.Spent, Reminded: slices.Clone(c.reminded), Inherited: c.Inherited}
	if c.Thread != nil && whole {
		t.Messages = Carried(c.Thread.Entries)
		t.Sent = c.Thread.CarriedSent()
	}
	if t.Messages == nil && c.Forks == nil && c.Spent == 0 && c.reminded == nil && t.Inherited == 0 {
		return nil
	}
	return &t
}

// Restore goes on with what another run handed on.
func (c *Conversation) Restore(t *contract.Conversation) {
	if t == nil {
		return
	}
	c.Add(t.Messages, true)
	if c.Thread != nil {
		c.Thread.resent(t.Sent)
	}
	c.Forks, c.Spent, c.reminded, c.Inherited = t.Forks, t.Spent, t.Reminded, t.Inherited
}

// Merge takes back what a branch added to the conversation that it was handed.
func (c *Conversation) Merge(t *contract.Conversation) {
	if t == nil {
		return
	}
	c.Forks = append(c.Forks, t.Forks...)
	c.Spent += t.Spent
	for _, m := range t.Reminded {
		r := c.reminders(m.Node)
		r.N = max(r.N, m.N)
	}
}

// Records are what threads have that history does not name yet, in as few records as payloads have room for. Each has the fields
// of one whose execution has added to the threads.
func (c *Conversation) Records(of contract.ThreadRecord, threads ...*Thread) (out []*contract.ThreadRecord, err error) {
	var last *contract.ThreadRecord
	for _, t := range threads {
		from, room := max(t.published, t.Called.Len), 0
		t.published = len(t.Entries)
		for i := from; i < len(t.Entries); i++ {
			e := t.Entries[i]
			m := contract.TailEntry{SHA: e.Sha}
			if e.own && !t.recorded[e.Sha] {
				m.Message, t.recorded[e.Sha] = e.Raw, true
			}
			n, err := contract.Size(m)
			if err != nil {
				return nil, err
			}
			if n++; n > room { // with a comma
				last, room = new(of), contract.MaxPayload-contract.Envelope
				last.Thread, last.From = t.Name, i
				if t == c.Thread {
					last.Inherited = c.Inherited
				}
				out = append(out, last)
			}
			last.Messages, room = append(last.Messages, m), room-n
		}
	}
	if len(out) == 2 && out[0].Thread != out[1].Thread {
		both := *out[0]
		both.Aside = out[1]
		if n, err := contract.Size(both); err != nil || n <= contract.MaxPayload {
			return []*contract.ThreadRecord{&both}, err
		}
	}
	return out, nil
}
