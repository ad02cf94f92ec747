package runtime

import (
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// withUsage counts the usage of a model call, even of one that failed after the model had answered. A cancelled call counts as
// stopped.
func (r *Run) withUsage(next invoker) invoker {
	return func(ctx workflow.Context, c *Call) error {
		started := ctx.Err() == nil
		err := next(ctx, c)
		switch {
		case c.Model == nil:
		case err == nil:
			if s, ok := c.Out.(interface{ Spent() contract.Usage }); ok {
				r.Budget.Usage.Add(s.Spent())
			}
		case !contract.Cancelled(err):
			if f := contract.FailureOf(err); f.Usage != nil {
				r.Budget.Usage.Add(*f.Usage)
			}
		case started:
			r.Budget.Usage.Stopped++
		}
		return err
	}
}
