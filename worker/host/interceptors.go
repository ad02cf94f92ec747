package host

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// Audience tracks which runs in this worker's sticky cache are watched, by the queries that clients send to them.
// It is a worker interceptor.
type Audience struct {
	interceptor.WorkerInterceptorBase
	// until holds the cached runs by run id, and the [time.Time] until which each is watched.
	until sync.Map
}

// Watched reports whether a run may be watched. It is true for runs that are not cached here.
func (a *Audience) Watched(run string) bool {
	until, cached := a.until.Load(run)
	return !cached || time.Now().Before(until.(time.Time))
}

// watch records that a run is watched, if it is cached here.
func (a *Audience) watch(run string) {
	if until, cached := a.until.Load(run); cached {
		a.until.CompareAndSwap(run, until, time.Now().Add(contract.WatchedFor*time.Second))
	}
}

// InterceptWorkflow is called for each run that this worker caches.
func (a *Audience) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &watchedRun{interceptor.WorkflowInboundInterceptorBase{Next: next}, a}
}

// watchedRun is one run. It issues no commands, and no workflow code reads what it records.
type watchedRun struct {
	interceptor.WorkflowInboundInterceptorBase
	audience *Audience
}

// ExecuteWorkflow executes the run, until it closes or is evicted from the cache.
func (w *watchedRun) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	run := workflow.GetInfo(ctx).WorkflowExecution.RunID
	w.audience.until.Store(run, time.Time{})
	defer w.audience.until.Delete(run)
	return w.Next.ExecuteWorkflow(ctx, in)
}

func (w *watchedRun) HandleQuery(ctx workflow.Context, in *interceptor.HandleQueryInput) (any, error) {
	if in.QueryType == contract.QueryWatching {
		w.audience.watch(workflow.GetInfo(ctx).WorkflowExecution.RunID)
	}
	return w.Next.HandleQuery(ctx, in)
}

// stopGrace is the time that an activity cancelled at the end of the stop timeout has to report its
// cancellation to Temporal.
const stopGrace = 2 * time.Second

// stopInterceptor cancels activities that exceed the stop timeout while they can still report to Temporal.
// The SDK cancels them at the end of its own timeout without waiting for them, so that the activity would be retried
// only after its heartbeat timeout.
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
