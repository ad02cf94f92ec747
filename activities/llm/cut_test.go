package llm

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/activities/llm/wire"
)

// usageEvent is an event that reports the usage.
const usageEvent = `{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12}}`

// TestCutAnswers checks that the usage of answers that are cut is reported, and that their retries are limited.
func TestCutAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		serve  http.HandlerFunc
		before int
		cut    int
		input  int
		final  bool
	}{
		"a stream without an end":             {serve: sse(text("half"), usageEvent), cut: 1, input: 7},
		"a stream without an end, again":      {serve: sse(text("half"), usageEvent), before: 1, cut: 1, input: 7},
		"a stream without an end, third time": {serve: sse(text("half"), usageEvent), before: 2, cut: 1, input: 7, final: true},
		"a stream without usage":              {serve: sse(text("half")), cut: 1},
		"half a JSON answer":                  {serve: answer(200, `{"choices":[{"mess`), cut: 1},
		"an error in a stream":                {serve: sse(text("half"), `{"error":{"message":"overloaded","code":503}}`), cut: 1},
		"an HTML page of a proxy":             {serve: answer(200, `<html>Bad gateway</html>`), before: 2},
		"an error with status 200":            {serve: answer(200, `{"error":{"message":"overloaded","code":503}}`), before: 2},
		"a server that is down":               {serve: answer(503, `{"error":{"message":"down"}}`), before: 2},
	} {
		t.Run(name, func(t *testing.T) {
			m, _, _ := openPair(t, tt.serve, okHandler)
			_, err := m.Generate(t.Context(), "a/x", newCall(&Call{Cut: tt.before}, hello(), nil))
			f := failureOf(t, err)
			var u contract.Usage
			if f.Usage != nil {
				u = *f.Usage
			}
			if f.Class != contract.ClassUnavailable || u.Cut != tt.cut || u.Input != tt.input || f.Final != tt.final {
				t.Errorf("%+v, usage %+v", f, u)
			}
			if tt.final && !strings.Contains(f.Remedy, "providers.a.cut_retries") {
				t.Errorf("remedy %q", f.Remedy)
			}
		})
	}
}

// TestFailoverAfterCutAnswer checks that the usage includes the answer that was cut before the next model answered.
func TestFailoverAfterCutAnswer(t *testing.T) {
	m, _, _ := openPair(t, sse(text("half"), usageEvent), okHandler)
	got, err := m.Generate(t.Context(), "a/x, b/y", newCall(&Call{}, hello(), nil))
	if err != nil {
		t.Fatal(err)
	}
	alone, err := m.Generate(t.Context(), "b/y", newCall(&Call{}, hello(), nil))
	if err != nil {
		t.Fatal(err)
	}
	if d := got.Usage.Less(alone.Usage); d.Cut != 1 || d.Input != 7 || d.Output != 5 || d.Calls != 0 {
		t.Errorf("usage of the answer that was cut: %+v", d)
	}
}

// reportedAt returns, by protocol, the part of usage u that a stream has reported after sent of all events.
var reportedAt = map[string]func(sent, all int, u contract.Usage) contract.Usage{
	// The first event reports the input, the last but one the rest.
	wire.Claude: func(sent, all int, u contract.Usage) contract.Usage {
		switch {
		case sent == 0:
			return contract.Usage{}
		case sent < all-1:
			u.Output = 1
		}
		return u
	},
	// Every event reports the input, the last one also the output.
	wire.Gemini: func(sent, _ int, u contract.Usage) contract.Usage {
		return contract.Usage{Input: min(sent, 1) * u.Input}
	},
}

