package wait

import (
	"iter"
	"runtime/debug"
	"slices"

	"go.temporal.io/sdk/workflow"
)

// host is the SDK's coroutine that runs the workflow: the first of the run's coroutines, with which the others take turns in the
// order of their starts. While all wait, it receives messages.
type host struct {
	listeners  *Listeners
	coroutines []*coroutine
	// quiet is a context that nobody cancels.
	quiet workflow.Context
	// resumed counts the turns.
	resumed int
}

// coroutine is a function that stops where it waits.
type coroutine struct {
	host *host
	// ready reports whether it can continue; nil before it has started.
	ready func() bool
	// yield is nil for the first coroutine of a run, which is the SDK's own.
	yield func(struct{}) bool
	next  func() (struct{}, bool)
	stop  func()
	ended bool
}

type coroutineKey struct{}

func of(ctx workflow.Context) *coroutine {
	c, _ := ctx.Value(coroutineKey{}).(*coroutine)
	return c
}

// unwound is the panic that unwinds a coroutine whose run has ended.
type unwound struct{}

// maxTurns is how many turns are taken before the SDK's coroutine yields: it must not run longer than the SDK allows.
const maxTurns = 64

// Run calls f, and returns when it has returned. Meanwhile what it starts by [Go] takes turns with it, and messages are received
// while all of them wait. What still waits at the end is unwound.
func Run(ctx workflow.Context, l *Listeners, f func(workflow.Context)) {
	h := &host{listeners: l}
	h.quiet, _ = workflow.NewDisconnectedContext(ctx)
	defer func() { stopAll(h.coroutines) }()
	f(workflow.WithValue(ctx, coroutineKey{}, &coroutine{host: h}))
	h.turns()
}

// await has the others take turns, and receives messages, until the first coroutine is ready.
func (h *host) await(ready func() bool) {
	for h.turns(); !ready(); {
		switch {
		case h.turns(), h.listeners.Take():
		default:
			_ = workflow.Await(h.quiet, func() bool { return ready() || h.ready() || h.listeners.hold() })
		}
	}
}

// stopAll unwinds coroutines, also where one panics.
func stopAll(all []*coroutine) {
	if len(all) > 0 {
		defer stopAll(all[1:])
		all[0].stop()
	}
}

// Go starts a coroutine. It runs when the one that calls waits.
func Go(ctx workflow.Context, name string, f func(workflow.Context)) {
	if c := of(ctx); c != nil {
		c.host.start(ctx, name, f)
		return
	}
	workflow.GoNamed(ctx, name, f)
}

func (h *host) start(ctx workflow.Context, name string, f func(workflow.Context)) *coroutine {
	c := &coroutine{host: h}
	ctx = workflow.WithValue(ctx, coroutineKey{}, c)
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			switch p := recover().(type) {
			case nil, unwound:
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
		if c.yield == nil {
			c.host.await(c.ready)
		} else if !c.yield(struct{}{}) {
			panic(unwound{})
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

// turns resumes each coroutine that can continue, those included that start meanwhile, and reports whether there was one.
func (h *host) turns() bool {
	taken, ended := false, false
	for i := 0; i < len(h.coroutines); i++ {
		c := h.coroutines[i]
		if c.ready != nil && !c.ready() {
			continue
		}
		_, waits := c.next()
		c.ended = !waits
		taken, ended = true, ended || c.ended
		if h.resumed++; h.resumed%maxTurns == 0 {
			again := false
			_ = workflow.Await(h.quiet, func() bool { defer func() { again = true }(); return again })
		}
	}
	if ended {
		h.coroutines = slices.DeleteFunc(h.coroutines, func(c *coroutine) bool { return c.ended })
	}
	return taken
}
