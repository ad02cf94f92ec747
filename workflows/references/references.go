// Package references finds what a run that continues elsewhere must keep.
//
// A message may refer to content of its run: a long input, a long value of the state as it was when a tool read it, the
// output of a node. If the message continues in another run, so must the content, even if nothing else refers to it.
package references

import (
	"encoding/json"

	"weft/activities/contract"
)

// Visitor is called for each reference that names no run.
type Visitor func(*contract.ContentRef)

func (visit Visitor) parts(parts []contract.Part) {
	for i := range parts {
		if ref := parts[i].Ref; ref != nil && ref.Run == "" {
			visit(ref)
		}
	}
}

func (visit Visitor) message(raw json.RawMessage) {
	if len(raw) == 0 {
		return
	}
	if m, err := contract.DecodeMessage(raw); err == nil {
		visit.parts(m.Parts)
	}
}

func (visit Visitor) messages(list []contract.ThreadMessage) {
	for i := range list {
		visit.message(list[i].Raw)
	}
}

// Conversation visits what the messages of a conversation refer to.
func (visit Visitor) Conversation(t *contract.Conversation) {
	if t == nil {
		return
	}
	visit.messages(t.Messages)
	for i := range t.Forks {
		visit.messages(t.Forks[i].Messages)
	}
}

// Suspended visits what an execution refers to that is to be resumed.
func (visit Visitor) Suspended(x *contract.SuspendedExecution) {
	if x == nil {
		return
	}
	if a := x.Agent; a != nil {
		visit.messages(a.Messages)
		for i := range a.Conversations {
			visit.messages(a.Conversations[i].Messages)
		}
	}
	if x.Map != nil {
		for i := range x.Map.Flows {
			visit.Conversation(x.Map.Flows[i].Conversation)
		}
	}
	for i := range x.Steps {
		visit.Suspended(x.Steps[i].Execution)
	}
}

// Snapshot visits what the state of a session and all messages of a snapshot refer to.
func (visit Visitor) Snapshot(c *contract.RunSnapshot) {
	if c.Ended != nil && c.Session != nil {
		// The next turn goes on with the state.
		for i := range c.Ended.State {
			visit(&contract.ContentRef{SHA: c.Ended.State[i].SHA})
		}
	}
	visit.Conversation(c.Conversation)
	for i := range c.Live {
		visit.Suspended(c.Live[i].Suspended)
	}
}

// OpenTask is the task of a tool with the id of the step that waits for it.
type OpenTask struct {
	ID   string
	Task *contract.OpenTask
}

// Tasks lists the tasks for which an execution waits that is to be resumed, those below it included.
func Tasks(x *contract.SuspendedExecution) []OpenTask {
	var out []OpenTask
	if x == nil {
		return nil
	}
	for i := range x.Steps {
		s := &x.Steps[i]
		if s.Task != nil {
			out = append(out, OpenTask{s.ID, s.Task})
		}
		out = append(out, Tasks(s.Execution)...)
		if s.Run != nil {
			for k := range s.Run.Live {
				out = append(out, Tasks(s.Run.Live[k].Suspended)...)
			}
		}
	}
	return out
}
