// Package wait contains the waits of workflow code. The main coroutine of a run receives messages while it waits: a separate
// coroutine for them would be resumed by every step of the run.
package wait

import "go.temporal.io/sdk/workflow"

// Taker receives messages.
type Taker interface {
	// Holds reports whether messages have come.
	Holds() bool
	// Take receives them. It does not wait.
	Take()
}

// taking is the taker of a main coroutine, and its context without the cancellation.
type taking struct {
	Taker
	quiet workflow.Context
}

type takingKey struct{}

// Taking returns the context with which the main coroutine of a run receives messages while it waits. It is for this coroutine
// alone.
func Taking(ctx workflow.Context, t Taker) workflow.Context {
	own := &taking{Taker: t}
	ctx = workflow.WithValue(ctx, takingKey{}, own)
	own.quiet, _ = workflow.NewDisconnectedContext(ctx)
	return ctx
}

func of(ctx workflow.Context) *taking {
	t, _ := ctx.Value(takingKey{}).(*taking)
	return t
}

// Go starts a coroutine, which receives no messages.
func Go(ctx workflow.Context, name string, f func(workflow.Context)) {
	if of(ctx) != nil {
		ctx = workflow.WithValue(ctx, takingKey{}, (*taking)(nil))
	}
	workflow.GoNamed(ctx, name, f)
}

// Until waits until a condition holds. The error says that ctx was cancelled before.
func Until(ctx workflow.Context, cond func() bool) error {
	t := of(ctx)
	if t == nil {
		return workflow.Await(ctx, cond)
	}
	for {
		held := false
		err := workflow.Await(ctx, func() bool {
			held = cond()
			return held || t.Holds()
		})
		if held || err != nil {
			return err
		}
		t.Take()
		// What waits for the messages continues in the order of the coroutines.
		passed := false
		_ = workflow.Await(t.quiet, func() bool { defer func() { passed = true }(); return passed })
	}
}

// Get waits for a future and gets its value or error. A cancellation does not end the wait.
func Get(ctx workflow.Context, f workflow.Future, to any) error {
	if t := of(ctx); t != nil {
		if err := Until(t.quiet, f.IsReady); err != nil {
			return err
		}
	}
	return f.Get(ctx, to)
}
