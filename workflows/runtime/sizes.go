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

// Sizes are checked before commands are sent: a command that Temporal rejects fails the workflow task again and again, and a history
// that is too large ends the run.
const (
	// maxTaskBytes limits the total size of the commands of a workflow task and the Updates that it accepts, MaxCommands their number.
	// The server terminates a run whose task exceeds 4 MiB, including results and signals received meanwhile.
	maxTaskBytes = 2<<20 - 128<<10
	MaxCommands  = 500
	// eventSize is the size of a command's event without its payload: ids, options, memo, encryption overhead. claimSize is an upper
	// bound for the claim of a payload in the store.
	eventSize = 1536
	claimSize = 1 << 10
	// Slack is how many bytes beyond its free room a history still accepts, so that a run can end.
	Slack = 1 << 20
	// minResult is the minimum reserved for a result.
	minResult = 64 << 10
	// MaxHistory is the history size in bytes that a run allows itself. The rest of the server's 50 MiB is for signals, which cannot
	// be rejected.
	MaxHistory = 44 << 20
)

// Sizes keeps the commands of a run and their results within Temporal's limits.
type Sizes struct {
	run *Run
	// taskStart is the history length at which the current workflow task began; bytes and commands count what it sends; taskCount
	// counts the tasks that have been observed.
	taskStart, bytes, commands, taskCount int
	// storeLimit is the maximum size of a payload in the store; 0 means that there is no store.
	storeLimit int
	// reserved is the number of bytes of the history reserved for pending results, inFlight the number of their calls and children;
	// waiting queues the reservations that have no room yet.
	reserved, inFlight int
	waiting            []*int
	// signals are the sent signals that may not have been delivered yet.
	signals []workflow.Future
	// InPlace is the number of branches that run concurrently in this run; CallsInPlace is the number of calls they may make.
	InPlace, CallsInPlace int
	// ResultShare is how many bytes this run may return inline to its parent; 0 means any.
	ResultShare int
}

// Allow sets the maximum size of one payload of the run: limit bytes in its store or, if limit is 0, what Temporal accepts.
func (r *Run) Allow(limit int) {
	r.Shared.MaxPayload = limit
	r.Sizes.storeLimit = 0
	if limit > 0 {
		r.Sizes.storeLimit = max(contract.MaxPayload, limit-contract.Envelope)
	}
}

// Limit returns the maximum size of one payload.
func (s *Sizes) Limit() int { return max(s.storeLimit, contract.MaxPayload) }

// free returns how many unreserved bytes the history has room for.
func (s *Sizes) free(ctx workflow.Context) int {
	info := workflow.GetInfo(ctx)
	sent, _ := s.taskUsage(info)
	return MaxHistory - info.GetCurrentHistorySize() - sent - s.reserved
}

// HasRoom reports whether a quarter of the history is free.
func (s *Sizes) HasRoom(ctx workflow.Context) bool { return s.free(ctx) >= MaxHistory/4 }

// ResultSize determines how much of the history is reserved for a call's result. The zero value reserves nothing.
type ResultSize struct {
	// Bytes is the maximum size of the result, if it is known.
	Bytes int
	// Together, if positive, is the number of calls that share the free room. The call's share is stored in Share.
	Together int
	Share    *int
}

// Share returns how much to reserve for one of n concurrent results: together at most three quarters of the free room, because the
// run also sends commands.
func (s *Sizes) Share(ctx workflow.Context, n int) int {
	free := s.free(ctx)
	return max(minResult, min(contract.MaxPayload, (free+s.reserved)/max(1, n)*3/4, free*3/4))
}

// Reserve reserves bytes for a result, without waiting for room. calls is 1, or 0 for a session, whose end is not awaited.
func (s *Sizes) Reserve(bytes, calls int) (release func()) {
	s.reserved, s.inFlight = s.reserved+bytes, s.inFlight+calls
	return func() { s.reserved, s.inFlight = s.reserved-bytes, s.inFlight-calls }
}

// ReserveResult reserves bytes for a result until release is called. If there is no room, it waits in order for results in flight; if
// there are none, the run continues as new, or fails with state_too_large.
func (s *Sizes) ReserveResult(ctx workflow.Context, what string, bytes int) (release func(), err error) {
	if len(s.waiting) > 0 || s.free(ctx) < bytes {
		request := new(bytes)
		s.waiting = append(s.waiting, request)
		err = wait.Until(ctx, func() bool { return s.waiting[0] == request && (s.free(ctx) >= *request || s.inFlight == 0) })
		s.waiting = slices.DeleteFunc(s.waiting, func(w *int) bool { return w == request })
	}
	switch {
	case err != nil:
		return nil, err
	case s.free(ctx) >= bytes:
		return s.Reserve(bytes, 1), nil
	case s.run.Policy.Progressed:
		s.run.Policy.noRoom = true
		return nil, ErrYield
	}
	return nil, historyFull(what+" may be", bytes, s.free(ctx))
}

// historyFull returns the failure of a run whose history has no room for something that is, or may be, of a size in bytes.
func historyFull(what string, bytes, free int) *contract.Failure {
	return contract.Failf(contract.ClassStateTooLarge,
		"shorten the answers of nodes, run fewer of them in parallel, or configure a store for the workers (store.dir) before the run starts",
		"%s %d bytes, but the run's history has room for %d", what, bytes, max(0, free))
}

