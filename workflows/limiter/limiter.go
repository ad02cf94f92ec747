// Package limiter is the workflow that schedules the calls with one key of a provider, for all workers of a namespace.
//
// Workers request turns by Updates, for many calls at once. The limiter makes no calls itself, continues as new after some hundred
// Updates, and ends when it is idle or nothing is limited. The attempt of a call that has to wait fails as rate_limited with a
// [contract.LimitWait]: Temporal makes the next attempt at its turn or, if attempts are limited, the run does after a timer.
// Start at [Limiter]; [Queue] holds the algorithm and does not depend on Temporal.
package limiter

import (
	"cmp"
	"math"
	"slices"
	"time"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/wait"
)

const (
	// maxUpdates is the number of Updates after which a limiter continues as new, to keep its history short.
	maxUpdates = 400
	// idleWindows is the number of windows without an Update after which a limiter ends.
	idleWindows = 15
)

// Register registers the workflow with a worker of [contract.LimiterQueue].
func Register(w worker.WorkflowRegistry) {
	w.RegisterWorkflowWithOptions(Limiter, workflow.RegisterOptions{Name: contract.WorkflowLimiter})
}

// Limiter answers Updates until it is idle or nothing is limited any more.
func Limiter(ctx workflow.Context, in contract.LimiterInput) error {
	window := cmp.Or(time.Duration(in.WindowMillis)*time.Millisecond, time.Minute)
	q := NewQueue(in.State, window)
	answered, unlimited := 0, false
	err := workflow.SetUpdateHandler(ctx, contract.UpdateReserve, func(ctx workflow.Context, req contract.LimitRequest) (*contract.LimitReply, error) {
		answered++
		out := q.Reserve(workflow.Now(ctx).UnixMicro(), &req)
		unlimited = out.Free
		return out, nil
	})
	if err != nil {
		return err
	}
	for seen := -1; seen < answered && !unlimited; {
		seen = answered
		stop, err := wait.For(ctx, idleWindows*window, "ends when idle", func() bool {
			return unlimited || answered >= maxUpdates || workflow.GetInfo(ctx).GetContinueAsNewSuggested()
		})
		switch {
		case err != nil:
			return err
		case stop && !unlimited:
			return workflow.NewContinueAsNewError(ctx, contract.WorkflowLimiter, contract.LimiterInput{WindowMillis: in.WindowMillis, State: q.state})
		}
	}
	return nil
}

const (
	// maxWaiting limits the queued calls, and so the size of the state. Further calls have to ask again without a place in the queue.
	maxWaiting = 8_000
	// maxTenants limits the tenants; the calls of further ones are queued as the last tenant's.
	maxTenants = 500
	// minSent is the number of calls that must have been sent in the last window for a single refusal to reveal the limit.
	minSent = 10
)

// Queue decides when calls may begin. Times and durations are in microseconds.
//
// Calls are admitted at an even rate with a burst of limit/20, so that no window exceeds the limit even if calls begin slack late.
type Queue struct {
	state  contract.LimiterState
	window int64
}

// NewQueue returns a queue that continues from a state. Limits apply per window.
func NewQueue(state contract.LimiterState, window time.Duration) *Queue {
	return &Queue{state: state, window: window.Microseconds()}
}

// slack returns how long after its turn a call may begin.
func (q *Queue) slack() int64 { return q.window * 3 / 100 }

// horizon returns how far ahead a turn may be assigned; a call with a later turn has to ask again.
func (q *Queue) horizon() int64 { return q.window / 120 }

// burst returns what a limit admits at once.
func burst(limit int) int64 { return max(1, int64(limit)/20) }

// cost returns how long a limit takes to admit n calls or tokens.
func (q *Queue) cost(limit int, n int64) int64 {
	rate := int64(limit) - burst(limit) + 1
	return int64(math.Ceil(float64(n) * float64(q.window+q.slack()) / float64(rate)))
}

// nextAdmission returns when a limit whose capacity is used up to a time admits n more; 0 if there is no limit.
func (q *Queue) nextAdmission(limit int, usedUntil, n int64) int64 {
	if limit <= 0 {
		return 0
	}
	return usedUntil - q.cost(limit, burst(limit)) + q.cost(limit, min(n, burst(limit)))
}

// limits returns the lowest limits of the recently active workers and of those learned from refusals; 0 means unlimited.
func (q *Queue) limits() (requests, tokens int) {
	minLimit := func(a, b int) int {
		if a == 0 || b == 0 {
			return max(a, b)
		}
		return min(a, b)
	}
	for _, w := range q.state.Workers {
		requests, tokens = minLimit(requests, w.Requests), minLimit(tokens, w.Tokens)
	}
	return minLimit(requests, q.state.Learned), tokens
}

