package runtime

import (
	"cmp"
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/wait"
)

// What Temporal refuses is measured before it is sent: a refused command would make the server fail the workflow
// task again and again, and a history that is too large ends the run.
const (
	// maxTask is the most that the commands of one workflow task and the Updates that it accepts hold together; MaxCommands is
	// how many there are. The server terminates the run beyond 4 MiB, results and signals that came meanwhile included.
	maxTask     = 2<<20 - 128<<10
	MaxCommands = 500
	// eventSize is what a command's event holds beside its payload: ids, options, memo, what encryption adds. claimSize is more
	// than the claim of a payload in the store holds.
	eventSize = 1536
	claimSize = 1 << 10
	// Slack is how much more than a history has room for still goes, so that a run comes to its end.
	Slack = 1 << 20
	// minResult is the least that is reserved for a result.
	minResult = 64 << 10
	// MaxHistory is how many bytes a run lets its history hold. What is left of the server's 50 MiB is for signals, which cannot
	// be refused.
	MaxHistory = 44 << 20
)

// Sizes keeps what a run sends, and what comes back, within what Temporal takes.
type Sizes struct {
	run *Run
	// task is the history length at which the current workflow task began, bytes and commands are what goes with it; tasks
	// counts those that were seen to begin.
	task, bytes, commands, tasks int
	// most is what one payload may hold; 0 means that there is no store.
	most int
	// reserved is how many bytes of the history are reserved for results to come, inFlight counts the calls and children that
	// they are of; waiting are those that have no room yet, in order.
	reserved, inFlight int
	waiting            []*int
	// signals are those that the server may not have delivered yet.
	signals []workflow.Future
	// InPlace is how many branches run in this run beside each other; CallsInPlace is how many calls they may make.
	InPlace, CallsInPlace int
	// ResultShare is how much this run may return inline to the one above; 0 means any.
	ResultShare int
}

// Allow says how much one payload of the run may hold: most bytes in its store or, if most is 0, what Temporal takes.
func (r *Run) Allow(most int) {
	r.Shared.MaxPayload = most
	r.Sizes.most = 0
	if most > 0 {
		r.Sizes.most = max(contract.MaxPayload, most-contract.Envelope)
	}
}

// Limit is what one payload may hold.
func (s *Sizes) Limit() int { return max(s.most, contract.MaxPayload) }

// free is how many bytes the history has room for beside what is reserved.
func (s *Sizes) free(ctx workflow.Context) int {
	info := workflow.GetInfo(ctx)
	sent, _ := s.sent(info)
	return MaxHistory - info.GetCurrentHistorySize() - sent - s.reserved
}

// HasRoom reports whether a quarter of the history is free.
func (s *Sizes) HasRoom(ctx workflow.Context) bool { return s.free(ctx) >= MaxHistory/4 }

// ResultSize is how much of the history is reserved for a call's result. The zero value reserves nothing.
type ResultSize struct {
	// Bytes is the largest result, where that is known.
	Bytes int
	// Together, if positive, is how many calls share what is free. The activity is told its share in Share.
	Together int
	Share    *int
}

// Share is how much is reserved for one of n results that come together: of three quarters of what is free, because the run sends,
// too.
func (s *Sizes) Share(ctx workflow.Context, n int) int {
	free := s.free(ctx)
	return max(minResult, min(contract.MaxPayload, (free+s.reserved)/max(1, n)*3/4, free*3/4))
}

// Reserve reserves bytes for a result, without waiting for room. calls is 1, or 0 for a session, whose end nobody waits for.
func (s *Sizes) Reserve(bytes, calls int) (release func()) {
	s.reserved, s.inFlight = s.reserved+bytes, s.inFlight+calls
	return func() { s.reserved, s.inFlight = s.reserved-bytes, s.inFlight-calls }
}

