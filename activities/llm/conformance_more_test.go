package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
	"weft/activities/llm/wire"
)

// conformReasoning checks that the reasoning a provider requires is sent back with the
// tool's result, and not sent to another provider.
func conformReasoning(t *testing.T, b providerCase) string {
	calls := sampleCalls()[:2]
	e, m := b.start(t, fakeAnswer{pieces: []string{"So: "}, thought: "hm, let me think", calls: calls, stop: "tool_calls"}, nil)
	if b.api == wire.APIResponses {
		m.Name = "gpt-5"
	}
	a := e.generate(t, m, &Call{}, transcriptOf("", user("go")), llms.WithTools(tools()))
	stored, err := a.Message.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := contract.DecodeMessage(stored)
	if err != nil {
		t.Fatal(err)
	}
	in := transcriptOf("", user("go"), *again,
		contract.Message{Role: "tool", CallID: "call_1", Name: "get", Text: "1"}, contract.Message{Role: "tool", CallID: "call_2", Name: "put", Text: "2"})
	e.generate(t, m, &Call{}, in, llms.WithTools(tools()))
	back := e.lastRequest(t).turns[1]
	checkEqual(t, "text", back.text, "So: ")
	checkEqual(t, "calls", len(back.calls), 2)
	m.Provider = "another"
	e.generate(t, m, &Call{}, in, llms.WithTools(tools()))
	for _, thought := range e.lastRequest(t).turns[1].thoughts {
		if thought != "skip_thought_signature_validator" {
			t.Errorf("sent to another provider: %q", thought)
		}
	}
	signs := slices.Contains([]string{wire.Claude, wire.Gemini, wire.Converse}, b.row.Protocol) || b.api == wire.APIResponses
	if !signs && b.row.Reasoning == "" {
		checkEqual(t, "reasoning", back.thoughts, []string(nil))
		return "-"
	}
	if len(back.thoughts) == 0 {
		t.Error("no reasoning sent back")
	}
	for _, thought := range back.thoughts {
		if thought != "hm, let me think" && thought != "hm, let me think/U0lH" && thought != "U0lH" {
			t.Errorf("unexpected reasoning sent back: %q", thought)
		}
	}
	if !strings.Contains(a.Message.Reasoning, "let me think") {
		t.Errorf("reasoning %q", a.Message.Reasoning)
	}
	if signs {
		return "signed"
	}
	return "yes"
}

func conformUsage(t *testing.T, b providerCase) string {
	u := contract.Usage{Calls: 1, Input: 120, Output: 45}
	for name, change := range map[string]func(*provider){"stream": func(*provider) {}, "whole": func(m *provider) { m.Unary = true }} {
		e, m := b.start(t, fakeAnswer{pieces: []string{"x"}, stop: "stop", usage: u}, nil)
		change(m)
		a := e.generate(t, m, &Call{}, transcriptOf("", user("go")))
		checkEqual(t, "usage, "+name, a.Usage, u)
	}
	return "yes"
}

func conformCached(t *testing.T, b providerCase) string {
	u := contract.Usage{Calls: 1, Input: 120, Output: 45, Cached: 100, Reasoning: 20}
	switch b.row.Protocol {
	case wire.Claude:
		u.CacheWrite = 7
	case wire.Converse: // reasoning is not counted
		u.CacheWrite, u.Reasoning = 7, 0
	case wire.Cohere:
		u.Reasoning = 0
	}
	e, m := b.start(t, fakeAnswer{pieces: []string{"x"}, stop: "stop", usage: u}, nil)
	a := e.generate(t, m, &Call{}, transcriptOf("", user("go")))
	checkEqual(t, "usage", a.Usage, u)
	return "yes"
}

func conformStops(t *testing.T, b providerCase) string {
	e, m := b.start(t, fakeAnswer{pieces: []string{"half an ans"}, stop: "length"}, nil)
	a := e.generate(t, m, &Call{}, transcriptOf("", user("go")))
	checkEqual(t, "stop at the token limit", a.Stop, "length")
	checkEqual(t, "text", a.Message.Text, "half an ans")
	for _, change := range []func(*provider){func(*provider) {}, func(m *provider) { m.Unary = true }} {
		_, m := b.start(t, fakeAnswer{pieces: []string{"I"}, stop: "refused"}, nil)
		change(m)
		_, err := ask(t, m, &Call{})
		checkEqual(t, "class of the refusal", failureOf(t, err).Class, contract.ClassRefused)
	}
	return "yes"
}

