package wait

import (
	"errors"
	"iter"
	"runtime/debug"

	"go.temporal.io/sdk/workflow"
)

// host is the coroutine of the SDK in which those of a run take turns: first the run's main one, then the others in the order of
// their starts. While it waits itself, it resumes those that can continue, and receives messages.
type host struct {
	listeners  *Listeners
	coroutines []*coroutine
	quiet      workflow.Context
	// resumed counts since the SDK's coroutine last yielded.
	resumed int
}

// coroutine is one of a run: a function that stops where it waits. The main one has no yield.
type coroutine struct {
	host *host
	// quiet is the coroutine's context, which nobody cancels.
	quiet workflow.Context
	// ready reports whether it can continue; nil before it has started.
	ready func() bool
	yield func(struct{}) bool
	next  func() (struct{}, bool)
	stop  func()
}

type coroutineKey struct{}

func of(ctx workflow.Context) *coroutine {
	c, _ := ctx.Value(coroutineKey{}).(*coroutine)
	return c
}

// errStopped unwinds a coroutine whose run has ended.
var errStopped = errors.New("the run has ended")

// maxResumed is how many coroutines are resumed before the SDK's yields: it must not run longer than the SDK allows.
const maxResumed = 64

// Host makes the SDK's coroutine the host of the run's, which is for it alone. It receives messages while it waits. What still
// waits when it ends is to be stopped.
func Host(ctx workflow.Context, l *Listeners) (hosting workflow.Context, stop func()) {
	h := &host{listeners: l}
	hosting, main := h.with(ctx)
	h.quiet = main.quiet
	return hosting, func() { stopAll(h.coroutines) }
}

// with returns the context of a new coroutine.
func (h *host) with(ctx workflow.Context) (workflow.Context, *coroutine) {
	c := &coroutine{host: h}
	ctx = workflow.WithValue(ctx, coroutineKey{}, c)
	c.quiet, _ = workflow.NewDisconnectedContext(ctx)
	return ctx, c
}

// stopAll stops them all, also where one panics.
func stopAll(all []*coroutine) {
	if len(all) > 0 {
		defer stopAll(all[1:])
		all[0].stop()
	}
}

// Go starts a coroutine. It runs when the one that calls waits.
func Go(ctx workflow.Context, name string, f func(workflow.Context)) {
	in := of(ctx)
	if in == nil {
		workflow.GoNamed(ctx, name, f)
		return
	}
	own, c := in.host.with(ctx)
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if p := recover(); p != nil && p != errStopped {
				workflow.GetLogger(own).Error("panic", "coroutine", name, "stack", string(debug.Stack()))
				panic(p)
			}
		}()
		c.yield = yield
		f(own)
	})
	in.host.coroutines = append(in.host.coroutines, c)
}

func (c *coroutine) until(ctx workflow.Context, cond func() bool) error {
	for !cond() {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.ready = func() bool { return cond() || ctx.Err() != nil }
		if !c.yield(struct{}{}) {
			panic(errStopped)
		}
	}
	return nil
}

func (h *host) until(ctx workflow.Context, cond func() bool) error {
	for !cond() {
		if h.listeners.hold() {
			h.listeners.take()
			h.pass() // what waits for the messages continues in the order of the coroutines
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if h.pass() {
			continue
		}
		if err := workflow.Await(ctx, func() bool { return cond() || h.listeners.hold() || h.ready() }); err != nil {
			return err
		}
	}
	return nil
}

func (h *host) ready() bool {
	for _, c := range h.coroutines {
		if c.ready == nil || c.ready() {
			return true
		}
	}
	return false
}

// pass resumes each coroutine that can continue, those included that start meanwhile, and reports whether there was one.
func (h *host) pass() bool {
	moved := false
	for i := 0; i < len(h.coroutines); i++ {
		c := h.coroutines[i]
		if c.ready != nil && !c.ready() {
			continue
		}
		moved = true
		if _, waits := c.next(); !waits {
			h.coroutines = append(h.coroutines[:i], h.coroutines[i+1:]...)
			i--
		}
		if h.resumed++; h.resumed%maxResumed == 0 {
			h.pause()
		}
	}
	return moved
}

// pause has the SDK's coroutine yield.
func (h *host) pause() {
	again := false
	_ = workflow.Await(h.quiet, func() bool { defer func() { again = true }(); return again })
}
