package llm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
)

// openPair opens two providers, a and b, with a fake server each.
func openPair(t *testing.T, a, b http.HandlerFunc, change ...func(*Settings)) (*Models, *server, *server) {
	t.Helper()
	first, second := serve(t, a), serve(t, b)
	s := Settings{Providers: map[string]ProviderSettings{
		"a": {Kind: "compatible", BaseURL: first.URL, Key: "key-of-a"}, "b": {Kind: "compatible", BaseURL: second.URL, Key: "key-of-b"},
	}}
	for _, f := range change {
		f(&s)
	}
	m, err := Open(s)
	if err != nil {
		t.Fatal(err)
	}
	return m, first, second
}

var okHandler = answer(200, completion(`{"content":"fine"}`, "stop"))

func TestFailover(t *testing.T) {
	for name, tc := range map[string]struct {
		first http.HandlerFunc
		class string
	}{
		"unavailable":      {answer(503, `{"error":{"message":"down"}}`), contract.ClassUnavailable},
		"rate limited":     {answer(429, `{"error":{"message":"slow"}}`), contract.ClassRateLimited},
		"no credit":        {answer(402, `{"error":{"message":"pay"}}`), contract.ClassQuotaExceeded},
		"denied":           {answer(401, `{"error":{"message":"who"}}`), contract.ClassDenied},
		"context too long": {answer(400, errorBody("context_length_exceeded", "too long")), contract.ClassContextLength},
		"stream cut off":   {sse(text("half")), contract.ClassUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			m, _, _ := openPair(t, tc.first, okHandler)
			got, err := m.Generate(t.Context(), "a/x, b/y", newCall(&Call{}, hello(), nil))
			if err != nil {
				t.Fatal(err)
			}
			if got.Message.Text != "fine" || got.Model != "b/m-1-2026" || len(got.Fallbacks) != 1 || got.Fallbacks[0].Model != "a/x" || got.Fallbacks[0].Class != tc.class {
				t.Errorf("answer %+v", got)
			}
		})
	}
}

func TestNoFailover(t *testing.T) {
	for name, tc := range map[string]struct {
		first http.HandlerFunc
		class string
	}{
		"a bad request": {answer(400, errorBody("invalid", "bad field")), contract.ClassBadRequest},
		"a refusal":     {answer(200, completion(`{"refusal":"no"}`, "stop")), contract.ClassRefused},
		"no such model": {answer(404, errorBody("model_not_found", "typo")), contract.ClassBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			m, _, second := openPair(t, tc.first, okHandler)
			_, err := m.Generate(t.Context(), "a/x,b/y", newCall(&Call{}, hello(), nil))
			if f := failureOf(t, err); f.Class != tc.class || second.calls() != 0 {
				t.Errorf("%v, %d calls of the second", f, second.calls())
			}
		})
	}
}

func TestAllModelsFail(t *testing.T) {
	m, _, _ := openPair(t, answer(401, errorBody("", "who are you")), answer(429, errorBody("", "slow down"), "Retry-After", "30"))
	_, err := m.Generate(t.Context(), "a/x,b/y", newCall(&Call{}, hello(), nil))
	f := failureOf(t, err)
	if f.Class != contract.ClassRateLimited || f.After != 30*time.Second {
		t.Errorf("class %q after %s, want the failure that can be retried soonest", f.Class, f.After)
	}
	checkContains(t, f.Text, "slow down", "who are you")
	_, err = m.Generate(t.Context(), "nobody/x, b/y", newCall(&Call{}, hello(), nil))
	checkContains(t, failureOf(t, err).Text, `unknown provider "nobody"`)
	m, first, second := openPair(t, okHandler, okHandler)
	for _, list := range []string{"a/x, b/", "a/x, gpt"} {
		_, err := m.Generate(t.Context(), list, newCall(&Call{}, hello(), nil))
		if failureOf(t, err).Class != contract.ClassBadRequest || first.calls()+second.calls() != 0 {
			t.Errorf("%q: %v, want an error before the first call", list, err)
		}
	}
	for _, list := range []string{"", " , "} {
		if _, err := m.Generate(t.Context(), list, newCall(&Call{}, hello(), nil)); failureOf(t, err).Class != contract.ClassBadRequest {
			t.Errorf("%q: %v", list, err)
		}
	}
}

func TestRetryAfterRespected(t *testing.T) {
	for _, status := range []int{429, 503, 529} {
		t.Run(fmt.Sprint(status), func(t *testing.T) { testRetryAfterRespected(t, status) })
	}
}

