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
	mu sync.Mutex
	// until holds the cached runs by run id, and until when each is watched.
	until map[string]time.Time
}

// NewAudience makes the interceptor of one worker.
func NewAudience() *Audience { return &Audience{until: map[string]time.Time{}} }

// Watched reports whether a run may be watched. It is true for runs that are not cached here.
func (a *Audience) Watched(run string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	until, cached := a.until[run]
	return !cached || time.Now().Before(until)
}

// add records that a run is cached here, and remove that it no longer is.
func (a *Audience) add(run string) (remove func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.until[run] = time.Time{}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.until, run)
	}
}

// watch records that a run is watched.
func (a *Audience) watch(run string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, cached := a.until[run]; cached {
		a.until[run] = time.Now().Add(contract.WatchedFor * time.Second)
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
	defer w.audience.add(workflow.GetInfo(ctx).WorkflowExecution.RunID)()
	return w.Next.ExecuteWorkflow(ctx, in)
}

// HandleQuery is called for each query of the run.
func (w *watchedRun) HandleQuery(ctx workflow.Context, in *interceptor.HandleQueryInput) (any, error) {
	if in.QueryType == contract.QueryWatching {
		w.audience.watch(workflow.GetInfo(ctx).WorkflowExecution.RunID)
	}
	return w.Next.HandleQuery(ctx, in)
}
