// Package held answers the requests that servers send during a call, while the activity holds the call open.
//
// The activity sends its run an Update with the server's request, and waits for the result. An open request
// is closed when the call ends for any reason, and when the attempt of the activity that sent it ends.
package held

import (
	"encoding/json"
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/argument"
	"weft/workflows/wait"
)

// maxOpen is how many questions of a run may be open: the server holds ten Updates of a run at a time, people's included.
const maxOpen = 6

// Shape is the JSON of the Update.
const Shape = `{"call": "…", "attempt": 1, "n": 1, "ask": {…}}: of activities of this run`

// Questions are those of one call that nobody has begun to answer; none is answered once the call is cancelled.
type Questions struct {
	waiting []*question
	over    bool
}

// Serve has answer called with each question, in a coroutine of its own, until ctx is done. The context of an answer is done where
// nobody waits for it any more.
func (q *Questions) Serve(ctx workflow.Context, answer func(workflow.Context, *contract.ServerAsks) (*contract.ServerAnswer, error)) {
	const name = "answer a server"
	wait.Go(ctx, name, func(ctx workflow.Context) {
		for wait.Until(ctx, func() bool { return len(q.waiting) > 0 }) == nil {
			next := q.waiting[0]
			q.waiting = q.waiting[1:]
			wait.Go(next.ctx, name, func(ctx workflow.Context) {
				next.answer, next.err = answer(ctx, next.asks)
			})
		}
		q.over = true
	})
}

// Calls are the calls of a run whose servers may ask.
type Calls struct {
	calls []*call
	open  int
}

type call struct {
	ctx       workflow.Context
	id        string
	asked     *Questions
	questions []*question
}

type question struct {
	asks *contract.ServerAsks
	ctx  workflow.Context
	end  workflow.CancelFunc
	// answer or err is set once it is answered.
	answer *contract.ServerAnswer
	err    error
}

// Begin adds a call, until end. ctx is the call's.
func (c *Calls) Begin(ctx workflow.Context, id string, asked *Questions) (end func()) {
	ctx, cancel := workflow.WithCancel(ctx)
	k := &call{ctx: ctx, id: id, asked: asked}
	c.calls = append(c.calls, k)
	return func() {
		cancel()
		c.calls = slices.DeleteFunc(c.calls, func(o *call) bool { return o == k })
	}
}

// Admit refuses a question of no call, or for which there is no room yet.
func (c *Calls) Admit(raw json.RawMessage) error {
	in, _, err := c.read(raw)
	if err == nil && c.open >= maxOpen && !in.Withdrawn {
		err = contract.Failf(contract.ClassUnavailable, "send it again later", "%d questions of servers are open", c.open)
	}
	return err
}

// read decodes a question, and finds its call.
func (c *Calls) read(raw json.RawMessage) (*contract.ServerAsks, *call, error) {
	in := &contract.ServerAsks{}
	if err := argument.Strictly(raw, in); err != nil {
		return nil, nil, contract.Failf(contract.ClassBadRequest, "", "what a server asks: %v", err)
	}
	for _, k := range c.calls {
		if k.id == in.Call {
			return in, k, nil
		}
	}
	return nil, nil, contract.Failf(contract.ClassUnknownRequest, "", "no call %q is in progress whose server may ask", in.Call)
}

// Take answers a question, or withdraws one.
func (c *Calls) Take(ctx workflow.Context, raw json.RawMessage) (any, error) {
	in, k, err := c.read(raw)
	if err != nil {
		return nil, err
	}
	// Questions of earlier attempts end, and one that is withdrawn.
	for _, q := range k.questions {
		if q.asks.Attempt < in.Attempt || q.asks.Attempt == in.Attempt && q.asks.N == in.N && in.Withdrawn {
			q.end()
		}
	}
	switch {
	case in.Withdrawn:
		return &contract.ServerAnswer{}, nil
	case k.asked.over:
		return nobody, nil
	}
	q := &question{asks: in}
	q.ctx, q.end = workflow.WithCancel(k.ctx)
	k.questions, k.asked.waiting = append(k.questions, q), append(k.asked.waiting, q)
	c.open++
	wait.Uncancelled(ctx, func() bool { return q.answer != nil || q.err != nil })
	c.open--
	if contract.Cancelled(q.err) {
		return nobody, nil
	}
	return q.answer, q.err
}

// nobody answers a question for whose answer nobody waits.
var nobody = &contract.ServerAnswer{Problem: "nobody waits for the answer any more"}

// Signalled refuses the message as a signal, which has no answer.
func (c *Calls) Signalled(workflow.Context, json.RawMessage) error {
	return contract.Failf(contract.ClassBadRequest, "", "it is an Update")
}

// Refused does nothing: the message is not one of people's.
func (c *Calls) Refused(workflow.Context, error) {}