func testRetryAfterRespected(t *testing.T, status int) {
	m, first, second := openPair(t, answer(status, errorBody("", "slow down"), "Retry-After", "600"), okHandler)
	for range 3 {
		got, err := m.Generate(t.Context(), "a/x,b/y", newCall(&Call{}, hello(), nil))
		if err != nil || len(got.Fallbacks) != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if first.calls() != 1 || second.calls() != 3 {
		t.Errorf("%d and %d calls, want no call of the first model during its retry delay", first.calls(), second.calls())
	}
	// Without an alternative, the model is called in spite of the delay.
	if _, err := m.Generate(t.Context(), "a/x", newCall(&Call{}, hello(), nil)); err == nil || first.calls() != 2 {
		t.Errorf("%v, %d calls", err, first.calls())
	}
}

func TestFailoverFromSilentModel(t *testing.T) {
	silent := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	m, _, _ := openPair(t, silent, okHandler)
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	got, err := m.Generate(ctx, "a/x,b/y", newCall(&Call{}, hello(), nil))
	if err != nil || got.Message.Text != "fine" || !strings.Contains(got.Fallbacks[0].Text, "its share of the call's timeout") || got.Fallbacks[0].To != "b/y" {
		t.Errorf("%+v, %v", got, err)
	}
	m, _, _ = openPair(t, silent, silent)
	ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := m.Generate(ctx, "a/x,b/y", newCall(&Call{}, hello(), nil)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestPrices(t *testing.T) {
	cheap := 0.125
	_, err := Open(Settings{Prices: map[string]Price{"gpt": {Input: -1}}})
	checkContains(t, failureOf(t, err).Text, "prices.gpt: invalid key; use provider/model", "prices.gpt: invalid price -1")
	usage := `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,"completion_tokens":100,"prompt_tokens_details":{"cached_tokens":400}}}`
	m, _, _ := openPair(t, answer(200, usage), okHandler, func(s *Settings) {
		s.Prices = map[string]Price{
			"a/big*": {Input: 1.25, Output: 10, Cached: &cheap}, "a/*": {Input: 1, Output: 1}, "a/big": {Input: 2, Output: 2}, "a/dear-one": {Input: 3},
		}
	})
	for ref, want := range map[string]contract.Usage{
		"a/big-2026": {Calls: 1, Input: 1000, Output: 100, Cached: 400, Cost: 600*5/4 + 50 + 1000},
		"a/big":      {Calls: 1, Input: 1000, Output: 100, Cached: 400, Cost: 2200},
		"a/other":    {Calls: 1, Input: 1000, Output: 100, Cached: 400, Cost: 1100},
		"a/dear-one": {Calls: 1, Input: 1000, Output: 100, Cached: 400, Cost: 3000},
		"b/y":        {Calls: 1, Input: 7, Output: 3, Unpriced: 1},
		"script":     {Calls: 1},
	} {
		got, err := m.Generate(t.Context(), ref, newCall(&Call{}, hello(), nil))
		if err != nil {
			t.Fatal(err)
		}
		checkEqual(t, ref, got.Usage, want)
	}
}

// TestReasoningAndImagePrices checks that reasoning tokens have a separate price, and that each image sent is charged.
func TestReasoningAndImagePrices(t *testing.T) {
	dear := 40.0
	_, err := Open(Settings{Prices: map[string]Price{"a/b": {Image: -1, Reasoning: &dear}}})
	checkContains(t, failureOf(t, err).Text, "prices.a/b: invalid price -1")
	usage := `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,"completion_tokens":100,"completion_tokens_details":{"reasoning_tokens":60}}}`
	s := serve(t, answer(200, usage))
	models, err := Open(Settings{Prices: map[string]Price{"a/*": {Input: 1, Output: 10, Reasoning: &dear, Image: 0.002}, "a/plain": {Input: 1, Output: 10}, "blind/*": {Input: 1, Output: 10, Image: 0.002}},
		Providers: map[string]ProviderSettings{"a": {Kind: "compatible", BaseURL: s.URL}, "blind": {Kind: "compatible", BaseURL: s.URL, NoImages: true}}})
	if err != nil {
		t.Fatal(err)
	}
	image, _ := contract.NewMedia([]byte("GIF89a"), "x.gif")
	seen := user("see")
	seen.Media = []contract.Media{image, image}
	for ref, want := range map[string]int64{
		"a/m":     1000 + 40*10 + 60*40 + 2*2000,
		"a/plain": 1000 + 100*10,
		"blind/m": 1000 + 100*10,
	} {
		got, err := models.Generate(t.Context(), ref, newCall(&Call{}, transcriptOf("", seen), nil))
		if err != nil || got.Usage.Cost != want {
			t.Errorf("%s: %+v, want the cost %d (%v)", ref, got, want, err)
		}
	}
}

func TestFailoverUnsupportedParameter(t *testing.T) {
	first := serve(t, okHandler)
	m, err := Open(Settings{Providers: map[string]ProviderSettings{"a": {Kind: "compatible", BaseURL: first.URL}, "anthropic": {Key: "k"}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Generate(t.Context(), "a/x,anthropic/y", newCall(&Call{}, hello(), nil, llms.WithSeed(1)))
	f := failureOf(t, err)
	if f.Class != contract.ClassBadRequest || first.calls() != 0 {
		t.Errorf("%v, %d calls", f, first.calls())
	}
	checkContains(t, f.Text, "anthropic does not support seed")
}
