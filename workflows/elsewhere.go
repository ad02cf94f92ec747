package workflows

import (
	"encoding/json"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// elsewhere calls a tool that is an activity of another worker. That worker knows nothing of
// Weft, nor of the store: it gets the arguments, and what it returns or fails with is the model's to read.
func (c *toolCall) elsewhere(ctx workflow.Context, b *contract.Bound, args json.RawMessage, note string) (toolReply, error) {
	e := b.Elsewhere
	var out json.RawMessage
	var reply *toolReply
	err := c.attempted(ctx, "tool", func(id string) error {
		given := []any{args}
		if e.Key {
			given = append(given, contract.CallKey{IdempotencyKey: c.store.run + "/" + boundID(id)})
		}
		if n, err := size(given); err == nil && n > maxPayload {
			reply = &toolReply{failed: true, text: fmt.Sprintf("the call of %s is %d bytes, at most %d reach the worker that has it; "+
				"pass less, or a reference to data that is kept elsewhere", c.call.Name, n, maxPayload)}
			return nil
		}
		leave, err := c.expect(ctx, "the result of "+c.call.Name)
		if err != nil {
			return err
		}
		defer leave()
		if err := c.guard.admit(ctx, "the call of "+c.call.Name, given); err != nil {
			return err
		}
		err = workflow.ExecuteActivity(c.elsewhereOptions(ctx, id, e), e.Activity, given...).Get(ctx, &out)
		if err == nil {
			return nil
		}
		reply, err = c.elsewhereFailed(e, err)
		return err
	})
	if err != nil || reply != nil {
		return orEmpty(reply), err
	}
	return toolReply{text: note + Said(out)}, nil
}

// Said is what an activity of another worker returned, as the model reads it: a text as it is,
// anything else as JSON.
func Said(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(unescape(raw))
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
	if text, ok := e.Told(err); ok {
		return &toolReply{text: text, failed: true}, nil
	}
	return c.toolFailed(e.Attempts == 1, err)
}
