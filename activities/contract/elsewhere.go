package contract

// Elsewhere says how a run calls a tool that is an activity of another worker, in any language:
// by itself, on that worker's task queue. The activity takes one argument, the object with the
// call's arguments, and returns a text, or anything that is JSON.
type Elsewhere struct {
	// Activity is the activity's type on TaskQueue.
	Activity  string `json:"activity"`
	TaskQueue string `json:"task_queue"`
	// StartSeconds is how long a call waits for a worker that takes it.
	StartSeconds int `json:"start_seconds"`
	// TimeoutSeconds bounds one attempt; 0 leaves it to the flow's policy. HeartbeatSeconds, if
	// positive, is how long the activity may be silent.
	TimeoutSeconds   int `json:"timeout_seconds,omitempty"`
	HeartbeatSeconds int `json:"heartbeat_seconds,omitempty"`
	// Attempts is how often a call that fails is made.
	Attempts int32 `json:"attempts"`
	// Key passes a [CallKey] behind the arguments.
	Key bool `json:"key,omitempty"`
}

// CallKey is the second argument of an activity of another worker.
type CallKey struct {
	// IdempotencyKey is the same for all attempts of a call, and for no other call.
	IdempotencyKey string `json:"idempotency_key"`
}
