package llm

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weft/activities/contract"
)

// openLimited opens a provider with limits.
func openLimited(t *testing.T, handle http.HandlerFunc, set ProviderSettings) (*Models, *server) {
	t.Helper()
	s := serve(t, handle)
	set.Kind, set.BaseURL, set.Key = "compatible", s.URL, "a-key"
	m, err := Open(Settings{Providers: map[string]ProviderSettings{"fake": set}})
	if err != nil {
		t.Fatal(err)
	}
	return m, s
}

// TestImageTokenEstimate checks that an image is not estimated by its size in the request.
func TestImageTokenEstimate(t *testing.T) {
	m, _ := openLimited(t, okHandler, ProviderSettings{TokensPerMinute: 6000})
	l := &fakeLimits{permits: []Permit{{}}}
	m.Share(l)
	in := transcriptOf("", contract.Message{Role: "user", Text: "What is this?", Media: []contract.Media{{
		MediaType: "image/png", Data: base64.StdEncoding.EncodeToString(make([]byte, 400_000))}}})
	if _, err := m.Generate(t.Context(), "fake/m", newCall(&Call{IdempotencyKey: "run/call"}, in, nil)); err != nil {
		t.Fatal(err)
	}
	if l.calls[0].Tokens < 100 || l.calls[0].Tokens > 5000 {
		t.Errorf("estimated %d tokens, want 100 to 5000", l.calls[0].Tokens)
	}
}

func TestConcurrencyLimit(t *testing.T) {
	var now, most atomic.Int32
	m, s := openLimited(t, func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		for {
			if old := most.Load(); n <= old || most.CompareAndSwap(old, n) {
				break
			}
		}
		time.Sleep(30 * time.Millisecond)
		now.Add(-1)
		okHandler(w, r)
	}, ProviderSettings{Concurrent: 2})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			var waits []string
			if _, err := m.Generate(context.Background(), "fake/m", newCall(&Call{Waiting: func(what string) { waits = append(waits, what) }}, hello(), nil)); err != nil {
				t.Error(err)
			}
			if len(waits) > 0 && (!strings.Contains(waits[0], "providers.fake.concurrent") || waits[len(waits)-1] != "") {
				t.Errorf("waiting reports %q", waits)
			}
		})
	}
	wg.Wait()
	if most.Load() > 2 || s.calls() != 8 {
		t.Errorf("%d concurrent calls of %d", most.Load(), s.calls())
	}
	// A waiting call can be cancelled, and a failed call releases its slot.
	release := make(chan struct{})
	m, _ = openLimited(t, func(w http.ResponseWriter, r *http.Request) { <-release; answer(500, "{}")(w, r) }, ProviderSettings{Concurrent: 1})
	wg.Go(func() { _, _ = m.Generate(context.Background(), "fake/m", newCall(&Call{}, hello(), nil)) })
	time.Sleep(50 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := m.Generate(ctx, "fake/m", newCall(&Call{}, hello(), nil)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	close(release)
	wg.Wait()
	_, err := m.Generate(t.Context(), "fake/m", newCall(&Call{}, hello(), nil))
	checkEqual(t, "class", failureOf(t, err).Class, contract.ClassUnavailable)
}

func TestLimitPerKey(t *testing.T) {
	set := func(n int) ProviderSettings {
		return ProviderSettings{Kind: "compatible", BaseURL: "http://host/v1", Key: "same", RequestsPerMinute: n}
	}
	m, err := Open(Settings{Providers: map[string]ProviderSettings{"one": set(5), "two": set(5)}})
	if err != nil || m.providers["one"].limits != m.providers["two"].limits {
		t.Errorf("providers with the same key and address do not share a limiter: %v", err)
	}
	if m.providers["one"].limits == m.providers["vllm"].limits {
		t.Error("a provider with another address shares the limiter")
	}
	_, err = Open(Settings{Providers: map[string]ProviderSettings{"one": set(5), "two": set(6)}})
	checkContains(t, failureOf(t, err).Text, "providers.two: same key and address as providers.one")
}
