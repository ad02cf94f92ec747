package llm

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"weft/activities/contract"
)

// fakeLimits returns its permits one after the other, and records the calls and their outcomes.
type fakeLimits struct {
	permits []Permit
	keys    []LimitedKey
	calls   []contract.LimitedCall
	ended   []LimitOutcome
}

func (l *fakeLimits) Begin(_ context.Context, key LimitedKey, call contract.LimitedCall) (Permit, error) {
	l.keys, l.calls = append(l.keys, key), append(l.calls, call)
	p := l.permits[0]
	l.permits = l.permits[1:]
	p.End = func(o LimitOutcome) { l.ended = append(l.ended, o) }
	return p, nil
}

func TestSharedLimits(t *testing.T) {
	const tooMany = `{"error":{"message":"too many requests"}}`
	refuse := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		http.Error(w, tooMany, http.StatusTooManyRequests)
	}
	ask := func(t *testing.T, l *fakeLimits, handle http.HandlerFunc) (*server, *contract.Failure) {
		t.Helper()
		m, s := openLimited(t, handle, ProviderSettings{RequestsPerMinute: 60, TokensPerMinute: 1000})
		m.Share(l)
		_, err := m.Generate(t.Context(), "fake/m", newCall(&Call{IdempotencyKey: "run/call", Tenant: "north", Weight: 2}, hello(), nil))
		if err == nil {
			return s, nil
		}
		return s, contract.FailureOf(err)
	}
	t.Run("call must wait", func(t *testing.T) {
		s, f := ask(t, &fakeLimits{permits: []Permit{{Wait: 9 * time.Second}}}, okHandler)
		if f == nil || f.Class != contract.ClassRateLimited || f.After != 9*time.Second || f.Limit == nil || f.Limit.Millis != 9000 || s.calls() != 0 {
			t.Fatalf("failure %+v after %d calls", f, s.calls())
		}
		checkContains(t, f.Error(), "the key of provider fake", "providers.fake.requests_per_minute", "timeouts.retry")
	})
	t.Run("provider rejected other calls", func(t *testing.T) {
		_, f := ask(t, &fakeLimits{permits: []Permit{{Wait: time.Second, Reason: "slow down"}}}, okHandler)
		checkContains(t, f.Error(), "the provider said: slow down", "set providers.fake.requests_per_minute")
	})
	t.Run("usage corrects the estimate", func(t *testing.T) {
		l := &fakeLimits{permits: []Permit{{}}}
		if s, f := ask(t, l, okHandler); f != nil || s.calls() != 1 || len(l.ended) != 1 || l.ended[0].Refused != "" || l.ended[0].Used == 0 || l.calls[0].Tokens == 0 {
			t.Errorf("failure %v; calls %+v, outcomes %+v", f, l.calls, l.ended)
		}
	})
	t.Run("provider rejects the call", func(t *testing.T) {
		l := &fakeLimits{permits: []Permit{{}}}
		if _, f := ask(t, l, refuse); f == nil || f.Limit != nil || len(l.ended) != 1 || !strings.Contains(l.ended[0].Refused, "too many requests") || l.ended[0].After != 7*time.Second ||
			l.ended[0].Used != -l.calls[0].Tokens {
			t.Errorf("failure %v; outcomes %+v", f, l.ended)
		}
	})
	t.Run("keys are not disclosed", func(t *testing.T) {
		l := &fakeLimits{permits: []Permit{{}}}
		ask(t, l, okHandler)
		raw, err := json.Marshal([]any{l.keys, l.calls})
		if err != nil || strings.Contains(string(raw), "a-key") || strings.Contains(string(raw), "run/call") || len(l.keys[0].Fingerprint) != 16 {
			t.Errorf("keys and calls %s (%v)", raw, err)
		}
		if l.calls[0].Tenant != "north" || l.calls[0].Weight != 2 || l.keys[0].Requests != 60 || l.keys[0].Tokens != 1000 {
			t.Errorf("keys and calls %s", raw)
		}
	})
	t.Run("failover instead of waiting", func(t *testing.T) {
		l := &fakeLimits{permits: []Permit{{Wait: time.Hour}, {}}}
		s := serve(t, okHandler)
		set := func(key string) ProviderSettings {
			return ProviderSettings{Kind: "compatible", BaseURL: s.URL, Key: key}
		}
		m, err := Open(Settings{Providers: map[string]ProviderSettings{"one": set("1"), "two": set("2")}})
		if err != nil {
			t.Fatal(err)
		}
		m.Share(l)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if a, err := m.Generate(ctx, "one/m, two/m", newCall(&Call{IdempotencyKey: "k"}, hello(), nil)); err != nil || len(a.Fallbacks) != 1 || l.keys[0].Fingerprint == l.keys[1].Fingerprint {
			t.Errorf("%v, %v; keys %+v", a, err, l.keys)
		}
	})
}
