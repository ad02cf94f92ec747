// Package limiter is the workflow that gives the calls with one key of a provider their turns, on all workers of a namespace.
//
// Workers ask it by Updates, many calls at once. It makes no calls, continues as new after some hundred Updates, and ends when
// nobody has asked for a while or nothing is limited. The attempt of a call that has to wait ends as rate_limited with a
// [contract.LimitWait]: Temporal makes the next attempt when its turn comes or, if attempts are bounded, the run does after a timer.
// Start at [Limiter]; what [Queue] decides knows no Temporal.
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
	// maxUpdates is after how many Updates a limiter continues as new: its history stays short.
	maxUpdates = 400
	// idleWindows is after how many windows without an Update it ends.
	idleWindows = 15
)

// Register lets a worker of [contract.LimiterQueue] run limiters.
func Register(w worker.WorkflowRegistry) {
	w.RegisterWorkflowWithOptions(Limiter, workflow.RegisterOptions{Name: contract.WorkflowLimiter})
}

// Limiter answers Updates until nobody has asked for a while, or nothing is limited any more.
func Limiter(ctx workflow.Context, in contract.LimiterInput) error {
	window := cmp.Or(time.Duration(in.WindowMillis)*time.Millisecond, time.Minute)
	q := NewQueue(in.State, window)
	answered, free := 0, false
	err := workflow.SetUpdateHandler(ctx, contract.UpdateReserve, func(ctx workflow.Context, asked contract.LimitRequest) (*contract.LimitReply, error) {
		answered++
		out := q.Reserve(workflow.Now(ctx).UnixMicro(), &asked)
		free = out.Free
		return out, nil
	})
	if err != nil {
		return err
	}
	for seen := -1; seen < answered && !free; {
		seen = answered
		full, err := wait.For(ctx, idleWindows*window, "ends when no worker asks", func() bool {
			return free || answered >= maxUpdates || workflow.GetInfo(ctx).GetContinueAsNewSuggested()
		})
		switch {
		case err != nil:
			return err
		case full && !free:
			return workflow.NewContinueAsNewError(ctx, contract.WorkflowLimiter, contract.LimiterInput{WindowMillis: in.WindowMillis, State: q.state})
		}
	}
	return nil
}

const (
	// maxWaiting bounds the calls that are kept, and so the state. Others ask again without a place in the queue.
	maxWaiting = 8_000
	// maxTenants bounds the tenants that are told apart.
	maxTenants = 500
	// minSent is how many calls of the last window must have been sent for one refusal to show what the limit is.
	minSent = 10
)

// Queue decides when calls may begin. Times and durations are microseconds.
//
// Calls are admitted at an even rate, with a burst of a twentieth, so that no window has more calls than the limit, even where
// each begins up to a slack after it was admitted.
type Queue struct {
	state  contract.LimiterState
	window int64
}

// NewQueue continues from a state; limits are counted in a window.
func NewQueue(state contract.LimiterState, window time.Duration) *Queue {
	return &Queue{state: state, window: window.Microseconds()}
}

// slack is how long after its turn a call may begin.
func (q *Queue) slack() int64 { return q.window * 3 / 100 }

// near is how far away a turn may be that is given for good.
func (q *Queue) near() int64 { return q.window / 120 }

func burst(limit int) int64 { return max(1, int64(limit)/20) }

// cost is how long a limit takes for n.
func (q *Queue) cost(limit int, n int64) int64 {
	rate := int64(limit) - burst(limit) + 1
	return int64(math.Ceil(float64(n) * float64(q.window+q.slack()) / float64(rate)))
}

// next is when a limit admits n again, that has been used up to a time.
func (q *Queue) next(limit int, used, n int64) int64 {
	if limit <= 0 {
		return 0
	}
	return used - q.cost(limit, burst(limit)) + q.cost(limit, min(n, burst(limit)))
}

