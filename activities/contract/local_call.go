package contract

import "encoding/json"

// LocalCall is the call of an activity that the worker of a run makes in the run's workflow task, without another server.
type LocalCall struct {
	// ID is the call's within its run, Activity the activity's type.
	ID, Activity string
	Argument     json.RawMessage
	Grant        *Grant
	// MaxBytes bounds what is recorded of the call: its argument and its result.
	MaxBytes int
}

// LocalResult is what is recorded of a [LocalCall]. Without a result, the call is made as an activity.
type LocalResult struct {
	ID       string          `json:"id,omitempty"`
	Activity string          `json:"activity,omitempty"`
	Argument json.RawMessage `json:"argument,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`
}