// conformBrokenStreams checks that a partial answer is never accepted as complete.
func conformBrokenStreams(t *testing.T, b providerCase) string {
	events := b.vendor.events(fakeAnswer{pieces: []string{"one ", "two ", "three "}, calls: sampleCalls()[:1], stop: "tool_calls"})
	half := strings.Join(events[:len(events)/2], "")
	sends := func(text string, then func(w http.ResponseWriter, r *http.Request)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, text)
			w.(http.Flusher).Flush()
			then(w, r)
		}
	}
	ends := func(http.ResponseWriter, *http.Request) {}
	aborts := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	waits := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, tc := range map[string]struct {
		handle   http.HandlerFunc
		class    string
		wantText string
	}{
		"cut":                {sends(half, ends), contract.ClassUnavailable, "cut"},
		"cut in a line":      {sends(half+events[len(events)/2][:8], aborts), contract.ClassUnavailable, ""},
		"stalled":            {sends(half, waits), contract.ClassUnavailable, "no byte for"},
		"stalled at once":    {sends("", waits), contract.ClassUnavailable, "no byte"},
		"an error inside":    {sends(half+b.vendor.errorEvent(faultPlain, "upstream died"), ends), contract.ClassUnavailable, "upstream died"},
		"too long inside":    {sends(half+b.vendor.errorEvent(faultContext, "prompt is too long"), ends), contract.ClassContextLength, "too long"},
		"an error at once":   {sends(b.vendor.errorEvent(faultPlain, "upstream died"), ends), contract.ClassUnavailable, "upstream died"},
		"invalid event":      {sends(half+"data: {oops\n\n", ends), contract.ClassUnavailable, "oops"},
		"HTML page":          {answer(200, "<html>login</html>"), contract.ClassUnavailable, "login"},
		"empty":              {answer(200, ""), contract.ClassUnavailable, "empty"},
		"another JSON value": {answer(200, `{"hello":1}`), contract.ClassUnavailable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e, m := b.start(t, fakeAnswer{}, tc.handle)
			if strings.HasPrefix(name, "stalled") {
				m.firstByte, m.idle = 2*time.Second, 500*time.Millisecond
			}
			_, err := ask(t, m, &Call{})
			f := failureOf(t, err)
			if f.Class != tc.class {
				t.Errorf("class %q, want %q: %v (server: %v)", f.Class, tc.class, f, e.err)
			}
			checkContains(t, f.Text, tc.wantText, m.Ref())
			checkEqual(t, "requests", e.calls(), 1)
		})
	}
	return "yes"
}