// withSizes makes a call once there is room for it, and fetches a result that was returned by reference.
func (r *Run) withSizes(next invoker) invoker {
	return func(ctx workflow.Context, c *Call) error {
		err := r.invokeAdmitted(ctx, c, next)
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

// invokeAdmitted reserves room for the result of a call, encodes and measures its arguments, waits for a workflow task that has room
// for them, and makes the call.
func (r *Run) invokeAdmitted(ctx workflow.Context, c *Call, next invoker) error {
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

// encodedGrant caches the JSON of a run's grant, which is an argument of nearly all its calls.
type encodedGrant struct {
	grant *contract.Grant
	raw   []byte
}

// encode returns an argument's JSON.
func (e *encodedGrant) encode(arg any) ([]byte, error) {
	g, ok := arg.(*contract.Grant)
	if !ok {
		return contract.Encode(arg)
	}
	if e.grant != g {
		raw, err := contract.Encode(g)
		if err != nil {
			return nil, err
		}
		e.grant, e.raw = g, raw
	}
	return e.raw, nil
}

var encodingJSON = []byte(converter.MetadataEncodingJSON)

// payload returns encoded JSON as an argument. internal marks one that only workers read, which goes into the store above a size.
func payload(raw []byte, internal bool) converter.RawValue {
	p := &commonpb.Payload{Data: raw, Metadata: map[string][]byte{converter.MetadataEncoding: encodingJSON}}
	if internal {
		contract.MarkInternal(p)
	}
	return converter.NewRawValue(p)
}

// Admit measures an argument to be sent, and waits for a workflow task that has room for it. It fails if the argument is too large.
func (s *Sizes) Admit(ctx workflow.Context, what string, arg any) error {
	n, err := contract.Size(arg)
	if err != nil {
		return err
	}
	return s.admit(ctx, what, n)
}

func (s *Sizes) admit(ctx workflow.Context, what string, n int) error {
	if err := s.checkPayload(what, n); err != nil {
		return err
	}
	if free := s.free(ctx); commandSize(n) > free+Slack {
		return historyFull(what+" is", n, free)
	}
	return s.Wait(ctx, n)
}

// Overflows reports whether the history has no room for n more bytes, even if nothing were reserved.
func (s *Sizes) Overflows(ctx workflow.Context, n int) bool { return n > s.free(ctx)+s.reserved+Slack }

// MaxSignals limits the answers and messages in flight. The server accepts 2,000 pending signals; one more fails the workflow task
// again and again.
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

// Wait waits for a workflow task that has room for a command of n bytes, and counts the command.
func (s *Sizes) Wait(ctx workflow.Context, n int) error {
	for !s.Take(ctx, n) {
		if err := s.Next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Next waits for the next workflow task. The first coroutine that resumes in it resets the counters.
func (s *Sizes) Next(ctx workflow.Context) error {
	seen := s.taskCount
	if err := wait.Sleep(ctx, time.Millisecond, "workflow task is full"); err != nil {
		return err
	}
	if s.taskCount == seen {
		s.beginTask(ctx)
	}
	return nil
}

// Take counts a command of n bytes if the current task has room for it, and reports whether it had. The first command always fits.
func (s *Sizes) Take(ctx workflow.Context, n int) bool {
	room := s.fits(ctx, n)
	if room {
		s.Accept(ctx, n)
	}
	return room
}

// fits reports whether the current task has room for a command of n bytes.
func (s *Sizes) fits(ctx workflow.Context, n int) bool {
	bytes, commands := s.taskUsage(workflow.GetInfo(ctx))
	return commands == 0 || bytes+commandSize(n) <= maxTaskBytes && commands < MaxCommands
}

// Accept counts a command of n bytes in the current task, even if there is no room.
func (s *Sizes) Accept(ctx workflow.Context, n int) {
	if _, commands := s.taskUsage(workflow.GetInfo(ctx)); commands == 0 {
		s.beginTask(ctx)
	}
	s.bytes += commandSize(n)
	s.commands++
}

// taskUsage returns the counted bytes and commands of the current task.
func (s *Sizes) taskUsage(info *workflow.Info) (bytes, commands int) {
	if info.GetCurrentHistoryLength() == s.taskStart {
		bytes, commands = s.bytes, s.commands
	}
	return bytes, commands
}

// commandSize returns the size of a command with a payload of n bytes.
func commandSize(n int) int {
	if n > contract.MaxPayload {
		n = claimSize // the payload itself goes to the store
	}
	return n + eventSize
}

// beginTask starts to count a new workflow task.
func (s *Sizes) beginTask(ctx workflow.Context) {
	s.taskStart, s.bytes, s.commands, s.taskCount = workflow.GetInfo(ctx).GetCurrentHistoryLength(), 0, 0, s.taskCount+1
}

// FitsShare reports whether a result can be returned inline to the parent run or to clients.
func (s *Sizes) FitsShare(v any) bool {
	n, err := contract.Size(v)
	return err == nil && n <= cmp.Or(s.ResultShare, contract.MaxPayload)
}

// Holds reports whether this run holds a result that is too large to be returned, for the parent run to fetch.
func (s *Sizes) Holds() bool { return s.ResultShare > 0 && s.storeLimit == 0 }

// Fits fails if a value to be returned is too large. what names it.
func (s *Sizes) Fits(what string, v any) error {
	n, err := contract.Size(v)
	if err != nil {
		return err
	}
	return s.checkPayload(what, n)
}

// checkPayload fails if n bytes exceed the maximum size of a payload.
func (s *Sizes) checkPayload(what string, n int) error {
	if n <= s.Limit() {
		return nil
	}
	place, remedy := "can be sent through Temporal", "configure a store for the workers (store.dir) before the run starts"
	if s.storeLimit > 0 {
		place, remedy = "fit into the run's store", "raise store.max_payload before the run starts"
	}
	return contract.Failf(contract.ClassTooLarge,
		"shorten the node's answer or what it writes to the state, have a tool store the data and pass a reference, or "+remedy,
		"%s is %d bytes, at most %d %s", what, n, s.Limit(), place)
}
