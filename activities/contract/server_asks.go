package contract

import (
	"encoding/json"

	"weft/workflows/plan"
)

// UpdateServerAsks is the Update by which an activity has its run answer what a server asks while the activity holds the
// server's call. It takes a [ServerAsks] and returns a [ServerAnswer].
const UpdateServerAsks = "_weft_server_asks"

// ServerAsks is what a server asks while an activity holds its call.
type ServerAsks struct {
	// Call is the id of the activity, Attempt counts its attempts, N the questions of an attempt from 1 on.
	Call    string       `json:"call"`
	Attempt int32        `json:"attempt"`
	N       int          `json:"n"`
	Ask     ToolQuestion `json:"ask"`
	// Timeout is how long the server is left without an answer.
	Timeout plan.Seconds `json:"timeout,omitempty"`
	// Withdrawn means instead that the server no longer wants an answer to N.
	Withdrawn bool `json:"withdrawn,omitempty"`
}

// ServerAnswer answers a [ServerAsks].
type ServerAnswer struct {
	// Result is that of the server's request; Problem says instead why there is none.
	Result  json.RawMessage `json:"result,omitempty"`
	Problem string          `json:"problem,omitempty"`
	// Expired: nobody answered in time, and Result says so.
	Expired bool `json:"expired,omitempty"`
}