// nextTurn returns when a call may begin if it is the next one.
func (q *Queue) nextTurn(now int64, c *contract.LimitedCall) int64 {
	requests, tokens := q.limits()
	return max(now, q.state.Until, q.nextAdmission(requests, q.state.Calls, 1), q.nextAdmission(tokens, q.state.Tokens, int64(c.Tokens)))
}

// charge counts a call that begins at a time against the limits and its tenant's share.
func (q *Queue) charge(begin int64, t *contract.LimitTenant, c *contract.LimitedCall) {
	var share int64 = 1000
	requests, tokens := q.limits()
	if requests > 0 {
		cost := q.cost(requests, 1)
		q.state.Calls, share = max(q.state.Calls, begin)+cost, max(share, cost)
	}
	if tokens > 0 {
		cost := q.cost(tokens, int64(c.Tokens))
		q.state.Tokens, share = max(q.state.Tokens, begin)+cost, max(share, cost)
	}
	if w := c.Weight; w >= 0.001 && w <= 1000 {
		share = max(1, int64(float64(share)/float64(w)))
	}
	q.state.Virtual = max(q.state.Virtual, t.Virtual)
	t.Virtual += share
}

// Reserve answers a worker's request at a time in microseconds since 1970. The requested calls get the turns within the horizon,
// tenant by tenant; the others get an estimate of when to ask again.
func (q *Queue) Reserve(now int64, in *contract.LimitRequest) *contract.LimitReply {
	q.record(now, in)
	out := &contract.LimitReply{Turns: make([]contract.LimitTurn, len(in.Calls)), Refused: q.state.Pause > 0}
	asking := make(map[string]*contract.LimitTurn, len(in.Calls))
	for i := range in.Calls {
		out.Turns[i] = contract.LimitTurn{Micros: q.window, Ask: true}
		asking[in.Calls[i].Key] = &out.Turns[i]
	}
	q.enqueue(in.Calls)
	q.admit(now, asking)
	q.estimate(now, asking)
	q.expire(now)
	requests, tokens := q.limits()
	out.Free = requests == 0 && tokens == 0 && q.state.Pause == 0
	return out
}

// enqueue appends new calls to the queues of their tenants.
func (q *Queue) enqueue(calls []contract.LimitedCall) {
	waiting := map[string]bool{}
	for _, t := range q.state.Tenants {
		for i := range t.Waiting {
			waiting[t.Waiting[i].Key] = true
		}
	}
	for _, c := range calls {
		if waiting[c.Key] || len(waiting) >= maxWaiting {
			continue
		}
		waiting[c.Key] = true
		t := q.tenant(c.Tenant)
		c.Tenant = "" // the LimitTenant has it
		t.Waiting = append(t.Waiting, c)
	}
}

func (q *Queue) tenant(name string) *contract.LimitTenant {
	i := slices.IndexFunc(q.state.Tenants, func(t contract.LimitTenant) bool { return t.Name == name })
	switch {
	case i < 0 && len(q.state.Tenants) >= maxTenants:
		i = len(q.state.Tenants) - 1
	case i < 0:
		i = len(q.state.Tenants)
		q.state.Tenants = append(q.state.Tenants, contract.LimitTenant{Name: name})
	}
	t := &q.state.Tenants[i]
	if len(t.Waiting) == 0 {
		t.Virtual = max(t.Virtual, q.state.Virtual)
	}
	return t
}

// firstTenant returns the eligible tenant with the lowest virtual time, -1 if none is eligible.
func (q *Queue) firstTenant(eligible func(tenant int) bool) int {
	found := -1
	for i := range q.state.Tenants {
		if (found < 0 || q.state.Tenants[i].Virtual < q.state.Tenants[found].Virtual) && eligible(i) {
			found = i
		}
	}
	return found
}

// admit assigns the turns within the horizon to requested calls, and removes these from asking.
func (q *Queue) admit(now int64, asking map[string]*contract.LimitTurn) {
	candidates := make([][]int, len(q.state.Tenants))
	for i, t := range q.state.Tenants {
		for j := range t.Waiting {
			if asking[t.Waiting[j].Key] != nil {
				candidates[i] = append(candidates[i], j)
			}
		}
	}
	for {
		i := q.firstTenant(func(i int) bool { return len(candidates[i]) > 0 })
		if i < 0 {
			break
		}
		t := &q.state.Tenants[i]
		c := &t.Waiting[candidates[i][0]]
		begin := q.nextTurn(now, c)
		if begin > now+q.horizon() {
			break
		}
		q.charge(begin, t, c)
		*asking[c.Key] = contract.LimitTurn{Micros: begin - now}
		delete(asking, c.Key)
		candidates[i], c.Key = candidates[i][1:], ""
	}
	for i := range q.state.Tenants {
		t := &q.state.Tenants[i]
		t.Waiting = slices.DeleteFunc(t.Waiting, func(c contract.LimitedCall) bool { return c.Key == "" })
	}
}

