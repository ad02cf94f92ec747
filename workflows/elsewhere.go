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
	given := []any{args}
	if e.Key {
		given = append(given, contract.CallKey{IdempotencyKey: c.agentRun.run.transcript.run + "/" + contract.BoundID(c.id("tool"))})
	}
	if n, err := size(given); err == nil && n > maxPayload {
		return toolError("the call of %s is %d bytes, at most %d reach the worker that has it; "+
			"pass less, or a reference to data that is kept elsewhere", c.call.Name, n, maxPayload), nil
	}
	return c.toolStep(ctx, e.Activity, args, note, func(s *journalStep, reply *toolReply) error {
		var out json.RawMessage
		err := c.agentRun.run.invoke(ctx, &call{
			activity: e.Activity, args: []any{args}, what: "the call of " + c.call.Name, at: c.agentRun.execution, id: c.id("tool"),
			summary: fmt.Sprintf("%s · %s", c.agentRun.execution.node.ID, c.call.Name), options: c.elsewhereOptions(e),
			once: e.Attempts == 1, remote: e, result: resultSize{unbounded: true}, waiting: &s.JournalStep, journal: c.agentRun.execution.journal, out: &out,
		})
		if err == nil {
			*reply = toolReply{Text: note + Said(out)}
			return nil
		}
		if text, ok := e.Told(err); ok && !contract.Cancelled(err) {
			*reply = toolReply{Text: text, Failed: true}
			return nil
		}
		*reply, err = c.agentRun.toolFailed(e.Attempts == 1, err)
		return err
	})
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

func (c *toolCall) elsewhereOptions(e *contract.Elsewhere) workflow.ActivityOptions {
	seconds := e.TimeoutSeconds
	if seconds == 0 {
		seconds = c.agentRun.run.flow.Policy.ToolSeconds
	}
	o := c.agentRun.run.options(seconds)
	o.RetryPolicy.MaximumAttempts = e.Attempts
	o.TaskQueue = e.TaskQueue
	o.ScheduleToStartTimeout = time.Duration(e.StartSeconds) * time.Second
	o.ScheduleToCloseTimeout = max(o.ScheduleToCloseTimeout, o.ScheduleToStartTimeout+o.StartToCloseTimeout)
	o.HeartbeatTimeout = time.Duration(e.HeartbeatSeconds) * time.Second
	o.WaitForCancellation = false // it may never hear of it
	return o
}
