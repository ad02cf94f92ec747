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

// limited opens a model with limits.
func limited(t *testing.T, handle http.HandlerFunc, set ProviderSettings) (*Models, *server) {
	t.Helper()
	s := serve(t, handle)
	set.Kind, set.BaseURL, set.Key = "compatible", s.URL, "a-key"
	m, err := Open(Settings{Providers: map[string]ProviderSettings{"fake": set}})
	if err != nil {
		t.Fatal(err)
	}
	return m, s
}

func TestCallsWaitForTheirTurn(t *testing.T) {
	m, s := limited(t, good, ProviderSettings{RequestsPerMinute: 300}) // 30 at once, then 5 a second
	var waits []string
	call := &Call{Waiting: func(what string) { waits = append(waits, what) }}
	began := time.Now()
	for range 33 {
		if _, err := m.Ask(t.Context(), "fake/m", callOf(call, hello(), nil)); err != nil {
			t.Fatal(err)
		}
	}
	if d := time.Since(began); d < 500*time.Millisecond || d > time.Minute {
		t.Errorf("33 calls took %s", d)
	}
	if s.calls() != 33 || len(waits) == 0 || !strings.Contains(waits[0], "providers.fake.requests_per_minute") || waits[len(waits)-1] != "" {
		t.Errorf("%d calls, waits %q", s.calls(), waits)
	}
}

func TestATurnBeyondTheDeadlineIsNotWaitedFor(t *testing.T) {
	m, s := limited(t, good, ProviderSettings{RequestsPerMinute: 1})
	if _, err := m.Ask(t.Context(), "fake/m", callOf(&Call{}, hello(), nil)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	began := time.Now()
	_, err := m.Ask(ctx, "fake/m", callOf(&Call{}, hello(), nil))
	f := failureOf(t, err)
	if f.Class != contract.ClassRateLimited || f.After < 50*time.Second || time.Since(began) > 20*time.Second || s.calls() != 1 {
		t.Errorf("%v after %s, %d calls", f, f.After, s.calls())
	}
	mentions(t, f.Error(), "own limit", "raise providers.fake.requests_per_minute")
}

func TestTokensCount(t *testing.T) {
	// Each answer says 6,000 tokens: the second call has to wait until they are worked off.
	big := `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5000,"completion_tokens":1000}}`
	m, _ := limited(t, answer(200, big), ProviderSettings{TokensPerMinute: 6000})
	if _, err := m.Ask(t.Context(), "fake/m", callOf(&Call{}, hello(), nil)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := m.Ask(ctx, "fake/m", callOf(&Call{}, hello(), nil))
	f := failureOf(t, err)
	same(t, "class", f.Class, contract.ClassRateLimited)
	mentions(t, f.Text, "tokens_per_minute")
}

// What a call was guessed to take, and did not, is there for the next one.
func TestTokensThatWereNotUsedComeBack(t *testing.T) {
	small := `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":90,"completion_tokens":10}}`
	m, s := limited(t, answer(200, small), ProviderSettings{TokensPerMinute: 6000})
	ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second) // for what is guessed, each call would wait longer
	defer cancel()
	for range 4 {
		if _, err := m.Ask(ctx, "fake/m", callOf(&Call{}, transcriptOf("", user(strings.Repeat("word ", 4500))), nil)); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "calls", s.calls(), 4)
}

// An image is far longer in a request than it is in tokens.
func TestImagesAreNotCountedAsText(t *testing.T) {
	silent := `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}`
	m, s := limited(t, answer(200, silent), ProviderSettings{TokensPerMinute: 6000})
	ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
	defer cancel()
	in := transcriptOf("", contract.Message{Role: "user", Text: "What is this?", Media: []contract.Media{{
		MediaType: "image/png", Data: base64.StdEncoding.EncodeToString(make([]byte, 400_000))}}})
	for range 3 {
		if _, err := m.Ask(ctx, "fake/m", callOf(&Call{}, in, nil)); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "calls", s.calls(), 3)
}

func TestPlacesAreBounded(t *testing.T) {
	var now, most atomic.Int32
	m, s := limited(t, func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		for {
			if old := most.Load(); n <= old || most.CompareAndSwap(old, n) {
				break
			}
		}
		time.Sleep(30 * time.Millisecond)
		now.Add(-1)
		good(w, r)
	}, ProviderSettings{Concurrent: 2})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := m.Ask(context.Background(), "fake/m", callOf(&Call{}, hello(), nil)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if most.Load() > 2 || s.calls() != 8 {
		t.Errorf("%d at once, %d calls", most.Load(), s.calls())
	}
	// Who waits can be cancelled, and a call that failed gives its place back.
	release := make(chan struct{})
	m, _ = limited(t, func(w http.ResponseWriter, r *http.Request) { <-release; answer(500, "{}")(w, r) }, ProviderSettings{Concurrent: 1})
	wg.Go(func() { _, _ = m.Ask(context.Background(), "fake/m", callOf(&Call{}, hello(), nil)) })
	time.Sleep(50 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := m.Ask(ctx, "fake/m", callOf(&Call{}, hello(), nil)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	close(release)
	wg.Wait()
	_, err := m.Ask(t.Context(), "fake/m", callOf(&Call{}, hello(), nil))
	same(t, "class", failureOf(t, err).Class, contract.ClassUnavailable)
}

func TestOneKeyHasOneLimit(t *testing.T) {
	set := func(n int) ProviderSettings {
		return ProviderSettings{Kind: "compatible", BaseURL: "http://host/v1", Key: "same", RequestsPerMinute: n}
	}
	m, err := Open(Settings{Providers: map[string]ProviderSettings{"one": set(5), "two": set(5)}})
	if err != nil || m.providers["one"].limits != m.providers["two"].limits {
		t.Errorf("two names of one key have two limits: %v", err)
	}
	if m.providers["one"].limits == m.providers["vllm"].limits {
		t.Error("another server has the same limit")
	}
	_, err = Open(Settings{Providers: map[string]ProviderSettings{"one": set(5), "two": set(6)}})
	mentions(t, failureOf(t, err).Text, "providers.two: its key and address are those of providers.one")
}
