// Package watch lets interceptors observe runs, for metrics and traces.
package watch

import (
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// Watcher observes runs. It is called in workflow code, so it must neither issue commands nor block, and it is called again when a
// run is replayed, see [workflow.IsReplaying].
type Watcher interface {
	// Enter is called when a run begins an execution of a node, which uses the context that Enter returns. leave is called when
	// the execution ends in this run: with its error or nil, and with yielded if another run resumes it.
	Enter(ctx workflow.Context, at Visit) (inside workflow.Context, leave func(ctx workflow.Context, yielded bool, err error))
	// Open is called when a request opens in the run that owns it, and again in each run that continues that one. Request.OpenedAt
	// is set.
	Open(ctx workflow.Context, req *contract.Request)
	// Close is called when a request closes. answered is false if it was cancelled or has expired.
	Close(ctx workflow.Context, req *contract.Request, answered bool)
}

// Visit is an execution of a node.
type Visit struct {
	// Flow is the name of the flow that has the node.
	Flow string
	Node string
	Kind plan.Kind
	// Execution is node#step, followed by ~n for the n-th execution of that node and step.
	Execution string
}

type watchersKey struct{}

// With returns a context with a further watcher. An interceptor passes it to the run's workflow function.
func With(ctx workflow.Context, w Watcher) workflow.Context {
	return workflow.WithValue(ctx, watchersKey{}, append(Of(ctx), w))
}

// Watchers are the watchers of one run.
type Watchers []Watcher

// Of returns the watchers of the run with the context.
func Of(ctx workflow.Context) Watchers {
	watchers, _ := ctx.Value(watchersKey{}).(Watchers)
	return watchers[:len(watchers):len(watchers)]
}

// Enter reports that an execution starts. Each watcher's context derives from the previous one's.
func (w Watchers) Enter(ctx workflow.Context, at Visit) (inside workflow.Context, leave func(yielded bool, err error)) {
	outside, leaves := ctx, make([]func(workflow.Context, bool, error), len(w))
	for i := range w {
		ctx, leaves[i] = w[i].Enter(ctx, at)
	}
	return ctx, func(yielded bool, err error) {
		for _, l := range leaves {
			l(outside, yielded, err)
		}
	}
}

// Open reports that a request has opened.
func (w Watchers) Open(ctx workflow.Context, req *contract.Request) {
	for i := range w {
		w[i].Open(ctx, req)
	}
}

// Close reports that a request has closed.
func (w Watchers) Close(ctx workflow.Context, req *contract.Request, answered bool) {
	for i := range w {
		w[i].Close(ctx, req, answered)
	}
}