// estimate tells the calls without a turn when to ask again.
func (q *Queue) estimate(now int64, asking map[string]*contract.LimitTurn) {
	ahead := Queue{state: q.state, window: q.window}
	ahead.state.Tenants = slices.Clone(q.state.Tenants)
	next := make([]int, len(q.state.Tenants))
	for len(asking) > 0 {
		i := ahead.firstTenant(func(i int) bool { return next[i] < len(q.state.Tenants[i].Waiting) })
		if i < 0 {
			return // the remaining calls did not fit into the queue
		}
		c := &q.state.Tenants[i].Waiting[next[i]]
		next[i]++
		begin := ahead.nextTurn(now, c)
		ahead.charge(begin, &ahead.state.Tenants[i], c)
		if turn := asking[c.Key]; turn != nil {
			turn.Micros = min(max(begin-q.horizon()*3/5-now, q.horizon()/2), 2*q.window)
			c.Back = now + turn.Micros
			delete(asking, c.Key)
		}
	}
}

// expire drops calls that did not ask again, tenants without calls, and workers that have stopped asking.
func (q *Queue) expire(now int64) {
	anyWaiting := false
	for i := range q.state.Tenants {
		t := &q.state.Tenants[i]
		t.Waiting = slices.DeleteFunc(t.Waiting, func(c contract.LimitedCall) bool { return now > c.Back+q.window/2 })
		anyWaiting = anyWaiting || len(t.Waiting) > 0
	}
	q.state.Tenants = slices.DeleteFunc(q.state.Tenants, func(t contract.LimitTenant) bool {
		return len(t.Waiting) == 0 && (!anyWaiting || t.Virtual <= q.state.Virtual)
	})
	q.state.Workers = slices.DeleteFunc(q.state.Workers, func(w contract.LimitWorker) bool { return now > w.At+10*q.window })
}

// record applies a worker's report: its limits, the usage of its calls, and refusals.
func (q *Queue) record(now int64, in *contract.LimitRequest) {
	reported := contract.LimitWorker{Name: in.Worker, At: now, Sent: in.Sent, Requests: in.Requests, Tokens: in.Tokens}
	if i := slices.IndexFunc(q.state.Workers, func(w contract.LimitWorker) bool { return w.Name == in.Worker }); i >= 0 {
		q.state.Workers[i] = reported
	} else {
		q.state.Workers = append(q.state.Workers, reported)
	}
	requests, tokens := q.limits()
	if requests > 0 {
		q.state.Calls -= q.cost(requests, int64(in.Unused))
	}
	if tokens > 0 {
		q.state.Tokens += q.cost(tokens, int64(in.Used))
	}
	switch {
	case in.Refusal != nil:
		q.backOff(now, in.Refusal)
	case q.state.Pause > 0 && now >= q.state.Raise:
		q.raiseLimit(now)
	}
	if q.state.Learned > 0 && now < q.state.Since+q.window/12 { // the workers' reports of what they have sent arrive late
		q.state.Learned = max(1, q.sentInWindow(now)*95/100)
	}
}

// backOff pauses all calls after a refusal: as long as the provider asks, or else a sixtieth of a window, doubled after each further
// refusal. The learned limit becomes slightly less than what was sent in the last window (unless few calls were sent before a first
// refusal); later refusals lower it by a tenth. Refusals of calls sent before the last refusal only extend the pause.
func (q *Queue) backOff(now int64, r *contract.LimitRefusal) {
	after := r.AfterMillis * 1000
	q.state.Until = max(q.state.Until, now+after)
	if now-r.AgoMillis*1000 <= q.state.Refused {
		return
	}
	switch {
	case q.state.Learned == 0 && (q.state.Pause > 0 || q.sentInWindow(now) >= minSent):
		q.state.Since, q.state.Learned = now, 1
	case now >= q.state.Since+q.window:
		q.state.Learned = max(min(1, q.state.Learned), q.state.Learned*9/10)
	}
	q.state.Refused, q.state.Pause = now, min(max(2*q.state.Pause, q.window/60, after), q.window)
	if after == 0 {
		q.state.Until = max(q.state.Until, now+q.state.Pause)
	}
	q.state.Raise = q.state.Until + 10*q.state.Pause
}

// raiseLimit raises the learned limit by a quarter and halves the pause. Once the pause is short, it forgets the refusals.
func (q *Queue) raiseLimit(now int64) {
	if q.state.Pause /= 2; q.state.Pause < q.window/240 {
		q.state.Pause, q.state.Learned = 0, 0
		return
	}
	if q.state.Learned > 0 {
		q.state.Learned += max(1, q.state.Learned/4)
	}
	q.state.Raise = now + 10*q.state.Pause
}

// sentInWindow returns how many calls the workers have sent in the last window.
func (q *Queue) sentInWindow(now int64) int {
	sent := 0
	for _, w := range q.state.Workers {
		if now-w.At < q.window {
			sent += w.Sent
		}
	}
	return sent
}
