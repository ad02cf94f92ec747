// Package wait contains the waits of workflow code. The main coroutine of a run receives messages while it waits: a separate
// coroutine for them would be resumed by every step of the run.
package wait

import "go.temporal.io/sdk/workflow"

// Listeners receive messages from channels.
type Listeners []listener

// listener is what receives the values of some channels.
type listener struct {
	take     func()
	channels []workflow.ReceiveChannel
}

// Add has take called when a channel holds something and the run waits. It must not wait itself.
func (l *Listeners) Add(take func(), channels ...workflow.ReceiveChannel) {
	*l = append(*l, listener{take, channels})
}

func (l *Listeners) hold() bool {
	for i := range *l {
		for _, c := range (*l)[i].channels {
			if c.Len() > 0 {
				return true
			}
		}
	}
	return false
}

func (l *Listeners) take() {
	for _, e := range *l {
		e.take()
	}
}

// TakeRest receives what came while the run, which ends now, did not wait.
func (l *Listeners) TakeRest() {
	if l.hold() {
		l.take()
	}
}

// listening are the listeners of a main coroutine, and its context without the cancellation.
type listening struct {
	listeners *Listeners
	quiet     workflow.Context
}

type listeningKey struct{}

// Listening returns the context with which the main coroutine of a run receives messages while it waits. It is for this
// coroutine alone.
func Listening(ctx workflow.Context, l *Listeners) workflow.Context {
	own := &listening{listeners: l}
	ctx = workflow.WithValue(ctx, listeningKey{}, own)
	own.quiet, _ = workflow.NewDisconnectedContext(ctx)
	return ctx
}

func of(ctx workflow.Context) *listening {
	l, _ := ctx.Value(listeningKey{}).(*listening)
	return l
}

// Go starts a coroutine, which receives no messages.
func Go(ctx workflow.Context, name string, f func(workflow.Context)) {
	if of(ctx) != nil {
		ctx = workflow.WithValue(ctx, listeningKey{}, (*listening)(nil))
	}
	workflow.GoNamed(ctx, name, f)
}

// Until waits until a condition holds. The error says that ctx was cancelled before.
func Until(ctx workflow.Context, cond func() bool) error {
	l := of(ctx)
	if l == nil {
		return workflow.Await(ctx, cond)
	}
	for {
		held := false
		err := workflow.Await(ctx, func() bool {
			held = cond()
			return held || l.listeners.hold()
		})
		if held || err != nil {
			return err
		}
		l.listeners.take()
		// What waits for the messages continues in the order of the coroutines.
		passed := false
		_ = workflow.Await(l.quiet, func() bool { defer func() { passed = true }(); return passed })
	}
}

// Get waits for a future and gets its value or error. A cancellation does not end the wait.
func Get(ctx workflow.Context, f workflow.Future, to any) error {
	if l := of(ctx); l != nil {
		if err := Until(l.quiet, f.IsReady); err != nil {
			return err
		}
	}
	return f.Get(ctx, to)
}
