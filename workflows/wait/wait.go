// Package wait contains the waits of workflow code. The coroutines of a run, and what receives its messages, share the one
// coroutine of the SDK that runs the workflow: the SDK resumes each of its own with every step of a run, which costs more than
// the step.
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

// Until waits until a condition holds. The error says that ctx was cancelled before.
func Until(ctx workflow.Context, cond func() bool) error {
	if c := of(ctx); c != nil {
		return c.until(ctx, cond)
	}
	return workflow.Await(ctx, cond)
}

// Get waits for a future and gets its value or error. A cancellation does not end the wait.
func Get(ctx workflow.Context, f workflow.Future, to any) error {
	if c := of(ctx); c != nil {
		if err := c.until(c.host.quiet, f.IsReady); err != nil {
			return err
		}
	}
	return f.Get(ctx, to)
}
