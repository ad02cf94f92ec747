package runtime

import (
	"errors"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// cancellable ends a call as cancelled that timed out after its cancellation: a worker that died does not report it.
func cancellable(next invoker) invoker {
	return func(ctx workflow.Context, c *Call) error {
		err := next(ctx, c)
		if _, timeout := errors.AsType[*temporal.TimeoutError](err); timeout && errors.Is(ctx.Err(), workflow.ErrCanceled) {
			return ctx.Err()
		}
		return err
	}
}
