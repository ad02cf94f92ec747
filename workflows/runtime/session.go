package runtime

import (
	"encoding/json"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// SessionCall is an agent's call of one of [plan.SessionTools].
type SessionCall struct {
	// Tool is its name, args are its arguments.
	Tool string
	Args json.RawMessage
	// Starts are the agents that may be started.
	Starts []plan.Startable
	// Child is the workflow id of a session that the call starts; id is the call's within its run.
	Child, ID string
}

// SessionReply is what became of a call: its reply, or what was asked of a session.
type SessionReply struct {
	Reply contract.ToolReply     `json:"reply"`
	Order *contract.SessionOrder `json:"order,omitempty"`
}
