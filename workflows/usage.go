package workflows

import (
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// spender is the result of a call of a model.
type spender interface {
	Spent() contract.Usage
}

// counted counts what a call of a model spent. A call that was cancelled counts as stopped, and one that
// failed although a model answered counts with what it took.
func (r *run) counted(next invoker) invoker {
	return func(ctx workflow.Context, c *call) error {
		started := ctx.Err() == nil
		err := next(ctx, c)
		switch {
		case c.model == nil:
		case err == nil:
			if s, ok := c.out.(spender); ok {
				r.budget.usage.Add(s.Spent())
			}
		case !contract.Cancelled(err):
			if f := contract.FailureOf(err); f.Usage != nil {
				r.budget.usage.Add(*f.Usage)
			}
		case started:
			r.budget.usage.Stopped++
		}
		return err
	}
}
