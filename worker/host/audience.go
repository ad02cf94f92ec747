package host

import (
	"sync"
	"time"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// Audience knows which runs somebody watches, of those whose workflows are held in this worker's
// memory: their queries come here. It is a worker's interceptor.
type Audience struct {
	interceptor.WorkerInterceptorBase
	mu sync.Mutex
	// until has the runs held, by run id, and how long each is watched.
	until map[string]time.Time
}

// NewAudience is an interceptor of one worker that knows nobody who watches.
func NewAudience() *Audience { return &Audience{until: map[string]time.Time{}} }

// Watched reports whether somebody may be watching a run. Of one that another worker holds, nothing
// is known here.
func (a *Audience) Watched(run string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	until, held := a.until[run]
	return !held || time.Now().Before(until)
}

// hold notes that a run is held here, and forget that it is not any more.
func (a *Audience) hold(run string) (forget func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.until[run] = time.Time{}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.until, run)
	}
}

// see notes that somebody watches a run.
func (a *Audience) see(run string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, held := a.until[run]; held {
		a.until[run] = time.Now().Add(contract.WatchedFor * time.Second)
	}
}

// InterceptWorkflow is called for each run that comes into this worker's memory.
func (a *Audience) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &attended{interceptor.WorkflowInboundInterceptorBase{Next: next}, a}
}

// attended is one run. It commands nothing, and what it notes no workflow reads.
type attended struct {
	interceptor.WorkflowInboundInterceptorBase
	audience *Audience
}

// ExecuteWorkflow is the run, until it ends or leaves the worker's memory.
func (w *attended) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	defer w.audience.hold(workflow.GetInfo(ctx).WorkflowExecution.RunID)()
	return w.Next.ExecuteWorkflow(ctx, in)
}

// HandleQuery is called for each query of the run.
func (w *attended) HandleQuery(ctx workflow.Context, in *interceptor.HandleQueryInput) (any, error) {
	if in.QueryType == contract.QueryWatching {
		w.audience.see(workflow.GetInfo(ctx).WorkflowExecution.RunID)
	}
	return w.Next.HandleQuery(ctx, in)
}
