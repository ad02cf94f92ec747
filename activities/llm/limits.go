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

// limiter limits the calls with one key.
type limiter struct {
	slots *semaphore.Weighted
	// shared, if not nil, limits the calls of all workers.
	shared Limits
	limits [3]int // calls per minute, tokens per minute, and concurrent calls; 0 means no limit
}

// assignLimiters gives every provider its limiter. Providers with the same address and key share one.
func (o *opener) assignLimiters(s Settings, m *Models) {
	type first struct {
		name    string
		limiter *limiter
	}
	byKey := map[string]first{}
	for _, name := range slices.Sorted(maps.Keys(m.providers)) {
		p, settings := m.providers[name], s.Providers[name]
		limits := [3]int{settings.RequestsPerMinute, settings.TokensPerMinute, settings.Concurrent}
		key := p.Base + "\n" + p.key
		if p.key == "" {
			key = name
		}
		existing, found := byKey[key]
		switch {
		case !found:
			existing = first{name, newLimiter(limits)}
			byKey[key] = existing
		case existing.limiter.limits != limits:
			o.problem("providers.%s: same key and address as providers.%s, but different limits; set the same requests_per_minute, tokens_per_minute and concurrent for both", name, existing.name)
		}
		p.limits = existing.limiter
	}
}

func newLimiter(limits [3]int) *limiter {
	slots := limits[2]
	if slots <= 0 {
		slots = math.MaxInt
	}
	return &limiter{slots: semaphore.NewWeighted(int64(slots)), limits: limits}
}

// acquire waits until a call may start, and calls Call.Waiting if all slots are in use. size is the request's, in bytes,
// see [exchange.countedSize]. done ends the call and corrects the estimated tokens.
func (l *limiter) acquire(x *exchange, size int) (done func(*wire.Answer, error), err error) {
	if !l.slots.TryAcquire(1) {
		if x.call.Waiting != nil {
			x.call.Waiting(fmt.Sprintf("waiting for one of the %d calls of provider %s to finish (providers.%s.concurrent)", l.limits[2], x.Provider, x.Provider))
			defer x.call.Waiting("")
		}
		if err := l.slots.Acquire(x.ctx, 1); err != nil {
			return nil, err
		}
	}
	// Four bytes are about one token. The answer's tokens are corrected once it has been received.
	reserved := size/4 + 1 + max(0, x.call.Options.MaxTokens)
	p, err := l.begin(x, reserved)
	if err != nil {
		l.slots.Release(1)
		return nil, err
	}
	return func(a *wire.Answer, err error) {
		l.slots.Release(1)
		p.End(limitOutcome(a, err, reserved))
	}, nil
}

// countedSize returns the size of a request for the estimate of its tokens. Files count less than their encoded length.
func (x *exchange) countedSize(body []byte) int {
	n := len(body)
	if x.NoImages {
		return n // files are not sent
	}
	for i := range x.call.Messages {
		for _, file := range x.call.Messages[i].Media {
			n += min(0, file.TextSize()-len(file.Data))
		}
	}
	return max(0, n)
}

// Limits are rate limits that are shared by all workers.
type Limits interface {
	// Begin waits for a call's turn if it is imminent; otherwise the permit says when to try again. Its error is ctx's error.
	Begin(ctx context.Context, key LimitedKey, call contract.LimitedCall) (Permit, error)
}

// LimitedKey is a provider's key and its limits.
type LimitedKey struct {
	// Fingerprint is a hash of address and key, see [LimitFingerprint].
	Fingerprint string
	// Requests and Tokens are the configured limits per minute; 0 means no limit.
	Requests, Tokens int
}

// Permit is the decision on a call.
type Permit struct {
	// Wait, if positive, means that the call may not start and must try again after that time. Reason is the text of the
	// provider's last rate limit error; it is empty if only the configured limits apply.
	Wait   time.Duration
	Reason string
	// Unlimited means that the call does not count: the key has no limits, or the limiter is unreachable.
	Unlimited bool
	// End reports the outcome of a call that has started.
	End func(LimitOutcome)
}

// LimitOutcome is the outcome of a call with regard to limits.
type LimitOutcome struct {
	// Refused, if set, is the text of the provider's rate limit error, and After the delay that it requests.
	Refused string
	After   time.Duration
	// Used is the number of tokens used minus the estimate.
	Used int
}

// Share sets the limits that all workers share. It must be called before the first call.
func (m *Models) Share(l Limits) {
	for _, p := range m.providers {
		p.limits.shared = l
	}
}

// LimitFingerprint returns the hash that identifies a key at an address; a provider's name stands for a missing key.
func LimitFingerprint(base, key string) string {
	return contract.SHA([]byte("weft limit\n" + base + "\n" + key))[:16]
}

// begin waits for the limits that all workers share. If a call must wait, it fails as rate_limited with a
// [contract.LimitWait]; further requests of a call that has started wait here.
func (l *limiter) begin(x *exchange, estimate int) (p Permit, err error) {
	if l.shared == nil || x.call.IdempotencyKey == "" {
		return Permit{Unlimited: true, End: func(LimitOutcome) {}}, nil
	}
	key := LimitedKey{Fingerprint: LimitFingerprint(x.Base, cmp.Or(x.key, x.Provider+x.aws.ID)), Requests: l.limits[0], Tokens: l.limits[1]}
	call := contract.LimitedCall{Key: contract.SHA([]byte(x.call.IdempotencyKey))[:12], Tenant: x.call.Tenant, Weight: x.call.Weight, Tokens: estimate}
	for {
		p, err := l.shared.Begin(x.ctx, key, call)
		if err != nil || p.Wait <= 0 {
			x.admitted = x.admitted || err == nil
			return p, err
		}
		if !x.admitted {
			return p, x.rateLimited(p)
		}
		if err := sleep(x.ctx, p.Wait); err != nil {
			return p, err
		}
	}
}

func (x *exchange) rateLimited(p Permit) *contract.Failure {
	why := fmt.Sprintf("providers.%s.requests_per_minute, tokens_per_minute", x.Provider)
	remedy := "raise these limits if the provider allows more, raise the worker's timeouts.retry, or run fewer flows at the same time"
	if p.Reason != "" {
		why = "the provider said: " + p.Reason
		remedy = x.remedy(contract.ClassRateLimited, 0)
	}
	f := failf(contract.ClassRateLimited, remedy, "waiting for its turn: calls with the key of provider %s are rate limited on all workers (%s)", x.Provider, why)
	f.After, f.Limit = p.Wait, &contract.LimitWait{Millis: p.Wait.Milliseconds()}
	return f
}

// limitOutcome returns the outcome of a call for the limits; estimate is its estimated number of tokens.
func limitOutcome(a *wire.Answer, err error, estimate int) LimitOutcome {
	var o LimitOutcome
	if a != nil && a.Usage.Input+a.Usage.Output > 0 {
		o.Used = a.Usage.Input + a.Usage.Output - estimate
	}
	if f := contract.FailureOf(err); err != nil && f.Class == contract.ClassRateLimited {
		o.Refused, o.After, o.Used = f.Text, f.After, -estimate
	}
	return o
}

// shouldAwaitTurn reports whether a call must be retried when its turn comes, instead of calling the next model: if no
// model is left, or the turn comes within the model's share of the time.
func shouldAwaitTurn(ctx context.Context, f *contract.Failure, modelsLeft int) bool {
	if f.Limit == nil {
		return false
	}
	deadline, bounded := ctx.Deadline()
	return modelsLeft == 1 || !bounded || f.After <= time.Until(deadline)/time.Duration(modelsLeft)
}
