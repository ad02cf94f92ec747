package host

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
)

// stopGrace is how long a call that is cut at the end of the stop timeout has to say so to Temporal.
const stopGrace = 2 * time.Second

// cutter cuts calls that are longer than the stop timeout while Temporal can still hear of it. The
// SDK does so at the end of its own timeout and waits for nothing then: the call would stand still
// until its heartbeats are missed.
type cutter struct {
	interceptor.WorkerInterceptorBase
	after time.Duration
}

// InterceptActivity is called for each call of an activity.
func (c *cutter) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &cutCall{interceptor.ActivityInboundInterceptorBase{Next: next}, c.after}
}

type cutCall struct {
	interceptor.ActivityInboundInterceptorBase
	after time.Duration
}

// ExecuteActivity is the call.
func (c *cutCall) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-activity.GetWorkerStopChannel(ctx):
		}
		late := time.NewTimer(c.after)
		defer late.Stop()
		select {
		case <-ctx.Done():
		case <-late.C:
			cut()
		}
	}()
	return c.Next.ExecuteActivity(ctx, in)
}
