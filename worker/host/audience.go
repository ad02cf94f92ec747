package host

import (
	"sync"
	"time"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// Audience tracks which runs are watched, of those in this worker's sticky cache: this worker gets their
// queries. It is a worker's interceptor.
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
