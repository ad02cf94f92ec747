// Package serverrequest answers the requests that servers send during a tool call, while the activity keeps the call open.
//
// The activity sends its run an Update with the server's request, and waits for the result. An open request
// is closed when the call ends for any reason, and when the attempt of the activity that sent it ends.
package serverrequest

import (
	"encoding/json"
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/argument"
	"weft/workflows/wait"
)

// maxOpen limits the open requests of a run: Temporal allows ten Updates in flight per run, and clients need some of them.
const maxOpen = 6

// Shape describes the JSON of the Update in error messages.
const Shape = `{"call": "…", "attempt": 1, "n": 1, "ask": {…}}: sent by the run's activities`

// Queue queues the requests of one call; none is answered once the call is cancelled. The zero value is ready to use.
type Queue struct {
	pending []*question
	closed  bool
}

// Serve calls answer for each request, each in a coroutine of its own, until ctx is done. The context passed to answer is
// cancelled once the request is no longer pending.
func (q *Queue) Serve(ctx workflow.Context, answer func(workflow.Context, *contract.ServerRequest) (*contract.ServerAnswer, error)) {
	const name = "answer a server"
	wait.Go(ctx, name, func(ctx workflow.Context) {
		for wait.Until(ctx, func() bool { return len(q.pending) > 0 }) == nil {
			next := q.pending[0]
			q.pending = q.pending[1:]
			wait.Go(next.ctx, name, func(ctx workflow.Context) {
				next.answer, next.err = answer(ctx, next.request)
			})
		}
		q.closed = true
	})
}

// Calls are the calls in progress of a run whose servers may send requests.
type Calls struct {
	calls []*call
	open  int
}

type call struct {
	ctx       workflow.Context
	id        string
	queue     *Queue
	questions []*question
}

type question struct {
	request *contract.ServerRequest
	ctx     workflow.Context
	cancel  workflow.CancelFunc
	// answer or err is set once it is answered.
	answer *contract.ServerAnswer
	err    error
}

// Begin registers a call with its context until end is called.
func (c *Calls) Begin(ctx workflow.Context, id string, queue *Queue) (end func()) {
	ctx, cancel := workflow.WithCancel(ctx)
	k := &call{ctx: ctx, id: id, queue: queue}
	c.calls = append(c.calls, k)
	return func() {
		cancel()
		c.calls = slices.DeleteFunc(c.calls, func(o *call) bool { return o == k })
	}
}

// Admit rejects a request of an unknown call, and one that exceeds maxOpen.
func (c *Calls) Admit(raw json.RawMessage) error {
	in, _, err := c.read(raw)
	if err == nil && c.open >= maxOpen && !in.Withdrawn {
		err = contract.Failf(contract.ClassUnavailable, "send it again later", "%d server requests are open already", c.open)
	}
	return err
}

// read decodes a request and finds its call.
func (c *Calls) read(raw json.RawMessage) (*contract.ServerRequest, *call, error) {
	in := &contract.ServerRequest{}
	if err := argument.DecodeStrict(raw, in); err != nil {
		return nil, nil, contract.Failf(contract.ClassBadRequest, "", "invalid server request: %v", err)
	}
	for _, k := range c.calls {
		if k.id == in.Call {
			return in, k, nil
		}
	}
	return nil, nil, contract.Failf(contract.ClassUnknownRequest, "", "no call %q in progress accepts server requests", in.Call)
}

// Take answers a request, or withdraws one.
func (c *Calls) Take(ctx workflow.Context, raw json.RawMessage) (any, error) {
	in, k, err := c.read(raw)
	if err != nil {
		return nil, err
	}
	// Requests of earlier attempts end, and so does the withdrawn one.
	for _, q := range k.questions {
		if q.request.Attempt < in.Attempt || q.request.Attempt == in.Attempt && q.request.N == in.N && in.Withdrawn {
			q.cancel()
		}
	}
	switch {
	case in.Withdrawn:
		return &contract.ServerAnswer{}, nil
	case k.queue.closed:
		return notPending, nil
	}
	q := &question{request: in}
	q.ctx, q.cancel = workflow.WithCancel(k.ctx)
	k.questions, k.queue.pending = append(k.questions, q), append(k.queue.pending, q)
	c.open++
	wait.UntilIgnoringCancel(ctx, func() bool { return q.answer != nil || q.err != nil })
	c.open--
	if contract.Cancelled(q.err) {
		return notPending, nil
	}
	return q.answer, q.err
}

// notPending answers a request whose call has been cancelled or has ended.
var notPending = &contract.ServerAnswer{Problem: "the request is no longer pending"}

// Signalled rejects the message as a signal, because a signal has no answer.
func (c *Calls) Signalled(workflow.Context, json.RawMessage) error {
	return contract.Failf(contract.ClassBadRequest, "", "send it as an Update")
}

// Refused does nothing: the sender is an activity, not a client.
func (c *Calls) Refused(workflow.Context, error) {}
