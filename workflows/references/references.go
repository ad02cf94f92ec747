// Package references collects the stored content that a run must hand over to the run that continues it.
//
// A message may refer to content of its run: a long input, a value of the state as read by a tool, or the output of a node. If the
// message is carried over to another run, the content must be, too.
package references

import (
	"encoding/json"

	"weft/activities/contract"
)

// Collector collects stored content to be carried over to another run.
type Collector struct {
	// Stored is the run's content by hash.
	Stored map[string]json.RawMessage
	// Seen holds the hashes of the content that the other run has or will get.
	Seen map[string]bool
	// Found is the collected content.
	Found []json.RawMessage
}

// Content collects the content with a hash, once, if the run has it.
func (k *Collector) Content(sha string) {
	if raw, ok := k.Stored[sha]; ok && !k.Seen[sha] {
		k.Seen[sha], k.Found = true, append(k.Found, raw)
	}
}

// View collects the long values and the outputs of a view.
func (k *Collector) View(v *contract.View) {
	for i := range v.State {
		k.Content(v.State[i].SHA)
	}
	for i := range v.Outputs {
		k.Content(v.Outputs[i].SHA)
	}
}

func (k *Collector) messages(list []contract.ThreadMessage) {
	for i := range list {
		m, err := contract.DecodeMessage(list[i].Raw)
		if err != nil {
			continue
		}
		for _, p := range m.Parts {
			if p.Ref != nil && p.Ref.Run == "" {
				k.Content(p.Ref.SHA)
			}
		}
	}
}

// Conversation collects the content that the messages of a conversation refer to.
func (k *Collector) Conversation(t *contract.Conversation) {
	if t == nil {
		return
	}
	k.messages(t.Messages)
	for i := range t.Forks {
		k.messages(t.Forks[i].Messages)
	}
}

// Suspended collects the content that a suspended execution refers to.
func (k *Collector) Suspended(x *contract.SuspendedExecution) {
	if x == nil {
		return
	}
	if a := x.Agent; a != nil {
		k.messages(a.Messages)
		for i := range a.Conversations {
			k.messages(a.Conversations[i].Messages)
		}
	}
	if x.Map != nil {
		for i := range x.Map.Flows {
			k.Conversation(x.Map.Flows[i].Conversation)
		}
	}
	for i := range x.Steps {
		k.Suspended(x.Steps[i].Execution)
	}
}

// Snapshot collects the content that a snapshot's views, messages and session state refer to.
func (k *Collector) Snapshot(c *contract.RunSnapshot) {
	c.EachArrival(func(a *contract.ArrivalState) { k.View(&a.View) })
	if c.Entry != nil {
		k.View(&c.Entry.View)
	}
	if c.Ended != nil && c.Session != nil {
		k.View(&contract.View{State: c.Ended.State}) // the next turn continues from it
	}
	k.Conversation(c.Conversation)
	for i := range c.Live {
		k.Suspended(c.Live[i].Suspended)
	}
}

// EachTask calls f with each tool task for which a suspended execution, or one nested in it, waits, and with the id of the step
// that waits for it.
func EachTask(x *contract.SuspendedExecution, f func(id string, t *contract.OpenTask)) {
	if x == nil {
		return
	}
	for i := range x.Steps {
		s := &x.Steps[i]
		if s.Task != nil {
			f(s.ID, s.Task)
		}
		EachTask(s.Execution, f)
		if s.Run != nil {
			for k := range s.Run.Live {
				EachTask(s.Run.Live[k].Suspended, f)
			}
		}
	}
}