// limits are the lowest limits of the workers that asked lately, and what refusals have shown.
func (q *Queue) limits() (requests, tokens int) {
	lower := func(a, b int) int {
		if a == 0 || b == 0 {
			return max(a, b)
		}
		return min(a, b)
	}
	for _, w := range q.state.Workers {
		requests, tokens = lower(requests, w.Requests), lower(tokens, w.Tokens)
	}
	return lower(requests, q.state.Learned), tokens
}

// turn is when a call may begin if it is the next one, and take makes it so.
func (q *Queue) turn(now int64, c *contract.LimitedCall) int64 {
	requests, tokens := q.limits()
	return max(now, q.state.Until, q.next(requests, q.state.Calls, 1), q.next(tokens, q.state.Tokens, int64(c.Tokens)))
}

func (q *Queue) take(at int64, t *contract.LimitTenant, c *contract.LimitedCall) {
	var share int64 = 1000
	requests, tokens := q.limits()
	if requests > 0 {
		cost := q.cost(requests, 1)
		q.state.Calls, share = max(q.state.Calls, at)+cost, max(share, cost)
	}
	if tokens > 0 {
		cost := q.cost(tokens, int64(c.Tokens))
		q.state.Tokens, share = max(q.state.Tokens, at)+cost, max(share, cost)
	}
	if w := c.Weight; w >= 0.001 && w <= 1000 {
		share = max(1, int64(float64(share)/float64(w)))
	}
	q.state.Virtual = max(q.state.Virtual, t.Virtual)
	t.Virtual += share
}

// Reserve answers a worker at a time, in microseconds since 1970. Turns that are near go to calls that ask now, tenant by tenant; the others are told when to ask
// again, by what is ahead of them.
func (q *Queue) Reserve(now int64, in *contract.LimitRequest) *contract.LimitReply {
	q.report(now, in)
	out := &contract.LimitReply{Turns: make([]contract.LimitTurn, len(in.Calls)), Refused: q.state.Pause > 0}
	asking := make(map[string]*contract.LimitTurn, len(in.Calls))
	for i := range in.Calls {
		out.Turns[i] = contract.LimitTurn{Micros: q.window, Ask: true}
		asking[in.Calls[i].Key] = &out.Turns[i]
	}
	q.enter(in.Calls)
	q.admit(now, asking)
	q.estimate(now, asking)
	q.forget(now)
	requests, tokens := q.limits()
	out.Free = requests == 0 && tokens == 0 && q.state.Pause == 0
	return out
}

