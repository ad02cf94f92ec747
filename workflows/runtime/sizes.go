package runtime

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// What Temporal refuses is measured before it is sent: a refused command would make the
// server fail the workflow task again and again.
const (
	// MaxPayload is the most that one call's arguments, or one result, may hold without a
	// store. The server's limit is 2 MiB.
	MaxPayload = 1_900 << 10
	// maxTask is the most that the commands of one workflow task and the Updates that it
	// accepts hold together. The server's limit, beyond which it terminates the run, is 4 MiB,
	// and counts what came while the task was worked on: results and signals, up to 2 MiB.
	maxTask = 2<<20 - 128<<10
	// event is what a command's event holds beside its payload: ids, options, memo, what encryption
	// adds.
	event = 1536
	// Envelope is what a payload holds beside its data, with room.
	Envelope = 4 << 10
	// Slack is how much more than a history has room for still goes, so that a run comes to its end.
	Slack = 1 << 20
	// claim is more than the claim of a payload in the store holds.
	claim = 1 << 10
)

// Allow settles how much one payload of the run may hold: most bytes in the store that the
// run was given when it started, or, if most is 0, what Temporal takes.
func (r *Run) Allow(most int) {
	r.Shared.MaxPayload = most
	r.Sizes.most, r.Policy.most = 0, 0
	if most > 0 {
		r.Sizes.most = max(MaxPayload, most-Envelope)
		r.Policy.most = r.Sizes.most
	}
}

// Sizes counts what the commands of the current workflow task hold.
type Sizes struct {
	task, bytes int
	// tasks counts the workflow tasks that were seen to begin.
	tasks int
	// most is what one payload may hold; 0 means that there is no store.
	most int
	// Kept is how many bytes of the history are for answers to come; see space.
	Kept int
	// signals are those that the server may not have delivered yet.
	signals []workflow.Future
}

// Limit is what one payload may hold.
func (g *Sizes) Limit() int { return max(g.most, MaxPayload) }

// ResultSize says how much room is kept in the history for a call's result.
type ResultSize struct {
	// Together, if positive, is how many results come together: each may have a share, of which the activity
	// is told in room.
	Together       int
	MaxResultBytes *int
	// Unbounded is set for the result of an activity that knows no bound.
	Unbounded bool
}

// sized measures the arguments of a call, waits for a workflow task that has room for them, and keeps room
// in the history for the result until it is there.
func (r *Run) sized(next invoker) invoker {
	return func(ctx workflow.Context, c *Call) error {
		switch {
		case c.Result.Unbounded:
			leave, err := r.Space.expect(ctx, "the result of "+c.What)
			if err != nil {
				return err
			}
			defer leave()
		case c.Result.Together > 0:
			*c.Result.MaxResultBytes = r.Sizes.Part(ctx, c.Result.Together, 75)
			defer r.Space.Keep(ctx, "", *c.Result.MaxResultBytes)()
		}
		var arg any = c.Args
		if len(c.Args) == 1 {
			arg = c.Args[0]
		}
		if err := r.Sizes.Admit(ctx, c.What, arg); err != nil {
			return err
		}
		return next(ctx, c)
	}
}

// Admit measures the arguments of a call that is about to be scheduled. Arguments that
// do not fit give a failure; a task that is full makes the run wait for the next one.
func (g *Sizes) Admit(ctx workflow.Context, what string, arg any) error {
	n, err := weigh(arg)
	if err != nil {
		return err
	}
	if n > g.Limit() {
		return g.tooLarge(what, n)
	}
	if free := g.Free(ctx); taken(n) > free+Slack {
		return &contract.Failure{Class: contract.ClassStateTooLarge,
			Text:   fmt.Sprintf("%s is %d bytes, and the run's history has room for %d", what, n, max(0, free)),
			Remedy: "make nodes answer shorter, run fewer of them side by side, or give the workers a store (store.dir) before the run starts"}
	}
	return g.Wait(ctx, n)
}

// MaxSignals is how many answers and messages are on their way at once. Of all signals together the
// server takes 2,000; one more fails the workflow task, again and again.
const MaxSignals = 1000

