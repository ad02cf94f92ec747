package workflows

import (
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// counted counts what a call of a model spent without giving a result: a call that was cancelled counts
// as stopped, and one that failed although a model answered counts with what it took. What a call that
// succeeded spent is in its result.
func (r *run) counted(next invoker) invoker {
	return func(ctx workflow.Context, c *call) error {
		started := ctx.Err() == nil
		err := next(ctx, c)
		switch {
		case err == nil || c.model == nil:
		case !contract.Cancelled(err):
			if f := contract.FailureOf(err); f.Usage != nil {
				r.usage.Add(*f.Usage)
			}
		case started:
			r.usage.Stopped++
		}
		return err
	}
}
