package workflows

import (
	"encoding/json"

	"weft/activities/contract"
)

// A message may refer to what its run holds: a long input, a long value of the state as it was when a
// tool read it, the output of a node. Where the message goes on in another run, so does what it refers
// to, though nothing else may name it any more.

// needing is told of each reference that names no run.
type needing func(*contract.ContentRef)

func (need needing) parts(parts []contract.Part) {
	for i := range parts {
		if ref := parts[i].Ref; ref != nil && ref.Run == "" {
			need(ref)
		}
	}
}

func (need needing) message(raw json.RawMessage) {
	if len(raw) == 0 {
		return
	}
	if m, err := contract.DecodeMessage(raw); err == nil {
		need.parts(m.Parts)
	}
}

func (need needing) messages(list []contract.ThreadMessage) {
	for i := range list {
		need.message(list[i].Raw)
	}
}

// conversation tells of what the messages of a conversation refer to.
func (need needing) conversation(t *contract.Conversation) {
	if t == nil {
		return
	}
	need.messages(t.Messages)
	for i := range t.Forks {
		need.messages(t.Forks[i].Messages)
	}
}

// suspended tells of what an execution that stopped in its middle refers to.
func (need needing) suspended(x *contract.SuspendedExecution) {
	if x == nil {
		return
	}
	if a := x.Agent; a != nil {
		need.messages(a.Messages)
		for i := range a.Conversations {
			need.messages(a.Conversations[i].Messages)
		}
	}
	if x.Map != nil {
		for i := range x.Map.Flows {
			need.conversation(x.Map.Flows[i].Conversation)
		}
	}
	for i := range x.Steps {
		need.suspended(x.Steps[i].Execution)
	}
}

// snapshot tells of what the state of a session and all messages of a carry refer to.
func (need needing) snapshot(c *contract.RunSnapshot) {
	if c.Ended != nil && c.Session != nil {
		// The next turn goes on with the state.
		for i := range c.Ended.State {
			need(&contract.ContentRef{SHA: c.Ended.State[i].SHA})
		}
	}
	need.conversation(c.Conversation)
	for i := range c.Live {
		need.suspended(c.Live[i].Suspended)
	}
}