// Clear reports whether another may be sent.
func (g *Sizes) Clear() bool {
	if len(g.signals) >= MaxSignals {
		g.signals = slices.DeleteFunc(g.signals, workflow.Future.IsReady)
	}
	return len(g.signals) < MaxSignals
}

// Sends counts one.
func (g *Sizes) Sends(sent workflow.Future) { g.signals = append(g.signals, sent) }

// Wait waits for a task that has room for n bytes.
func (g *Sizes) Wait(ctx workflow.Context, n int) error {
	for !g.Take(ctx, n) {
		if err := g.Next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Next waits for the next workflow task.
func (g *Sizes) Next(ctx workflow.Context) error {
	seen := g.tasks
	if err := Pause(ctx, time.Millisecond, "the task is full"); err != nil {
		return err
	}
	// Others may wait for the same task: the first that it wakes opens it for all.
	if g.tasks == seen {
		g.open(ctx)
	}
	return nil
}

// Take counts n bytes where the current task has room for them. There is always room for one call.
func (g *Sizes) Take(ctx workflow.Context, n int) bool {
	if !g.room(ctx, n) {
		return false
	}
	g.Accept(ctx, n)
	return true
}

// room reports whether the current task has room for n bytes, and changes nothing.
func (g *Sizes) room(ctx workflow.Context, n int) bool {
	if g.bytes == 0 || workflow.GetInfo(ctx).GetCurrentHistoryLength() != g.task {
		return true
	}
	return g.bytes+taken(n) <= maxTask
}

// Accept counts n bytes that go with the current task in any case.
func (g *Sizes) Accept(ctx workflow.Context, n int) {
	if workflow.GetInfo(ctx).GetCurrentHistoryLength() != g.task {
		g.open(ctx)
	}
	g.bytes += taken(n)
}

// sent is how many bytes go with the current task.
func (g *Sizes) sent(ctx workflow.Context) int {
	if workflow.GetInfo(ctx).GetCurrentHistoryLength() != g.task {
		return 0
	}
	return g.bytes
}

// taken is what n bytes take of a task's room.
func taken(n int) int {
	if n > MaxPayload {
		n = claim // the payload itself goes to the store
	}
	return n + event
}

// open begins to count a workflow task.
func (g *Sizes) open(ctx workflow.Context) {
	g.task, g.bytes, g.tasks = workflow.GetInfo(ctx).GetCurrentHistoryLength(), 0, g.tasks+1
}

// Fits measures what must stay readable for clients without the store.
func Fits(what string, v any) error { return new(Sizes).Fits(what, v) }

// Fits measures what is about to be returned.
func (g *Sizes) Fits(what string, v any) error {
	n, err := Size(v)
	if err != nil {
		return err
	}
	if n > g.Limit() {
		return g.tooLarge(what, n)
	}
	return nil
}

// light is the weight under which a call is not measured to the byte.
const light = 64 << 10

// weigh is the size of what is about to be scheduled, or a bound of it where it is small:
// encoding every call twice would be most of what a workflow does.
func weigh(v any) (int, error) {
	if w, ok := v.(interface{ Weight() int }); ok {
		if n := w.Weight(); n < light {
			return n, nil
		}
	}
	return Size(v)
}

func Size(v any) (int, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return 0, fmt.Errorf("encode: %w", err)
	}
	return len(b), nil
}

func (g *Sizes) tooLarge(what string, n int) *contract.Failure {
	f := &contract.Failure{
		Class: contract.ClassTooLarge,
		Text:  fmt.Sprintf("%s is %d bytes, at most %d can be sent through Temporal", what, n, MaxPayload),
		Remedy: "make the node write less to the state or answer shorter, " +
			"have a tool keep the data and pass a reference to it, or give the workers a store (store.dir) before the run starts",
	}
	if g.most > 0 {
		f.Text = fmt.Sprintf("%s is %d bytes, at most %d go into the run's store", what, n, g.most)
		f.Remedy = "make the node write less to the state or answer shorter, " +
			"have a tool keep the data and pass a reference to it, or raise store.max_payload before the run starts"
	}
	return f
}
