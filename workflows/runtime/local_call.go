package runtime

import (
	"encoding/json"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/wait"
)

// Bounds of [Call.Local].
const (
	LocalBytes   = 32 << 10
	LocalCompile = 256 << 10
)

// localOptions bound a call in a workflow task, which holds up all else of the run. It is made once there.
var localOptions = workflow.LocalActivityOptions{StartToCloseTimeout: 2 * time.Second, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}}

// callLocally makes a call in the workflow task, and reports whether it could. What it could not is an activity's, with
// its retries and its failures.
func (r *Run) callLocally(ctx workflow.Context, c *Call, summary string) (made bool, _ error) {
	if c.Local == 0 {
		return false, nil
	}
	if err := r.Sizes.Wait(ctx, c.Local); err != nil {
		return false, err
	}
	o := localOptions
	o.Summary = summary
	var out contract.LocalResult
	err := wait.Get(ctx, workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, o), contract.ActivityCallLocally, &contract.LocalCall{
		ID: contract.BoundID(r.place + c.ID), Activity: c.Activity, Argument: c.encoded[0].Payload().GetData(), Grant: r.Shared.Grant, MaxBytes: c.Local,
	}), &out)
	if ctx.Err() != nil || err != nil || len(out.Result) == 0 {
		return false, ctx.Err()
	}
	return true, json.Unmarshal(out.Result, c.Out)
}
