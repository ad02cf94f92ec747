package wait

import (
	"iter"
	"runtime/debug"
	"slices"

	"go.temporal.io/sdk/workflow"
)

// host is the SDK's coroutine in which those of a run take turns, in the order of their starts. While all wait, it receives
// messages.
type host struct {
	listeners  *Listeners
	coroutines []*coroutine
	// quiet is a context that nobody cancels.
	quiet workflow.Context
	// resumed counts turns since the SDK's coroutine yielded.
	resumed int
}

// coroutine is a function that stops where it waits.
type coroutine struct {
	host *host
	// ready reports whether it can continue; nil before it has started.
	ready func() bool
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

// maxTurns is after how many turns the SDK's coroutine yields: it must not run longer than the SDK allows.
const maxTurns = 64

// Run calls f, and returns when it has returned. Meanwhile what it starts by [Go] takes turns with it, and messages are received
// while all of them wait. What still waits at the end is unwound.
func Run(ctx workflow.Context, l *Listeners, f func(workflow.Context)) {
	h := &host{listeners: l}
	h.quiet, _ = workflow.NewDisconnectedContext(ctx)
	defer func() { stopAll(h.coroutines) }()
	main := h.start(ctx, "main", f)
	for rest := false; !main.ended; {
		// The turns are taken within the condition, because a wait that ends has the SDK resume all coroutines once more. Only
		// handlers of Updates need that, which it resumes before this one.
		_ = workflow.Await(h.quiet, func() bool {
			if rest {
				rest = false
				return false
			}
			taken := false
			for h.resumed = 0; !main.ended && !rest && (h.turns() || h.listeners.Take()); rest = h.resumed >= maxTurns {
				taken = true
			}
			return main.ended || rest || taken && !workflow.AllHandlersFinished(ctx)
		})
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
		if !c.yield(struct{}{}) {
			panic(unwound{})
		}
	}
	return nil
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
		h.resumed++
	}
	if ended {
		h.coroutines = slices.DeleteFunc(h.coroutines, func(c *coroutine) bool { return c.ended })
	}
	return taken
}