// TestCutStreams interrupts the streams of all providers in the middle of each event. It checks that an answer that has started is
// counted as cut, with the usage reported so far, and is retried at most twice.
func TestCutStreams(t *testing.T) {
	usage := contract.Usage{Input: 70, Output: 9}
	for _, b := range providerCases() {
		if b.row.UnaryTools {
			b.row.UnaryTools = false
		}
		t.Run(strings.Trim(b.name, "`"), func(t *testing.T) {
			events := b.vendor.events(fakeAnswer{pieces: []string{"one ", "two ", "three "}, stop: "stop", usage: usage})
			var cut int
			handle := func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, strings.Join(events[:cut], "")+events[cut][:len(events[cut])/2])
			}
			_, m := b.start(t, fakeAnswer{}, handle)
			whole := 0
			for cut = range events {
				var reported contract.Usage
				call := &Call{Cut: 1, Spent: func(u contract.Usage) { reported = u }}
				_, err := ask(t, m, call)
				if err == nil {
					whole++ // it has its stop reason; only the usage may be missing
					continue
				}
				f := failureOf(t, err)
				var got contract.Usage
				if f.Usage != nil {
					got = *f.Usage
				}
				want := contract.Usage{}
				if at := reportedAt[b.row.Protocol]; at != nil {
					want = at(cut, len(events), usage)
				}
				if want.Cut = min(cut, 1); f.Class != contract.ClassUnavailable || f.Final || got.Cut != want.Cut || got.Input != want.Input || got.Output != want.Output || got.Calls != 0 {
					t.Errorf("after %d of %d events: %+v, usage %+v, want %+v", cut, len(events), f, got, want)
				}
				checkEqual(t, "reported usage", reported, got)
				call.Cut = 2
				if _, err = ask(t, m, call); failureOf(t, err).Final != (cut > 0) {
					t.Errorf("after %d events of the third answer: %v", cut, err)
				}
			}
			if whole == len(events) {
				t.Error("no answer was cut")
			}
		})
	}
}

// TestCutWithOtherErrorClass checks that answers cut by an error of another class are counted, and their retries limited, too.
func TestCutWithOtherErrorClass(t *testing.T) {
	for class, last := range map[string]string{
		contract.ClassRateLimited:   `{"error":{"message":"slow down","code":429}}`,
		contract.ClassContextLength: `{"error":{"message":"the maximum context length is exceeded","code":400}}`,
	} {
		m, _, _ := openPair(t, sse(text("half"), usageEvent, last), okHandler)
		_, err := m.Generate(t.Context(), "a/x", newCall(&Call{Cut: 2}, hello(), nil))
		f := failureOf(t, err)
		if f.Class != class || f.Usage == nil || f.Usage.Cut != 1 || f.Usage.Input != 7 || f.Final != contract.Retryable(class) {
			t.Errorf("%+v, usage %+v", f, f.Usage)
		}
	}
}

// TestTooLargeAnswerUsage checks that the usage of an answer that exceeds the size limit is reported.
func TestTooLargeAnswerUsage(t *testing.T) {
	s := serve(t, sse(usageEvent, text(strings.Repeat("x", 2000))))
	_, err := ask(t, openModel(t, "openai", s.URL, func(p *ProviderSettings) { p.MaxBodyBytes = 1000 }), &Call{})
	if f := failureOf(t, err); f.Class != contract.ClassTooLarge || f.Usage == nil || f.Usage.Input != 7 || f.Usage.Cut != 1 {
		t.Errorf("%+v, usage %+v", f, f.Usage)
	}
}