// ReserveResult reserves bytes for a result until release. Where there is no room it waits in order for what is in flight; with
// nothing in flight the run continues as new, or fails with state_too_large.
func (s *Sizes) ReserveResult(ctx workflow.Context, what string, bytes int) (release func(), err error) {
	if len(s.waiting) > 0 || s.free(ctx) < bytes {
		own := new(bytes)
		s.waiting = append(s.waiting, own)
		err = wait.Until(ctx, func() bool { return s.waiting[0] == own && (s.free(ctx) >= *own || s.inFlight == 0) })
		s.waiting = slices.DeleteFunc(s.waiting, func(w *int) bool { return w == own })
	}
	switch {
	case err != nil:
		return nil, err
	case s.free(ctx) >= bytes:
		return s.Reserve(bytes, 1), nil
	case s.run.Policy.Moved:
		s.run.Policy.noRoom = true
		return nil, ErrYield
	}
	return nil, noRoom(what+" may be", bytes, s.free(ctx))
}

// noRoom is the failure where a history has no room for what is, or may be, so many bytes.
func noRoom(what string, bytes, free int) *contract.Failure {
	return contract.Failf(contract.ClassStateTooLarge,
		"make nodes answer shorter, run fewer of them side by side, or give the workers a store (store.dir) before the run starts",
		"%s %d bytes, and the run's history has room for %d", what, bytes, max(0, free))
}

// sized makes a call that has room, and fetches a result that came without its content.
func (r *Run) sized(next invoker) invoker {
	return func(ctx workflow.Context, c *Call) error {
		err := r.admitted(ctx, c, next)
		out, ok := c.Out.(*contract.ModelResult)
		if err != nil || !ok || out.Held == nil {
			return err
		}
		held := out.Held
		*out = contract.ModelResult{}
		if c.Waiting != nil {
			c.Waiting.Held = held
		}
		return r.Fetch(ctx, held, c.ID, c.Out)
	}
}

// admitted reserves room for the result of a call, encodes and measures its arguments, waits for a workflow task that has
// room for them, and makes the call with them.
func (r *Run) admitted(ctx workflow.Context, c *Call, next invoker) error {
	bytes := c.Result.Bytes
	if c.Result.Together > 0 {
		bytes = r.Sizes.Share(ctx, c.Result.Together*max(1, r.Sizes.InPlace))
		*c.Result.Share = bytes
	}
	if bytes > 0 {
		release, err := r.Sizes.ReserveResult(ctx, "the result of "+c.What, bytes)
		if err != nil {
			return err
		}
		defer release()
	}
	args, total := r.arguments(c), 0
	c.Args = make([]any, len(args))
	for i, arg := range args {
		if k, ok := arg.(interface{ SetIdempotencyKey(string) }); ok {
			k.SetIdempotencyKey(r.IdempotencyKey(c.ID))
		}
		raw, err := r.grant.encode(arg)
		if err != nil {
			return err
		}
		c.Args[i], total = payload(raw, c.Remote == nil), total+len(raw)
	}
	if err := r.Sizes.admit(ctx, c.What, total); err != nil {
		return err
	}
	return next(ctx, c)
}

// encodedGrant is the JSON of a run's grant, which nearly all its calls have among their arguments.
type encodedGrant struct {
	of  *contract.Grant
	raw []byte
}

// encode returns an argument's JSON.
func (e *encodedGrant) encode(arg any) ([]byte, error) {
	g, ok := arg.(*contract.Grant)
	if !ok {
		return contract.Encode(arg)
	}
	if e.of != g {
		raw, err := contract.Encode(g)
		if err != nil {
			return nil, err
		}
		e.of, e.raw = g, raw
	}
	return e.raw, nil
}

var encodingJSON = []byte(converter.MetadataEncodingJSON)

// payload is encoded JSON as an argument. internal is set for one that only workers read, which goes into the store above its
// threshold.
func payload(raw []byte, internal bool) converter.RawValue {
	p := &commonpb.Payload{Data: raw, Metadata: map[string][]byte{converter.MetadataEncoding: encodingJSON}}
	if internal {
		contract.MarkInternal(p)
	}
	return converter.NewRawValue(p)
}

// Admit measures what is about to be sent, and waits for a workflow task that has room for it. What does not fit is a failure.
func (s *Sizes) Admit(ctx workflow.Context, what string, arg any) error {
	n, err := contract.Size(arg)
	if err != nil {
		return err
	}
	return s.admit(ctx, what, n)
}

func (s *Sizes) admit(ctx workflow.Context, what string, n int) error {
	if err := s.within(what, n); err != nil {
		return err
	}
	if free := s.free(ctx); taken(n) > free+Slack {
		return noRoom(what+" is", n, free)
	}
	return s.Wait(ctx, n)
}

