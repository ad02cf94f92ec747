package llm

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/semaphore"

	"weft/activities/contract"
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

// Limits are shared by all workers.
type Limits interface {
	// Begin waits for a call's turn where that is a moment away, and else says when to ask again. An error is ctx's own.
	Begin(ctx context.Context, key LimitedKey, call contract.LimitedCall) (Permit, error)
}

// LimitedKey is a key of a provider.
type LimitedKey struct {
	// Fingerprint is a hash of address and key.
	Fingerprint string
	// Requests and Tokens are the configured limits per minute; 0: none.
	Requests, Tokens int
}

// Permit is the answer to a call that wants to begin.
type Permit struct {
	// Wait, if over 0, means that the call may not begin, and is to ask again after that time. Said is set where the provider has
	// refused a call, and not because of the configured limits alone: what it said.
	Wait time.Duration
	Said string
	// Unlimited means that no turn was taken: the key has no limits, or the limiter does not answer.
	Unlimited bool
	// End takes how a call ended that has begun.
	End func(LimitOutcome)
}

// LimitOutcome is how a call ended, as far as limits are concerned.
type LimitOutcome struct {
	// Refused, if set, is what the provider said that refused the call because of its limits, and After how long it asks to wait.
	Refused string
	After   time.Duration
	// Used is by how many tokens the answer differs from the estimate.
	Used int
}

// Share makes limits apply to the calls of all workers. It is called before the first call.
func (m *Models) Share(l Limits) {
	for _, p := range m.providers {
		p.limits.shared = l
	}
}

// LimitFingerprint is the hash that names a key at an address; a provider without a key has its name in place of one.
func LimitFingerprint(base, key string) string {
	return contract.SHA([]byte("weft limit\n" + base + "\n" + key))[:16]
}

// begin asks the limits that all workers share. A call whose turn has not come fails as rate_limited with a
// [contract.LimitWait]; a further request of a call that has begun waits.
func (l *limiter) begin(x *exchange, guess int) (p Permit, err error) {
	if l.shared == nil || x.call.IdempotencyKey == "" {
		return Permit{Unlimited: true, End: func(LimitOutcome) {}}, nil
	}
	key := LimitedKey{Fingerprint: LimitFingerprint(x.Base, cmp.Or(x.key, x.Provider+x.aws.ID)), Requests: l.bounds[0], Tokens: l.bounds[1]}
	call := contract.LimitedCall{Key: contract.SHA([]byte(x.call.IdempotencyKey))[:12], Tenant: x.call.Tenant, Weight: x.call.Weight, Tokens: guess}
	for {
		p, err := l.shared.Begin(x.ctx, key, call)
		if err != nil || p.Wait <= 0 {
			x.hasBegun = x.hasBegun || err == nil
			return p, err
		}
		if !x.hasBegun {
			return p, x.limited(p)
		}
		if err := sleep(x.ctx, p.Wait); err != nil {
			return p, err
		}
	}
}

func (x *exchange) limited(p Permit) *contract.Failure {
	why := fmt.Sprintf("providers.%s.requests_per_minute, tokens_per_minute", x.Provider)
	remedy := "raise these limits if the provider allows more, raise the worker's timeouts.retry, or run fewer flows at the same time"
	if p.Said != "" {
		why = "the provider said: " + p.Said
		remedy = x.remedy(contract.ClassRateLimited, 0)
	}
	f := failf(contract.ClassRateLimited, remedy, "waiting for its turn: calls with the key of provider %s are limited on all workers (%s)", x.Provider, why)
	f.After, f.Limit = p.Wait, &contract.LimitWait{Millis: p.Wait.Milliseconds()}
	return f
}

// outcome tells the limits how a call ended that was estimated at so many tokens.
func outcome(a *wire.Answer, err error, guess int) LimitOutcome {
	var o LimitOutcome
	if a != nil && a.Usage.Input+a.Usage.Output > 0 {
		o.Used = a.Usage.Input + a.Usage.Output - guess
	}
	if f := contract.FailureOf(err); err != nil && f.Class == contract.ClassRateLimited {
		o.Refused, o.After, o.Used = f.Text, f.After, -guess
	}
	return o
}

// waitsForTurn reports whether a failure of a model, with so many left, means that the call is to come again rather than ask
// another model: it does where its turn comes within the model's share of the time.
func waitsForTurn(ctx context.Context, f *contract.Failure, left int) bool {
	if f.Limit == nil {
		return false
	}
	deadline, bounded := ctx.Deadline()
	return left == 1 || !bounded || f.After <= time.Until(deadline)/time.Duration(left)
}
