// Package group runs calls in parallel.
package group

import (
	"errors"

	"go.temporal.io/sdk/workflow"

	"weft/workflows/runtime"
	"weft/workflows/wait"
)

// Group is a set of calls that run concurrently. The first failure cancels the others, so that none of them waits in vain.
type Group struct {
	ctx     workflow.Context
	cancel  workflow.CancelFunc
	left    int
	err     error
	yielded bool // a call has returned [runtime.ErrYield]
}

// New returns an empty group.
func New(ctx workflow.Context) *Group {
	g := &Group{}
	g.ctx, g.cancel = workflow.WithCancel(ctx)
	return g
}

// Start runs fn in a coroutine. The function it returns waits until fn has returned or another call of the group has failed,
// and returns that error.
func (g *Group) Start(fn func(workflow.Context) error) (ended func() error) {
	g.left++
	done := false
	var err error
	wait.Go(g.ctx, "call", func(ctx workflow.Context) {
		err = fn(ctx)
		done = true
		g.left--
		switch {
		case errors.Is(err, runtime.ErrYield):
			g.yielded = true
		case err != nil && g.err == nil:
			g.err = err
			g.cancel()
		}
	})
	return func() error {
		wait.UntilIgnoringCancel(g.ctx, func() bool { return done || g.err != nil })
		if !done {
			return g.err
		}
		return err
	}
}

// Wait waits until all calls have returned. It returns the first failure, or else [runtime.ErrYield] if a call has yielded.
func (g *Group) Wait() error {
	wait.UntilIgnoringCancel(g.ctx, func() bool { return g.left == 0 })
	defer g.cancel()
	if g.err == nil && g.yielded {
		return runtime.ErrYield
	}
	return g.err
}