// TestWithheldAnswers checks that retries are limited if the provider withholds an invalid answer: each may be charged.
func TestWithheldAnswers(t *testing.T) {
	groq := `{"error":{"message":"Failed to call a function. Please adjust your prompt.","type":"invalid_request_error","code":"CODE","failed_generation":"<function=x>"}}`
	google := `{"candidates":[{"content":{"parts":[]},"finishReason":"MALFORMED_FUNCTION_CALL","index":0}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":5}}`
	for name, tt := range map[string]struct {
		kind  string
		serve http.HandlerFunc
		input int
	}{
		"Groq, a call":     {"groq", answer(400, strings.Replace(groq, "CODE", "tool_use_failed", 1)), 0},
		"Groq, JSON":       {"groq", answer(400, strings.Replace(groq, "CODE", "json_validate_failed", 1)), 0},
		"Groq, a stream":   {"groq", sse(text("half"), `{"choices":[],"x_groq":`+strings.Replace(groq[:len(groq)-1], "CODE", "tool_use_failed", 1)+`,"usage":{"prompt_tokens":7,"completion_tokens":5}}}`), 7},
		"Google":           {"google", answer(200, google), 7},
		"Google, a stream": {"google", sse(google), 7},
		"Bedrock":          {"bedrock", answer(200, `{"output":{"message":{"role":"assistant","content":[]}},"stopReason":"malformed_tool_use","usage":{"inputTokens":7,"outputTokens":5,"totalTokens":12}}`), 7},
	} {
		t.Run(name, func(t *testing.T) {
			m := openModel(t, tt.kind, serve(t, tt.serve).URL)
			for before := range 4 {
				_, err := ask(t, m, &Call{Cut: before})
				f := failureOf(t, err)
				if f.Class != contract.ClassUnavailable || f.Usage == nil || f.Usage.Cut != 1 || f.Usage.Input != tt.input || f.Final != (before >= 2) {
					t.Errorf("after %d: %+v, usage %+v", before, f, f.Usage)
				}
			}
		})
	}
}

// TestTimeoutKeepsUsage checks that usage is reported if a model exceeds its share of the call's timeout in the middle of an answer,
// and if the call itself times out.
func TestTimeoutKeepsUsage(t *testing.T) {
	slow := func(w http.ResponseWriter, r *http.Request) {
		sse(usageEvent, text("half"))(w, r)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	m, _, _ := openPair(t, slow, okHandler)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	got, err := m.Generate(ctx, "a/x, b/y", newCall(&Call{}, hello(), nil))
	if err != nil || got.Usage.Cut != 1 || got.Usage.Input < 7 || got.Fallbacks[0].Class != contract.ClassUnavailable {
		t.Fatalf("%+v, %v", got, err)
	}
	m, _, _ = openPair(t, sse(usageEvent, text("half")), slow)
	ctx, cancel = context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var reported contract.Usage
	_, err = m.Generate(ctx, "a/x, b/y", newCall(&Call{Spent: func(u contract.Usage) { reported = u }}, hello(), nil))
	if err != context.DeadlineExceeded || reported.Cut != 2 || reported.Input != 14 {
		t.Fatalf("%v, after %+v", err, reported)
	}
}

// TestDeepAnswers checks that an answer nested deeper than the JSON decoder supports is not retried. Arguments encoded as a string
// are left for the tool to reject.
func TestDeepAnswers(t *testing.T) {
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	for name, tt := range map[string]struct {
		kind, body string
		stream     bool
	}{
		"anthropic":         {"anthropic", `{"type":"message","content":[{"type":"tool_use","id":"a","name":"get","input":{"a":` + deep + `}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}`, false},
		"anthropic, stream": {"anthropic", `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"get","input":{"a":` + deep + `}}}`, true},
		"google":            {"google", `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"get","args":{"a":` + deep + `}}}]},"finishReason":"STOP"}]}`, false},
		"google, stream":    {"google", `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"get","args":{"a":` + deep + `}}}]},"finishReason":"STOP"}]}`, true},
		"bedrock":           {"bedrock", `{"output":{"message":{"content":[{"toolUse":{"toolUseId":"a","name":"get","input":{"a":` + deep + `}}}]}},"stopReason":"tool_use"}`, false},
		"openai":            {"openai", `{"choices":[{"message":{"content":` + deep + `},"finish_reason":"stop"}]}`, false},
		"openai, stream":    {"openai", `{"choices":[{"delta":{"content":` + deep + `}}]}`, true},
		"cohere":            {"cohere", `{"finish_reason":"COMPLETE","message":{"content":` + deep + `}}`, false},
		"responses":         {"azure", `{"status":"completed","output":` + deep + `}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			handle := answer(200, tt.body)
			if tt.stream {
				handle = sse(tt.body)
			}
			_, err := ask(t, openModel(t, tt.kind, serve(t, handle).URL), &Call{})
			if f := failureOf(t, err); f.Class != contract.ClassTooLarge || !strings.Contains(f.Text, "deep") {
				t.Errorf("%+v", f)
			}
		})
	}
}
