package llm

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"golang.org/x/sync/semaphore"

	"weft/activities/llm/wire"
)

// limiter bounds the calls with one key.
type limiter struct {
	places *semaphore.Weighted
	// shared, if not nil, limits the calls of all workers.
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
	places := bounds[2]
	if places <= 0 {
		places = math.MaxInt
	}
	return &limiter{places: semaphore.NewWeighted(int64(places)), bounds: bounds}
}

// acquire waits for a call's turn and reports to Call.Waiting if it waits for a place. size is the request's, in
// bytes, see [exchange.size]. done ends the call and corrects the estimated tokens.
func (l *limiter) acquire(x *exchange, size int) (done func(*wire.Answer, error), err error) {
	if !l.places.TryAcquire(1) {
		if x.call.Waiting != nil {
			x.call.Waiting(fmt.Sprintf("waiting for one of the %d calls of provider %s to finish (providers.%s.concurrent)", l.bounds[2], x.Provider, x.Provider))
			defer x.call.Waiting("")
		}
		if err := l.places.Acquire(x.ctx, 1); err != nil {
			return nil, err
		}
	}
	// Four bytes are about one token; the answer's size is settled when it is there.
	reserved := size/4 + 1 + max(0, x.call.Options.MaxTokens)
	p, err := l.begin(x, reserved)
	if err != nil {
		l.places.Release(1)
		return nil, err
	}
	return func(a *wire.Answer, err error) {
		l.places.Release(1)
		p.End(outcome(a, err, reserved))
	}, nil
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
