package transcript

import (
	"slices"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// Conversation is shared by all nodes of a run: the flow's conversation, if it has one, and the spending counted by its meter.
type Conversation struct {
	transcript *Transcript
	Thread     *Thread
	Forks      []contract.Fork
	Spent      int
	// Inherited is the number of messages that came from the parent run.
	Inherited int
	// reminders counts how often nodes were reminded to call a tool.
	reminders []contract.Reminded
}

// NewConversation returns the conversation of a flow in a transcript. Its thread is nil until it is opened.
func NewConversation(s *Transcript) Conversation { return Conversation{transcript: s} }

// Open returns the conversation's thread, which it opens if necessary.
func (c *Conversation) Open() *Thread {
	if c.Thread == nil {
		c.Thread = c.transcript.Open(contract.ConversationThread)
	}
	return c.Thread
}

// Fork returns the fork of a parallel node, for the merge after it.
func (c *Conversation) Fork(node string) *contract.Fork {
	i := slices.IndexFunc(c.Forks, func(f contract.Fork) bool { return f.Node == node })
	if i < 0 {
		i, c.Forks = len(c.Forks), append(c.Forks, contract.Fork{Node: node})
	}
	return &c.Forks[i]
}

// SpentFor returns the spending that counts for a node: parallel nodes count separately until a merge picks one.
func (c *Conversation) SpentFor(n *plan.Node) int {
	spent := c.Spent
	for i := range c.Forks {
		if n.Cost != nil && n.Cost.Forked && c.Forks[i].Node != n.ID {
			spent -= c.Forks[i].Spent
		}
	}
	return spent
}

// DropForks drops the forks of the nodes that a merge joins.
func (c *Conversation) DropForks(m *plan.Merge) {
	c.Forks = slices.DeleteFunc(c.Forks, func(f contract.Fork) bool {
		return slices.ContainsFunc(m.Results, func(res plan.Result) bool { return res.Node == f.Node })
	})
}

// Add appends messages to the flow's conversation. recorded is set if a history contains them.
func (c *Conversation) Add(messages []contract.ThreadMessage, recorded bool) {
	if len(messages) == 0 {
		return
	}
	c.transcript.addMessages(c.Open(), messages, recorded)
}

// Mark is a position in a conversation.
type Mark struct{ messages, forks, spent int }

// Mark returns the current end of the conversation.
func (c *Conversation) Mark() Mark {
	m := Mark{forks: len(c.Forks), spent: c.Spent}
	if c.Thread != nil {
		m.messages = len(c.Thread.Entries)
	}
	return m
}

// Since returns what has been added since a mark, nil if nothing.
func (c *Conversation) Since(before Mark) *contract.Conversation {
	t := contract.Conversation{Spent: c.Spent - before.spent}
	if c.Thread != nil {
		t.Messages = ThreadMessages(c.Thread.Entries[before.messages:])
	}
	if len(c.Forks) > before.forks {
		t.Forks = slices.Clone(c.Forks[before.forks:])
	}
	if t.Messages == nil && t.Forks == nil && t.Spent == 0 {
		return nil
	}
	return &t
}

// ThreadMessages returns the messages of entries, to be carried over to another run.
func ThreadMessages(entries []Entry) []contract.ThreadMessage {
	var out []contract.ThreadMessage
	for _, e := range entries {
		out = append(out, contract.ThreadMessage{Raw: e.Raw, Own: e.own})
	}
	return out
}

// Remind counts a reminder of a node, and returns the number of earlier ones.
func (c *Conversation) Remind(node string) int {
	r := c.reminderCount(node)
	r.N++
	return r.N - 1
}

// reminderCount returns the count of a node's reminders, to read or change.
func (c *Conversation) reminderCount(node string) *contract.Reminded {
	i := slices.IndexFunc(c.reminders, func(r contract.Reminded) bool { return r.Node == node })
	if i < 0 {
		i, c.reminders = len(c.reminders), append(c.reminders, contract.Reminded{Node: node})
	}
	return &c.reminders[i]
}

// Snapshot returns the state of the conversation for the next run or a branch, nil if it is empty. withThread is false if the state
// of a suspended agent includes the messages already.
func (c *Conversation) Snapshot(withThread bool) *contract.Conversation {
	t := contract.Conversation{Forks: c.Forks, Spent: c.Spent, Reminded: slices.Clone(c.reminders), Inherited: c.Inherited}
	if c.Thread != nil && withThread {
		t.Messages = ThreadMessages(c.Thread.Entries)
		t.Sent = c.Thread.CarriedSent()
	}
	if t.Messages == nil && c.Forks == nil && c.Spent == 0 && c.reminders == nil && t.Inherited == 0 {
		return nil
	}
	return &t
}

// Restore restores a snapshot of another run.
func (c *Conversation) Restore(t *contract.Conversation) {
	if t == nil {
		return
	}
	c.Add(t.Messages, true)
	if c.Thread != nil {
		c.Thread.restoreSent(t.Sent)
	}
	c.Forks, c.Spent, c.reminders, c.Inherited = t.Forks, t.Spent, t.Reminded, t.Inherited
}

// Merge adds a branch's forks, spending and reminders.
func (c *Conversation) Merge(t *contract.Conversation) {
	if t == nil {
		return
	}
	c.Forks = append(c.Forks, t.Forks...)
	c.Spent += t.Spent
	for _, m := range t.Reminded {
		r := c.reminderCount(m.Node)
		r.N = max(r.N, m.N)
	}
}

// Records returns the entries of threads that are not in history yet, in as few records as fit into payloads, and marks them as
// published. Each record has the fields of template, which describes the execution that has added the entries.
func (c *Conversation) Records(template contract.ThreadRecord, threads ...*Thread) (out []*contract.ThreadRecord, err error) {
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
				last, room = new(template), contract.MaxPayload-contract.Envelope
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
		combined := *out[0]
		combined.Aside = out[1]
		if n, err := contract.Size(combined); err != nil || n <= contract.MaxPayload {
			return []*contract.ThreadRecord{&combined}, err
		}
	}
	return out, nil
}
