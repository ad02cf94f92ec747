// Package watch lets interceptors observe runs, for metrics and traces.
package watch

import (
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// Watcher sees what runs do. It is called in workflow code, so it must neither command anything nor wait, and it is called again
// when a run is replayed, see [workflow.IsReplaying].
type Watcher interface {
	// Enter is called when a run begins an execution of a node, which works with the context that Enter returns. leave is called
	// when the execution ends there: with nil, with its error, or with yielded where another run goes on with it.
	Enter(ctx workflow.Context, at Visit) (inside workflow.Context, leave func(ctx workflow.Context, yielded bool, err error))
	// Open is called when a request begins to wait at the run that owns it, and in each run that continues that one.
	// Request.OpenedAt is set.
	Open(ctx workflow.Context, req *contract.Request)
	// Close is called when a request waits no more. answered is false where nobody waits any longer, or its time was over.
	Close(ctx workflow.Context, req *contract.Request, answered bool)
}

// Visit is an execution of a node.
type Visit struct {
	// Flow is the name of the flow that has the node.
	Flow string
	Node string
	Kind plan.Kind
	// Execution is node#step, with ~n behind it for the n-th with that node and step.
	Execution string
}

type watchersKey struct{}

// With adds a watcher of the run whose workflow function gets the context. It is for interceptors.
func With(ctx workflow.Context, w Watcher) workflow.Context {
	return workflow.WithValue(ctx, watchersKey{}, append(Of(ctx), w))
}

// Watchers are those of one run.
type Watchers []Watcher

// Of are the watchers of a run.
func Of(ctx workflow.Context) Watchers {
	all, _ := ctx.Value(watchersKey{}).(Watchers)
	return all[:len(all):len(all)]
}

// Enter reports that an execution starts. The last watcher's context is inside the others'.
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

// Open reports that a request starts to wait.
func (w Watchers) Open(ctx workflow.Context, req *contract.Request) {
	for i := range w {
		w[i].Open(ctx, req)
	}
}

// Close reports that a request no longer waits.
func (w Watchers) Close(ctx workflow.Context, req *contract.Request, answered bool) {
	for i := range w {
		w[i].Close(ctx, req, answered)
	}
}
