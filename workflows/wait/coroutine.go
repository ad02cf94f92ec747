package wait

import (
	"iter"
	"runtime/debug"
	"slices"

	"go.temporal.io/sdk/workflow"
)

// scheduler runs the coroutines of a run in turn, in the order of their starts, within one coroutine of the SDK. While all of them
// wait, it receives messages.
type scheduler struct {
	listeners  *Listeners
	coroutines []*coroutine
	// uncancelled is a context that is never cancelled.
	uncancelled workflow.Context
	// turns counts the turns since the SDK's coroutine yielded.
	turns int
}

// coroutine is a function that is suspended while it waits.
type coroutine struct {
	scheduler *scheduler
	// ready reports whether it can continue; nil before it has started.
	ready func() bool
	yield func(struct{}) bool
	next  func() (struct{}, bool)
	stop  func()
	ended bool
}

type coroutineKey struct{}

func current(ctx workflow.Context) *coroutine {
	c, _ := ctx.Value(coroutineKey{}).(*coroutine)
	return c
}

// unwind is the panic value that unwinds a coroutine whose run has ended.
type unwind struct{}

// maxTurns is the number of turns after which the SDK's coroutine yields, to stay below the SDK's deadlock timeout.
const maxTurns = 64

// Run calls f and returns when f has returned. Coroutines that f starts by [Go] take turns with it, and messages are received while
// all of them wait. Coroutines that still wait at the end are unwound: their deferred calls run.
func Run(ctx workflow.Context, l *Listeners, f func(workflow.Context)) {
	h := &scheduler{listeners: l}
	h.uncancelled, _ = workflow.NewDisconnectedContext(ctx)
	defer func() { stopAll(h.coroutines) }()
	main := h.start(ctx, "main", f)
	for yield := false; !main.ended; {
		// The turns are taken within the condition, because the SDK resumes all its coroutines once more after a wait ends. Only
		// handlers of Updates need that; the SDK resumes them before this coroutine.
		_ = workflow.Await(h.uncancelled, func() bool {
			if yield {
				yield = false
				return false
			}
			progressed := false
			for h.turns = 0; !main.ended && !yield && (h.resumeReady() || h.listeners.Take()); yield = h.turns >= maxTurns {
				progressed = true
			}
			return main.ended || yield || progressed && !workflow.AllHandlersFinished(ctx)
		})
	}
}

// stopAll unwinds all coroutines, even if one panics.
func stopAll(all []*coroutine) {
	if len(all) > 0 {
		defer stopAll(all[1:])
		all[0].stop()
	}
}

// Go starts a coroutine. It first runs when the calling coroutine waits.
func Go(ctx workflow.Context, name string, f func(workflow.Context)) {
	if c := current(ctx); c != nil {
		c.scheduler.start(ctx, name, f)
		return
	}
	workflow.GoNamed(ctx, name, f)
}

func (h *scheduler) start(ctx workflow.Context, name string, f func(workflow.Context)) *coroutine {
	c := &coroutine{scheduler: h}
	ctx = workflow.WithValue(ctx, coroutineKey{}, c)
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			switch p := recover().(type) {
			case nil, unwind:
			default:
				workflow.GetLogger(ctx).Error("panic", "coroutine", name, "stack", string(debug.Stack()))
				panic(p)
			}
		}()
		c.yield = yield
		f(ctx)
	})
	h.coroutines = append(h.coroutines, c)
	return c
}

func (c *coroutine) until(ctx workflow.Context, cond func() bool) error {
	for !cond() {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.ready = func() bool { return cond() || ctx.Err() != nil }
		if !c.yield(struct{}{}) {
			panic(unwind{})
		}
	}
	return nil
}

// resumeReady resumes each coroutine that can continue, including those that start meanwhile, and reports whether there was one.
func (h *scheduler) resumeReady() bool {
	progressed, ended := false, false
	for i := 0; i < len(h.coroutines); i++ {
		c := h.coroutines[i]
		if c.ready != nil && !c.ready() {
			continue
		}
		_, waits := c.next()
		c.ended = !waits
		progressed, ended = true, ended || c.ended
		h.turns++
	}
	if ended {
		h.coroutines = slices.DeleteFunc(h.coroutines, func(c *coroutine) bool { return c.ended })
	}
	return progressed
}