// Overflows reports whether n bytes more have no room in the history, whatever is reserved.
func (s *Sizes) Overflows(ctx workflow.Context, n int) bool { return n > s.free(ctx)+s.reserved+Slack }

// MaxSignals is how many answers and messages are on their way at once. The server takes 2,000 signals together; one more fails the
// workflow task, again and again.
const MaxSignals = 1000

// Clear reports whether another signal may be sent.
func (s *Sizes) Clear() bool {
	if len(s.signals) >= MaxSignals {
		s.signals = slices.DeleteFunc(s.signals, workflow.Future.IsReady)
	}
	return len(s.signals) < MaxSignals
}

// Sends counts a signal.
func (s *Sizes) Sends(sent workflow.Future) { s.signals = append(s.signals, sent) }

// Wait waits for a task that has room for n bytes.
func (s *Sizes) Wait(ctx workflow.Context, n int) error {
	for !s.Take(ctx, n) {
		if err := s.Next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Next waits for the next workflow task. The first of those that wait for the same one begins to count it.
func (s *Sizes) Next(ctx workflow.Context) error {
	seen := s.tasks
	if err := wait.Pause(ctx, time.Millisecond, "the task is full"); err != nil {
		return err
	}
	if s.tasks == seen {
		s.open(ctx)
	}
	return nil
}

// Take counts a command of n bytes where the current task has room for it. There is always room for one.
func (s *Sizes) Take(ctx workflow.Context, n int) bool {
	room := s.room(ctx, n)
	if room {
		s.Accept(ctx, n)
	}
	return room
}

// room reports whether the current task has room for n bytes, and changes nothing.
func (s *Sizes) room(ctx workflow.Context, n int) bool {
	bytes, commands := s.sent(workflow.GetInfo(ctx))
	return commands == 0 || bytes+taken(n) <= maxTask && commands < MaxCommands
}

// Accept counts n bytes that go with the current task in any case.
func (s *Sizes) Accept(ctx workflow.Context, n int) {
	if _, commands := s.sent(workflow.GetInfo(ctx)); commands == 0 {
		s.open(ctx)
	}
	s.bytes += taken(n)
	s.commands++
}

// sent is what goes with the current task.
func (s *Sizes) sent(info *workflow.Info) (bytes, commands int) {
	if info.GetCurrentHistoryLength() == s.task {
		bytes, commands = s.bytes, s.commands
	}
	return bytes, commands
}

// taken is what n bytes take of a task's room.
func taken(n int) int {
	if n > contract.MaxPayload {
		n = claimSize // the payload itself goes to the store
	}
	return n + eventSize
}

// open begins to count a workflow task.
func (s *Sizes) open(ctx workflow.Context) {
	s.task, s.bytes, s.commands, s.tasks = workflow.GetInfo(ctx).GetCurrentHistoryLength(), 0, 0, s.tasks+1
}

// FitsShare reports whether a result can be returned inline: to the run above, or to clients.
func (s *Sizes) FitsShare(v any) bool {
	n, err := contract.Size(v)
	return err == nil && n <= cmp.Or(s.ResultShare, contract.MaxPayload)
}

// Holds reports whether a result of this run is held for the run above where it is too large to be returned.
func (s *Sizes) Holds() bool { return s.ResultShare > 0 && s.most == 0 }

// Fits measures what is about to be returned.
func (s *Sizes) Fits(what string, v any) error {
	n, err := contract.Size(v)
	if err != nil {
		return err
	}
	return s.within(what, n)
}

// within refuses what is larger than one payload may be.
func (s *Sizes) within(what string, n int) error {
	if n <= s.Limit() {
		return nil
	}
	place, remedy := "can be sent through Temporal", "give the workers a store (store.dir) before the run starts"
	if s.most > 0 {
		place, remedy = "go into the run's store", "raise store.max_payload before the run starts"
	}
	return contract.Failf(contract.ClassTooLarge,
		"make the node write less to the state or answer shorter, have a tool keep the data and pass a reference to it, or "+remedy,
		"%s is %d bytes, at most %d %s", what, n, s.Limit(), place)
}
