package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"weft/activities/contract"
)

// SettingActivities is the section of activities of other workers.
const SettingActivities = "activities"

// Activity is a tool that is an activity of another worker, which a run schedules itself.
type Activity struct {
	// TaskQueue is the other worker's; Activity is the activity's type, by default the tool's name.
	TaskQueue string
	Activity  string
	// Description and Schema, the JSON Schema of the arguments object, are for models.
	Description string
	Schema      string
	// StartSeconds is how long a call waits for a worker that takes it; 0 means 60.
	StartSeconds int
	// TimeoutSeconds bounds one attempt; 0 uses the flow's policy. HeartbeatSeconds is its heartbeat timeout;
	// 0: it sends none.
	TimeoutSeconds   int
	HeartbeatSeconds int
	// Attempts is how often a call that fails is made; 0 means 3.
	Attempts int
	// Retry is empty or "never": a call whose outcome is unknown is not made again.
	Retry string
	// Key passes the call's idempotency key as a second argument.
	Key bool
}

// ExternalActivity returns how a run schedules a tool that is an activity of another worker, and its description.
func (t *Tools) ExternalActivity(name string) (*contract.ExternalActivity, contract.ToolSpec, error) {
	a, ok := t.settings.Activities[name]
	if !ok {
		return nil, contract.ToolSpec{}, connectionFailure(fmt.Sprintf("tool %q is not an activity of another worker", name), t.bindRemedy(name))
	}
	how := &contract.ExternalActivity{
		Activity: cmp.Or(a.Activity, name), TaskQueue: a.TaskQueue, StartSeconds: cmp.Or(a.StartSeconds, 60), TimeoutSeconds: a.TimeoutSeconds,
		HeartbeatSeconds: a.HeartbeatSeconds, Attempts: int32(cmp.Or(a.Attempts, 3)), IdempotencyKey: a.Key,
	}
	if a.Retry == retryNever {
		how.Attempts = 1
	}
	schema := json.RawMessage(cmp.Or(a.Schema, `{"type":"object"}`))
	return how, contract.ToolSpec{Name: name, Description: a.Description, Schema: schema}, nil
}

func (a Activity) check(p *problems, at string) {
	if strings.TrimSpace(a.TaskQueue) == "" {
		p.add("%s.task_queue: is empty; name the task queue that the other worker polls", at)
	}
	if a.Retry == retryNever && a.Attempts > 1 {
		p.add("%s.attempts: is %d, but retry is never; leave one of them out", at, a.Attempts)
	}
	if a.Schema == "" {
		return
	}
	f := Function{spec: contract.ToolSpec{Schema: json.RawMessage(a.Schema)}}
	if err := f.compileSchema(nil); err != nil {
		p.add("%s.schema: %v", at, strings.TrimPrefix(err.Error(), "its schema "))
	}
}

// dialExternalActivity: no worker of Weft's own calls such a tool.
func dialExternalActivity(_ context.Context, at *target) (remote, error) {
	return nil, at.failure(contract.ClassConnection, "the tool is an activity of another worker, which the run itself calls",
		"start the run again with workers of one build")
}
