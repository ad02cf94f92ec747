package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// elsewhere calls a tool that is an activity of another worker. That worker knows nothing of
// Weft: it gets the arguments, and what it returns or fails with is the model's to read.
func (c *toolCall) elsewhere(ctx workflow.Context, b *contract.Bound, args json.RawMessage, note string) (toolReply, error) {
	e := b.Elsewhere
	var out json.RawMessage
	var reply *toolReply
	err := c.attempted(ctx, "tool", func(id string) error {
		given := []any{args}
		if e.Key {
			given = append(given, contract.CallKey{IdempotencyKey: c.store.run + "/" + boundID(id)})
		}
		if err := c.guard.admit(ctx, "the call of "+c.call.Name, given); err != nil {
			return err
		}
		err := workflow.ExecuteActivity(c.elsewhereOptions(ctx, id, e), e.Activity, given...).Get(ctx, &out)
		if err == nil {
			return nil
		}
		reply, err = c.elsewhereFailed(e, err)
		return err
	})
	if err != nil || reply != nil {
		return orEmpty(reply), err
	}
	text := string(unescape(out))
	if said := ""; json.Unmarshal(out, &said) == nil {
		text = said
	}
	return toolReply{text: note + text}, nil
}

func (c *toolCall) elsewhereOptions(ctx workflow.Context, id string, e *contract.Elsewhere) workflow.Context {
	seconds := e.TimeoutSeconds
	if seconds == 0 {
		seconds = c.flow.Policy.ToolSeconds
	}
	o := workflow.GetActivityOptions(c.options(ctx, id, fmt.Sprintf("%s · %s", c.node.ID, c.call.Name), seconds, e.Attempts))
	o.TaskQueue = e.TaskQueue
	o.ScheduleToStartTimeout = time.Duration(e.StartSeconds) * time.Second
	o.ScheduleToCloseTimeout = max(o.ScheduleToCloseTimeout, o.ScheduleToStartTimeout+o.StartToCloseTimeout)
	o.HeartbeatTimeout = time.Duration(e.HeartbeatSeconds) * time.Second
	o.WaitForCancellation = false // it may never hear of it
	return workflow.WithActivityOptions(ctx, o)
}

// elsewhereFailed is [agentRun.toolFailed] for an activity of another worker: what that says
// itself goes to the model, as does that nobody took the call.
func (c *toolCall) elsewhereFailed(e *contract.Elsewhere, err error) (*toolReply, error) {
	if contract.Cancelled(err) {
		return nil, err
	}
	var late *temporal.TimeoutError
	if errors.As(err, &late) && late.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START {
		return &toolReply{failed: true, text: fmt.Sprintf("nobody took the call within %d seconds: no worker polls the task queue %q, or all are busy", e.StartSeconds, e.TaskQueue)}, nil
	}
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		if classed(app) {
			return c.toolFailed(e.Attempts == 1, err)
		}
		return &toolReply{text: app.Message(), failed: true}, nil
	}
	return c.toolFailed(e.Attempts == 1, err)
}

// classed says whether an error is a failure of the contract's, with all that belongs to it.
func classed(app *temporal.ApplicationError) bool {
	var f contract.Failure
	return app.HasDetails() && app.Details(&f) == nil && f.Class != "" && f.Class == app.Type()
}