func conformErrors(t *testing.T, b providerCase) string {
	for _, tc := range []struct {
		status  int
		kind    string
		message string
		headers []string
		class   string
		after   time.Duration
	}{
		{400, faultPlain, "bad field", nil, contract.ClassBadRequest, 0},
		{400, faultContext, "", nil, contract.ClassContextLength, 0},
		{401, faultPlain, "wrong key " + testKey, nil, contract.ClassDenied, 0},
		{403, faultPlain, "not allowed", nil, contract.ClassDenied, 0},
		{404, faultPlain, "no such model", nil, contract.ClassBadRequest, 0},
		{408, faultPlain, "timed out", nil, contract.ClassUnavailable, 0},
		{409, faultPlain, "conflict", nil, contract.ClassUnavailable, 0},
		{413, faultPlain, "request too large", nil, contract.ClassTooLarge, 0},
		{422, faultPlain, "unprocessable", nil, contract.ClassBadRequest, 0},
		{429, faultPlain, "slow down", nil, contract.ClassRateLimited, 0},
		{429, faultPlain, "slow down", []string{"Retry-After", "17"}, contract.ClassRateLimited, 17 * time.Second},
		{429, faultPlain, "slow down", []string{"Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}, contract.ClassRateLimited, maxRetryAfter},
		{429, faultPlain, "slow down", []string{"Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT"}, contract.ClassRateLimited, 0},
		{429, faultQuota, "", nil, contract.ClassQuotaExceeded, 0},
		{500, faultPlain, "oops", nil, contract.ClassUnavailable, 0},
		{503, faultPlain, "busy", []string{"Retry-After", "3"}, contract.ClassUnavailable, 3 * time.Second},
		{529, faultPlain, "overloaded", nil, contract.ClassUnavailable, 0},
	} {
		if tc.kind == faultQuota {
			if _, lacksQuota := b.vendor.(interface{ noQuota() }); lacksQuota {
				continue // this vendor reports it like any rate limit
			}
		}
		t.Run(fmt.Sprintf("%d %s %s", tc.status, tc.kind, strings.Join(tc.headers, " ")), func(t *testing.T) {
			e, m := b.start(t, fakeAnswer{}, answer(tc.status, b.vendor.errorBody(tc.status, tc.kind, tc.message), tc.headers...))
			_, err := ask(t, m, &Call{})
			f := failureOf(t, err)
			if f.Class != tc.class || f.After != tc.after {
				t.Errorf("class %q after %s, want %q after %s: %v (server: %v)", f.Class, f.After, tc.class, tc.after, f, e.err)
			}
			checkContains(t, f.Text, m.Ref(), fmt.Sprint(tc.status))
			if tc.status != 401 {
				checkContains(t, f.Text, tc.message)
			}
			if strings.Contains(f.Error(), testKey) {
				t.Errorf("secret in %q", f.Error())
			}
			checkEqual(t, "requests", e.calls(), 1)
		})
	}
	return "yes"
}

func conformBounds(t *testing.T, b providerCase) string {
	t.Run("cancelled", func(t *testing.T) {
		begun := make(chan struct{})
		_, m := b.start(t, fakeAnswer{}, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, strings.Join(b.vendor.events(textAnswer("one ", "two"))[:1], ""))
			w.(http.Flusher).Flush()
			close(begun)
			<-r.Context().Done()
		})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-begun; cancel() }()
		if _, err := generate(ctx, m, newCall(&Call{}, hello(), nil)); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("out of time", func(t *testing.T) {
		_, m := b.start(t, fakeAnswer{}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := generate(ctx, m, newCall(&Call{}, hello(), nil)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("slow headers", func(t *testing.T) {
		_, m := b.start(t, fakeAnswer{}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		m.firstByte = 100 * time.Millisecond
		_, err := ask(t, m, &Call{})
		f := failureOf(t, err)
		checkEqual(t, "class", f.Class, contract.ClassUnavailable)
		checkContains(t, f.Error(), "no byte within 100ms", "first_token_timeout")
	})
	t.Run("huge answer", func(t *testing.T) {
		e, m := b.start(t, textAnswer(strings.Repeat("x", 200_000)), nil)
		m.maxBody = 100_000
		_, err := ask(t, m, &Call{})
		f := failureOf(t, err)
		if f.Class != contract.ClassTooLarge {
			t.Errorf("class %q: %v (server: %v)", f.Class, f, e.err)
		}
		checkContains(t, f.Error(), "100000 bytes", "max_body_bytes")
	})
	t.Run("huge error", func(t *testing.T) {
		_, m := b.start(t, fakeAnswer{}, answer(500, b.vendor.errorBody(500, faultPlain, strings.Repeat("x", 1_000_000))))
		_, err := ask(t, m, &Call{})
		if f := failureOf(t, err); f.Class != contract.ClassUnavailable || len(f.Text) > 1_000 {
			t.Errorf("class %q, %d bytes", f.Class, len(f.Text))
		}
	})
	return "yes"
}

// decodeStrict decodes JSON and rejects unknown fields, like a strict server.
func decodeStrict(raw []byte, v any) error {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// event encodes a value as a server-sent event.
func event(v any) string {
	b, _ := json.Marshal(v)
	return "data: " + string(b) + "\n\n"
}

type object = map[string]any
