package runtime

import (
	"encoding/json"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// sessionCall is an agent's call of one of [plan.SessionTools].
type SessionCall struct {
	// tool is its name, args are its arguments.
	Tool string
	Args json.RawMessage
	// starts are the agents that may be started.
	Starts []plan.Startable
	// child is the workflow id of a session that the call starts; id is the call's within its run.
	Child, Id string
}

// sessionReply is what became of a call: its reply, or what was asked of a session.
type SessionReply struct {
	Reply contract.ToolReply     `json:"reply"`
	Order *contract.SessionOrder `json:"order,omitempty"`
}
