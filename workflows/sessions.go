package workflows

import (
	"encoding/json"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// sessionCall is an agent's call of one of [plan.SessionTools].
type sessionCall struct {
	// tool is its name, args are its arguments.
	tool string
	args json.RawMessage
	// starts are the agents that may be started.
	starts []plan.Startable
	// child is the workflow id of a session that the call starts; id is the call's within its run.
	child, id string
}

// sessionReply is what became of a call: its reply, or what was asked of a session.
type sessionReply struct {
	Reply contract.ToolReply     `json:"reply"`
	Order *contract.SessionOrder `json:"order,omitempty"`
}
