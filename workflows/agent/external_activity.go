package agent

import (
	"cmp"
	"encoding/json"
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/workflows/journal"
	"weft/workflows/runtime"
)

// callExternal calls a tool that is an activity of another worker. That worker knows nothing of
// Weft, nor of the store: it gets the arguments, and what it returns or fails with is the model's to read.
func (c *toolCall) callExternal(ctx workflow.Context) (contract.ToolReply, error) {
	r, e, id := c.agent.run, c.conn.ExternalActivity, c.id("tool")
	given := []any{c.args}
	if e.IdempotencyKey {
		given = append(given, contract.CallKey{IdempotencyKey: r.IdempotencyKey(id)})
	}
	if n, err := runtime.Size(given); err == nil && n > contract.MaxPayload {
		return runtime.ToolError("the call of %s is %d bytes, at most %d reach the worker that has it; "+
			"pass less, or a reference to data that is kept elsewhere", c.call.Name, n, contract.MaxPayload), nil
	}
	return c.step(ctx, id, runtime.HashOf(e.Activity, string(c.args), c.note), func(s *journal.Step) (contract.ToolReply, error) {
		var out json.RawMessage
		call := c.activity(e.Activity, s, c.args, &out)
		call.Options, call.Once, call.Remote, call.Result = elsewhereOptions(r, e), e.Attempts == 1, e, runtime.ResultSize{Bytes: contract.MaxPayload}
		err := r.Invoke(ctx, call)
		if err == nil {
			return contract.ToolReply{Text: c.note + Said(out)}, nil
		}
		if text, ok := e.ErrorText(err); ok && !contract.Cancelled(err) {
			return contract.ToolReply{Text: text, Failed: true}, nil
		}
		return contract.ToolReply{}, asReply(call, err)
	})
}

// Said is what an activity of another worker returned, as the model reads it: a text as it is, anything else as JSON.
func Said(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(textutil.Unescape(raw))
}

// elsewhereOptions are those of an activity of another worker.
func elsewhereOptions(r *runtime.Run, e *contract.ExternalActivity) workflow.ActivityOptions {
	o := r.Options(cmp.Or(e.TimeoutSeconds, r.Flow.Policy.ToolSeconds))
	o.RetryPolicy.MaximumAttempts = e.Attempts
	o.TaskQueue = e.TaskQueue
	o.ScheduleToStartTimeout = time.Duration(e.StartSeconds) * time.Second
	o.ScheduleToCloseTimeout = max(o.ScheduleToCloseTimeout, o.ScheduleToStartTimeout+o.StartToCloseTimeout)
	o.HeartbeatTimeout = time.Duration(e.HeartbeatSeconds) * time.Second
	o.WaitForCancellation = false // it may never hear of it
	return o
}
