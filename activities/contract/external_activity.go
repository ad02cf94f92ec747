package contract

import (
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"
)

// ExternalActivity says how a run calls a tool that is an activity of another worker, in any language:
// by itself, on that worker's task queue. The activity takes one argument, the object with the
// call's arguments, and returns a text, or anything that is JSON.
type ExternalActivity struct {
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
	// IdempotencyKey passes a [CallKey] behind the arguments.
	IdempotencyKey bool `json:"idempotency_key,omitempty"`
}

// CallKey is a part of a call's input, and the second argument of an activity of another worker.
type CallKey struct {
	// IdempotencyKey is the same for all attempts of a call, wherever the run goes on, and for no other call: the
	// first run id of the run at the root, and the path of the call below it.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
}

// SetIdempotencyKey is called where the call is made.
func (k *CallKey) SetIdempotencyKey(key string) { k.IdempotencyKey = key }

// ErrorText is what a model reads of a call that failed: that nobody took it, or the activity's own
// words. Not ok: it is a failure like that of any tool.
func (e *ExternalActivity) ErrorText(err error) (text string, ok bool) {
	if NotStarted(err) {
		return fmt.Sprintf("nobody took the call within %d seconds: no worker polls the task queue %q, or all are busy", e.StartSeconds, e.TaskQueue), true
	}
	var app *temporal.ApplicationError
	if !errors.As(err, &app) {
		return "", false
	}
	var f Failure
	if app.HasDetails() && app.Details(&f) == nil && f.Class != "" && f.Class == app.Type() {
		return "", false
	}
	return app.Message(), true
}