// enter gives calls places behind those of their tenants, unless they have one.
func (q *Queue) enter(calls []contract.LimitedCall) {
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
		c.Tenant = "" // it is that of its LimitTenant
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

// first is the tenant whose turn it is of those that have a call; -1: none has.
func (q *Queue) first(has func(tenant int) bool) int {
	found := -1
	for i := range q.state.Tenants {
		if (found < 0 || q.state.Tenants[i].Virtual < q.state.Tenants[found].Virtual) && has(i) {
			found = i
		}
	}
	return found
}

// admit gives turns that are near to calls that ask, which are then no longer asking.
func (q *Queue) admit(now int64, asking map[string]*contract.LimitTurn) {
	asks := make([][]int, len(q.state.Tenants))
	for i, t := range q.state.Tenants {
		for j := range t.Waiting {
			if asking[t.Waiting[j].Key] != nil {
				asks[i] = append(asks[i], j)
			}
		}
	}
	for {
		i := q.first(func(i int) bool { return len(asks[i]) > 0 })
		if i < 0 {
			break
		}
		t := &q.state.Tenants[i]
		c := &t.Waiting[asks[i][0]]
		begin := q.turn(now, c)
		if begin > now+q.near() {
			break
		}
		q.take(begin, t, c)
		*asking[c.Key] = contract.LimitTurn{Micros: begin - now}
		delete(asking, c.Key)
		asks[i], c.Key = asks[i][1:], ""
	}
	for i := range q.state.Tenants {
		t := &q.state.Tenants[i]
		t.Waiting = slices.DeleteFunc(t.Waiting, func(c contract.LimitedCall) bool { return c.Key == "" })
	}
}

// estimate tells the calls that have no turn when to ask again.
func (q *Queue) estimate(now int64, asking map[string]*contract.LimitTurn) {
	ahead := Queue{state: q.state, window: q.window}
	ahead.state.Tenants = slices.Clone(q.state.Tenants)
	next := make([]int, len(q.state.Tenants))
	for len(asking) > 0 {
		i := ahead.first(func(i int) bool { return next[i] < len(q.state.Tenants[i].Waiting) })
		if i < 0 {
			return // there are more than are kept
		}
		c := &q.state.Tenants[i].Waiting[next[i]]
		next[i]++
		begin := ahead.turn(now, c)
		ahead.take(begin, &ahead.state.Tenants[i], c)
		if turn := asking[c.Key]; turn != nil {
			turn.Micros = min(max(begin-q.near()*3/5-now, q.near()/2), 2*q.window)
			c.Back = now + turn.Micros
			delete(asking, c.Key)
		}
	}
}

// forget drops calls that did not ask again, tenants that have none, and workers that are gone.
func (q *Queue) forget(now int64) {
	some := false
	for i := range q.state.Tenants {
		t := &q.state.Tenants[i]
		t.Waiting = slices.DeleteFunc(t.Waiting, func(c contract.LimitedCall) bool { return now > c.Back+q.window/2 })
		some = some || len(t.Waiting) > 0
	}
	q.state.Tenants = slices.DeleteFunc(q.state.Tenants, func(t contract.LimitTenant) bool {
		return len(t.Waiting) == 0 && (!some || t.Virtual <= q.state.Virtual)
	})
	q.state.Workers = slices.DeleteFunc(q.state.Workers, func(w contract.LimitWorker) bool { return now > w.At+10*q.window })
}

// report records what a worker reports: its limits, what its calls took, and refusals.
func (q *Queue) report(now int64, in *contract.LimitRequest) {
	own := contract.LimitWorker{Name: in.Worker, At: now, Sent: in.Sent, Requests: in.Requests, Tokens: in.Tokens}
	if i := slices.IndexFunc(q.state.Workers, func(w contract.LimitWorker) bool { return w.Name == in.Worker }); i >= 0 {
		q.state.Workers[i] = own
	} else {
		q.state.Workers = append(q.state.Workers, own)
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
		q.refused(now, in.Refusal)
	case q.state.Pause > 0 && now >= q.state.Raise:
		q.raise(now)
	}
	if q.state.Learned > 0 && now < q.state.Since+q.window/12 { // what has been sent becomes known
		q.state.Learned = max(1, q.sent(now)*95/100)
	}
}

// refused has all calls pause: for as long as the provider asks or, where it does not say, for a sixtieth of a window, and twice
// as long after each further refusal. What was sent in the window before is the limit then, less a little, and later refusals lower
// it by a tenth; a first refusal after few calls shows none. Refusals of calls that were sent before the last one was heard count
// no further.
func (q *Queue) refused(now int64, r *contract.LimitRefusal) {
	after := r.AfterMillis * 1000
	q.state.Until = max(q.state.Until, now+after)
	if now-r.AgoMillis*1000 <= q.state.Refused {
		return
	}
	switch {
	case q.state.Learned == 0 && (q.state.Pause > 0 || q.sent(now) >= minSent):
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

// raise raises the learned limit by a quarter. The shorter the pauses were, the sooner that is done again, and all is forgotten.
func (q *Queue) raise(now int64) {
	if q.state.Pause /= 2; q.state.Pause < q.window/240 {
		q.state.Pause, q.state.Learned = 0, 0
		return
	}
	if q.state.Learned > 0 {
		q.state.Learned += max(1, q.state.Learned/4)
	}
	q.state.Raise = now + 10*q.state.Pause
}

// sent is how many calls workers have sent in the last window.
func (q *Queue) sent(now int64) int {
	sent := 0
	for _, w := range q.state.Workers {
		if now-w.At < q.window {
			sent += w.Sent
		}
	}
	return sent
}
