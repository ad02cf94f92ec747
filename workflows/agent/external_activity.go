package agent

import (
	"encoding/json"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/workflows/journal"
	"weft/workflows/runtime"
)

// callExternal calls a tool that is an activity of another worker. That worker knows nothing of
// Weft, nor of the store: it gets the arguments, and what it returns or fails with is the model's to read.
func (c *toolCall) callExternal(ctx workflow.Context, b *contract.ResolvedConnection, args json.RawMessage, note string) (contract.ToolReply, error) {
	e := b.ExternalActivity
	given := []any{args}
	if e.IdempotencyKey {
		given = append(given, contract.CallKey{IdempotencyKey: c.agentRun.run.IdempotencyKey(c.id("tool"))})
	}
	if n, err := runtime.Size(given); err == nil && n > contract.MaxPayload {
		return runtime.ToolError("the call of %s is %d bytes, at most %d reach the worker that has it; "+
			"pass less, or a reference to data that is kept elsewhere", c.call.Name, n, contract.MaxPayload), nil
	}
	return c.toolStep(ctx, c.id("tool"), runtime.HashOf(e.Activity, string(args), note), func(s *journal.Step, reply *contract.ToolReply) error {
		var out json.RawMessage
		call := &runtime.Call{
			Activity: e.Activity, Args: []any{args}, What: "the call of " + c.call.Name, At: c.agentRun.execution, ID: c.id("tool"),
			Summary: fmt.Sprintf("%s · %s", c.agentRun.execution.Node.ID, c.call.Name), Options: elsewhereOptions(c.agentRun.run, e),
			Once: e.Attempts == 1, Remote: e, Result: runtime.ResultSize{Bytes: contract.MaxPayload}, Waiting: &s.JournalStep, Journal: c.agentRun.execution.Journal, Out: &out,
		}
		err := c.agentRun.run.Invoke(ctx, call)
		if err == nil {
			*reply = contract.ToolReply{Text: note + Said(out)}
			return nil
		}
		if text, ok := e.ErrorText(err); ok && !contract.Cancelled(err) {
			*reply = contract.ToolReply{Text: text, Failed: true}
			return nil
		}
		*reply, err = c.agentRun.toolFailed(call, err)
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
	return string(textutil.Unescape(raw))
}

// elsewhereOptions are those of an activity of another worker.
func elsewhereOptions(r *runtime.Run, e *contract.ExternalActivity) workflow.ActivityOptions {
	seconds := e.TimeoutSeconds
	if seconds == 0 {
		seconds = r.Flow.Policy.ToolSeconds
	}
	o := r.Options(seconds)
	o.RetryPolicy.MaximumAttempts = e.Attempts
	o.TaskQueue = e.TaskQueue
	o.ScheduleToStartTimeout = time.Duration(e.StartSeconds) * time.Second
	o.ScheduleToCloseTimeout = max(o.ScheduleToCloseTimeout, o.ScheduleToStartTimeout+o.StartToCloseTimeout)
	o.HeartbeatTimeout = time.Duration(e.HeartbeatSeconds) * time.Second
	o.WaitForCancellation = false // it may never hear of it
	return o
}
