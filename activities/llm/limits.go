package llm

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"weft/activities/contract"
	"weft/activities/llm/wire"
)

// limiter bounds the calls of one worker with one key. The zero value has no bound.
type limiter struct {
	calls, tokens *rate.Limiter
	slots         chan struct{}
}

// limit gives every provider its limiter. Those with one address and key share one.
func (o *opener) limit(s Settings, m *Models) {
	type shared struct {
		name     string
		settings [3]int
		limiter  *limiter
	}
	byKey := map[string]shared{}
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
			have = shared{name, bounds, newLimiter(bounds)}
			byKey[key] = have
		case have.settings != bounds:
			o.problem("providers.%s: its key and address are those of providers.%s, but its limits are others; give both the same requests_per_minute, tokens_per_minute and concurrent", name, have.name)
		}
		p.limits = have.limiter
	}
}

func newLimiter(bounds [3]int) *limiter {
	l := &limiter{}
	if n := bounds[0]; n > 0 {
		// A burst of a tenth lets short peaks through without a minute's calls at once.
		l.calls = rate.NewLimiter(rate.Limit(float64(n)/60), max(1, n/10))
	}
	if n := bounds[1]; n > 0 {
		l.tokens = rate.NewLimiter(rate.Limit(float64(n)/60), n)
	}
	if n := bounds[2]; n > 0 {
		l.slots = make(chan struct{}, n)
	}
	return l
}

// acquire waits for a call's turn and reports to Call.Waiting what it waits for. size is the request's, in
// bytes, see [exchange.size]. done ends the call and corrects the estimated tokens.
//
// If the turn comes after the call's deadline, it fails as rate_limited at once.
func (l *limiter) acquire(x *exchange, size int) (done func(*wire.Answer), err error) {
	if l == nil {
		return func(*wire.Answer) {}, nil
	}
	waited := false
	report := func(what string) {
		if x.call.Waiting != nil {
			x.call.Waiting(what)
			waited = true
		}
	}
	defer func() {
		if waited {
			x.call.Waiting("")
		}
	}()
	if err := l.acquireSlot(x, report); err != nil {
		return nil, err
	}
	release := func() {
		if l.slots != nil {
			<-l.slots
		}
	}
	// Four bytes are about one token; the answer's size is settled when it is there.
	guess := size/4 + 1
	for _, b := range []struct {
		limiter *rate.Limiter
		n       int
		name    string
	}{{l.calls, 1, "requests_per_minute"}, {l.tokens, guess, "tokens_per_minute"}} {
		if err := wait(x, b.limiter, b.n, b.name, report); err != nil {
			release()
			return nil, err
		}
	}
	return func(a *wire.Answer) {
		release()
		l.settle(a, guess)
	}, nil
}

// acquireSlot takes one of the places for calls at the same time.
func (l *limiter) acquireSlot(x *exchange, report func(string)) error {
	if l.slots == nil {
		return nil
	}
	select {
	case l.slots <- struct{}{}:
		return nil
	default:
	}
	report(fmt.Sprintf("waiting for one of the %d calls of provider %s to finish (providers.%s.concurrent)", cap(l.slots), x.Provider, x.Provider))
	select {
	case l.slots <- struct{}{}:
		return nil
	case <-x.ctx.Done():
		return x.ctx.Err()
	}
}

// wait waits until a limit lets n through.
func wait(x *exchange, l *rate.Limiter, n int, name string, report func(string)) error {
	if l == nil {
		return nil
	}
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
	report(fmt.Sprintf("waiting %s for its turn (providers.%s.%s)", delay.Round(100*time.Millisecond), x.Provider, name))
	if err := sleep(x.ctx, delay); err != nil {
		turn.Cancel()
		return err
	}
	return nil
}

// settle corrects the estimate by the call's usage, if it is known.
func (l *limiter) settle(a *wire.Answer, guess int) {
	if l.tokens == nil || a == nil || a.Usage.Input+a.Usage.Output == 0 {
		return
	}
	// A negative number adds tokens; the limiter itself never holds more than its burst.
	more := a.Usage.Input + a.Usage.Output - min(guess, l.tokens.Burst())
	l.tokens.ReserveN(time.Now(), min(more, l.tokens.Burst()))
}

// size is how much of a request counts: an image is far longer as text than it is in tokens.
func (x *exchange) size(body []byte) int {
	n := len(body)
	for i := range x.call.Messages {
		for _, image := range x.call.Messages[i].Images {
			n += min(0, contract.ImageText-len(image.Data))
		}
	}
	return max(0, n)
}
