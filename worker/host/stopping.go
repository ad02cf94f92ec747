package host

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
)

// stopGrace is how long an activity that is cancelled at the end of the stop timeout has to report that
// to Temporal.
const stopGrace = 2 * time.Second

// stopInterceptor cancels activities that exceed the stop timeout while they can still report to Temporal.
// The SDK cancels them at the end of its own timeout and does not wait: the activity would be retried only
// after its heartbeat timeout.
type stopInterceptor struct {
	interceptor.WorkerInterceptorBase
	after time.Duration
}

func (c *stopInterceptor) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &stoppingActivity{interceptor.ActivityInboundInterceptorBase{Next: next}, c.after}
}

type stoppingActivity struct {
	interceptor.ActivityInboundInterceptorBase
	after time.Duration
}

func (c *stoppingActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-activity.GetWorkerStopChannel(ctx):
		}
		select {
		case <-ctx.Done():
		case <-time.After(c.after):
			cancel()
		}
	}()
	return c.Next.ExecuteActivity(ctx, in)
}
