package activities

import (
	"context"
	"encoding/json"

	"go.temporal.io/sdk/activity"

	"weft/activities/contract"
)

// locally is an activity as [Activities.callLocally] makes its call.
type locally func(context.Context, *contract.LocalCall) (json.RawMessage, error)

func local[In, Out any](fn func(context.Context, In, *contract.Grant) (Out, error)) locally {
	return func(ctx context.Context, c *contract.LocalCall) (json.RawMessage, error) {
		var in In
		if err := json.Unmarshal(c.Argument, &in); err != nil {
			return nil, err
		}
		out, err := fn(ctx, in, c.Grant)
		if err != nil {
			return nil, err
		}
		return json.Marshal(out)
	}
}

// callLocally makes a call in the workflow task of its run. What fails there is made again as an activity, which says why.
func (a *Activities) callLocally(ctx context.Context, c *contract.LocalCall) (*contract.LocalResult, error) {
	result, err := a.local[c.Activity](ctx, c)
	if err != nil || len(c.Argument)+len(result) > c.MaxBytes {
		return &contract.LocalResult{}, nil
	}
	return &contract.LocalResult{ID: c.ID, Activity: c.Activity, Argument: c.Argument, Result: result}, nil
}

// errNotLocal is the error of what a local activity cannot do: the run that it is in answers nobody, and waits for it.
var errNotLocal = &contract.Failure{Class: contract.ClassUnavailable, Text: "a local activity asks neither its run nor a server"}

func isLocal(ctx context.Context) bool {
	return activity.IsActivity(ctx) && activity.GetInfo(ctx).IsLocalActivity
}
