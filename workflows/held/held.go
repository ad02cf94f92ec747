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

// Asked answers what the server of a call asks.
type Asked interface {
	// Answer answers one question. It stops when ctx is done: nobody waits for the answer any more.
	Answer(ctx workflow.Context, in *contract.ServerAsks) (*contract.ServerAnswer, error)
}

// Calls are the calls of a run whose servers may ask.
type Calls struct {
	calls []*call
	open  int
}

type call struct {
	ctx       workflow.Context
	id        string
	asked     Asked
	questions []question
}

type question struct {
	attempt int32
	n       int
	end     workflow.CancelFunc
}

// Begin adds a call, until end. ctx is the call's.
func (c *Calls) Begin(ctx workflow.Context, id string, asked Asked) (end func()) {
	ctx, cancel := workflow.WithCancel(ctx)
	k := &call{ctx: ctx, id: id, asked: asked}
	c.calls = append(c.calls, k)
	return func() {
		cancel()
		c.calls = slices.DeleteFunc(c.calls, func(o *call) bool { return o == k })
	}
}

func (c *Calls) find(id string) *call {
	for _, k := range c.calls {
		if k.id == id {
			return k
		}
	}
	return nil
}

// Admit refuses a question of no call, or for which there is no room yet.
func (c *Calls) Admit(raw json.RawMessage) error {
	in, err := read(raw)
	switch {
	case err != nil:
		return err
	case c.find(in.Call) == nil:
		return contract.Failf(contract.ClassUnknownRequest, "", "no call %q is in progress whose server may ask", in.Call)
	case c.open >= maxOpen && !in.Withdrawn:
		return contract.Failf(contract.ClassUnavailable, "send it again later", "%d questions of servers are open", c.open)
	}
	return nil
}

func read(raw json.RawMessage) (*contract.ServerAsks, error) {
	in := &contract.ServerAsks{}
	if err := argument.Strictly(raw, in); err != nil {
		return nil, contract.Failf(contract.ClassBadRequest, "", "what a server asks: %v", err)
	}
	return in, nil
}

// Take answers a question, or withdraws one.
func (c *Calls) Take(ctx workflow.Context, raw json.RawMessage) (any, error) {
	in, err := read(raw)
	if err != nil {
		return nil, err
	}
	k := c.find(in.Call)
	if k == nil {
		return nil, c.Admit(raw)
	}
	k.supersede(in)
	if in.Withdrawn {
		return &contract.ServerAnswer{}, nil
	}
	asking, end := workflow.WithCancel(k.ctx)
	k.questions = append(k.questions, question{in.Attempt, in.N, end})
	c.open++
	var out *contract.ServerAnswer
	done := false
	wait.Go(asking, "answer a server", func(ctx workflow.Context) {
		out, err = k.asked.Answer(ctx, in)
		done = true
	})
	quiet, _ := workflow.NewDisconnectedContext(ctx)
	waited := wait.Until(quiet, func() bool { return done })
	c.open--
	switch {
	case waited != nil:
		return nil, waited
	case contract.Cancelled(err):
		return &contract.ServerAnswer{Problem: "nobody waits for the answer any more"}, nil
	}
	return out, err
}

// supersede ends the questions of earlier attempts, and one that is withdrawn.
func (k *call) supersede(in *contract.ServerAsks) {
	for _, q := range k.questions {
		if q.attempt < in.Attempt || q.attempt == in.Attempt && q.n == in.N && in.Withdrawn {
			q.end()
		}
	}
}

// Signalled refuses the message as a signal, which has no answer.
func (c *Calls) Signalled(workflow.Context, json.RawMessage) error {
	return contract.Failf(contract.ClassBadRequest, "", "it is an Update")
}

// Refused does nothing: the message is not one of people's.
func (c *Calls) Refused(workflow.Context, error) {}
