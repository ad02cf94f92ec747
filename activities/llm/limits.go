package llm

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"weft/activities/contract"
	"weft/activities/llm/wire"
)

// limiter bounds the calls of one worker with one key.
type limiter struct {
	calls, tokens *rate.Limiter
	places        *semaphore.Weighted
	// shared, if not nil, limits the calls of all workers; then calls and tokens count only where it cannot be asked.
	shared Limits
	bounds [3]int // of calls and tokens in a minute, and of calls at the same time; 0 means none
}

// limit gives every provider its limiter. Those with one address and key share one.
func (o *opener) limit(s Settings, m *Models) {
	type first struct {
		name    string
		limiter *limiter
	}
	byKey := map[string]first{}
	for _, name := range slices.Sorted(maps.Keys(m.providers)) {
		p, set := m.providers[name], s.Providers[name]
		bounds := [3]int{set.RequestsPerMinute, set.TokensPerMinute, set.Concurrent}
		key := p.Base + "\n" + p.key
		if p.key == "" {
			key = name
		}
		have, found := byKey[key]
		switch {
		case !found:
			have = first{name, newLimiter(bounds)}
			byKey[key] = have
		case have.limiter.bounds != bounds:
			o.problem("providers.%s: its key and address are those of providers.%s, but its limits are others; give both the same requests_per_minute, tokens_per_minute and concurrent", name, have.name)
		}
		p.limits = have.limiter
	}
}

func newLimiter(bounds [3]int) *limiter {
	perMinute := func(n, burst int) *rate.Limiter {
		if n <= 0 {
			return rate.NewLimiter(rate.Inf, math.MaxInt)
		}
		return rate.NewLimiter(rate.Limit(float64(n)/60), burst)
	}
	places := bounds[2]
	if places <= 0 {
		places = math.MaxInt
	}
	return &limiter{
		// A burst of a tenth lets short peaks through without a minute's calls at once.
		calls:  perMinute(bounds[0], max(1, bounds[0]/10)),
		tokens: perMinute(bounds[1], bounds[1]),
		places: semaphore.NewWeighted(int64(places)),
		bounds: bounds,
	}
}

// acquire waits for a call's turn and reports to Call.Waiting what it waits for. size is the request's, in
// bytes, see [exchange.size]. done ends the call and corrects the estimated tokens.
//
// If the turn comes after the call's deadline, it fails as rate_limited at once.
func (l *limiter) acquire(x *exchange, size int) (done func(*wire.Answer, error), err error) {
	waited := false
	report := func(format string, args ...any) {
		if x.call.Waiting != nil {
			x.call.Waiting(fmt.Sprintf(format, args...))
			waited = true
		}
	}
	defer func() {
		if waited {
			x.call.Waiting("")
		}
	}()
	if !l.places.TryAcquire(1) {
		report("waiting for one of the %d calls of provider %s to finish (providers.%s.concurrent)", l.bounds[2], x.Provider, x.Provider)
		if err := l.places.Acquire(x.ctx, 1); err != nil {
			return nil, err
		}
	}
	// Four bytes are about one token; the answer's size is settled when it is there.
	guess := size/4 + 1
	reserved := guess + max(0, x.call.Options.MaxTokens)
	p, err := l.begin(x, reserved)
	if err == nil && p.Local {
		err = wait(x, l.calls, 1, "requests_per_minute", report)
		if err == nil {
			err = wait(x, l.tokens, guess, "tokens_per_minute", report)
		}
	}
	if err != nil {
		l.places.Release(1)
		return nil, err
	}
	return func(a *wire.Answer, err error) {
		l.places.Release(1)
		if p.Local {
			l.settle(a, guess)
		}
		p.End(outcome(a, err, reserved))
	}, nil
}

// wait waits until a limit lets n through.
func wait(x *exchange, l *rate.Limiter, n int, name string, report func(string, ...any)) error {
	turn := l.ReserveN(time.Now(), min(n, l.Burst()))
	delay := turn.Delay()
	if delay <= 0 {
		return nil
	}
	if deadline, ok := x.ctx.Deadline(); ok && time.Until(deadline) < delay {
		turn.Cancel()
		f := failf(contract.ClassRateLimited, fmt.Sprintf("raise providers.%s.%s, or run fewer flows at the same time", x.Provider, name),
			"model %q: this worker's own limit providers.%s.%s allows the call only in %s, after its deadline", x.Ref(), x.Provider, name, delay.Round(time.Second))
		f.After = min(delay, maxAfter)
		return f
	}
	report("waiting %s for its turn (providers.%s.%s)", delay.Round(100*time.Millisecond), x.Provider, name)
	if err := sleep(x.ctx, delay); err != nil {
		turn.Cancel()
		return err
	}
	return nil
}

// settle corrects the estimate by the call's usage, if it is known.
func (l *limiter) settle(a *wire.Answer, guess int) {
	if a == nil || a.Usage.Input+a.Usage.Output == 0 {
		return
	}
	// A negative number adds tokens; the limiter itself never holds more than its burst.
	more := a.Usage.Input + a.Usage.Output - min(guess, l.tokens.Burst())
	l.tokens.ReserveN(time.Now(), min(more, l.tokens.Burst()))
}

// size is how much of a request counts: a file is far longer as text than it is in tokens.
func (x *exchange) size(body []byte) int {
	n := len(body)
	if x.NoImages {
		return n // it has none
	}
	for i := range x.call.Messages {
		for _, file := range x.call.Messages[i].Media {
			n += min(0, file.TextSize()-len(file.Data))
		}
	}
	return max(0, n)
}
