package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"weft/activities/contract"
)

// SettingActivities is the section of weft.yaml for activities of other workers.
const SettingActivities = "activities"

// Activity configures a tool that is an activity of another worker. The run schedules it directly.
type Activity struct {
	TaskQueue        string        `mapstructure:"task_queue" doc:"task queue of the other worker, which implements the tool NAME as an activity"`
	Activity         string        `mapstructure:"activity" doc:"activity type on that worker; default: NAME"`
	Description      string        `mapstructure:"description" doc:"description of the tool for models"`
	Schema           string        `mapstructure:"schema" doc:"JSON Schema of its arguments object, as JSON; default: any object"`
	StartTimeout     time.Duration `mapstructure:"start_timeout" unit:"1s" max:"277h" doc:"how long a call waits for that worker to start it; default: 1m"`
	Timeout          time.Duration `mapstructure:"timeout" unit:"1s" max:"277h" doc:"timeout of one attempt"`
	HeartbeatTimeout time.Duration `mapstructure:"heartbeat_timeout" unit:"1s" max:"277h" doc:"heartbeat timeout; default: none"`
	Attempts         int           `mapstructure:"attempts" max:"1000000" doc:"maximum attempts of one call; default: 3"`
	Retry            string        `mapstructure:"retry" oneof:"never" doc:"never: a call whose outcome is unknown is not repeated"`
	Key              bool          `mapstructure:"idempotency_key" default:"false" doc:"true: the call's idempotency key is the second argument, {\"idempotency_key\": ...}"`
}

// ExternalActivity returns how a run schedules a tool that is an activity of another worker, and its description.
func (t *Tools) ExternalActivity(name string) (*contract.ExternalActivity, contract.ToolSpec, error) {
	a, ok := t.settings.Activities[name]
	if !ok {
		return nil, contract.ToolSpec{}, connectionFailure(fmt.Sprintf("tool %q is not an activity of another worker", name), t.bindRemedy(name))
	}
	how := &contract.ExternalActivity{
		Activity: cmp.Or(a.Activity, name), TaskQueue: a.TaskQueue, StartSeconds: seconds(cmp.Or(a.StartTimeout, time.Minute)), TimeoutSeconds: seconds(a.Timeout),
		HeartbeatSeconds: seconds(a.HeartbeatTimeout), Attempts: int32(cmp.Or(a.Attempts, 3)), IdempotencyKey: a.Key,
	}
	if a.Retry == retryNever {
		how.Attempts = 1
	}
	schema := json.RawMessage(cmp.Or(a.Schema, `{"type":"object"}`))
	return how, contract.ToolSpec{Name: name, Description: a.Description, Schema: schema}, nil
}

func seconds(d time.Duration) int { return int(d / time.Second) }

func (a Activity) check(p *problems, at string) {
	p.addIf(strings.TrimSpace(a.TaskQueue) == "", "%s.task_queue: is empty; set it to the task queue that the other worker polls", at)
	p.addIf(a.Retry == retryNever && a.Attempts > 1, "%s.attempts: is %d, but retry is never; remove one of them", at, a.Attempts)
	if a.Schema == "" {
		return
	}
	f := Function{spec: contract.ToolSpec{Schema: json.RawMessage(a.Schema)}}
	if err := f.compileSchema(nil); err != nil {
		p.add("%s.schema: %v", at, strings.TrimPrefix(err.Error(), "its schema "))
	}
}

// dialExternalActivity always fails, because runs schedule these tools directly and no worker of Weft calls them.
func dialExternalActivity(_ context.Context, at *target) (remote, error) {
	return nil, at.failure(contract.ClassConnection, "the tool is an activity of another worker, which the run schedules itself",
		"run the same build on all workers, and start the run again")
}
