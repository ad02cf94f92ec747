package runtime

import (
	"errors"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// asCancellation turns a timeout after a cancellation into a cancellation, because a worker that has died cannot report it.
func asCancellation(next invoker) invoker {
	return func(ctx workflow.Context, c *Call) error {
		err := next(ctx, c)
		if _, timeout := errors.AsType[*temporal.TimeoutError](err); timeout && errors.Is(ctx.Err(), workflow.ErrCanceled) {
			return ctx.Err()
		}
		return err
	}
}
