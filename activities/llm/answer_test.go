package llm

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/activities/llm/wire"
)

// toolDelta returns a streamed piece of tool calls.
func toolDelta(calls string) string {
	return `{"choices":[{"delta":{"tool_calls":[` + calls + `]}}]}`
}

func TestAnswers(t *testing.T) {
	two := []contract.ToolCall{{ID: "a", Name: "get", Arguments: `{"k":"1"}`}, {ID: "b", Name: "put", Arguments: `{"k":"2"}`}}
	crlf := func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "\xef\xbb\xbf: OPENROUTER PROCESSING\r\n\r\nevent: message\r\nid: 1\r\nretry: 5\r\ndata:%s\r\n\r\n: ping\r\n\r\ndata: %s\r\n\r\ndata: %s\r\n\r\ndata: [DONE]\r\n\r\n", text("Hel"), text("lo"), finish("stop"))
	}
	joined := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintf(w, "data: %s\ndata: %s\ndata: %s\ndata: [DONE]\n", text("Hel"), text("lo"), finish("stop"))
	}
	folded := func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "data: {\"choices\":[{\ndata: \"delta\":{\"content\":\"Hello\"}}]}\n\ndata: %s", finish("stop"))
	}
	cutLate := func(w http.ResponseWriter, r *http.Request) {
		sse(text("Hello"), finish("stop"))(w, r)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	hangLate := func(w http.ResponseWriter, r *http.Request) {
		sse(text("Hello"), finish("stop"))(w, r)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	big := strings.Repeat("0123456789", 30_000)
	tests := map[string]struct {
		handle http.HandlerFunc
		text   string
		calls  []contract.ToolCall
		stop   string
		reason string
	}{
		"a plain answer":                               {answer(200, completion(`{"content":"Hello"}`, "stop")), "Hello", nil, "stop", ""},
		"a plain answer after keep-alives":             {answer(200, "\n\n  \n"+completion(`{"content":"Hello"}`, "stop")), "Hello", nil, "stop", ""},
		"content as a list":                            {answer(200, completion(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"Hel"},{"type":"text","text":"lo"}]}`, "stop")), "Hello", nil, "stop", "hm"},
		"reasoning_content":                            {answer(200, completion(`{"content":"Hello","reasoning_content":"hm"}`, "stop")), "Hello", nil, "stop", "hm"},
		"reasoning":                                    {answer(200, completion(`{"content":"Hello","reasoning":"hm"}`, "stop")), "Hello", nil, "stop", "hm"},
		"reasoning under both names":                   {sse(`{"choices":[{"delta":{"reasoning":"h","reasoning_content":"h"}}]}`, `{"choices":[{"delta":{"reasoning":"m","reasoning_content":"m"}}]}`, text("Hello"), finish("stop")), "Hello", nil, "stop", "hm"},
		"a stream":                                     {sse(text("Hel"), text("lo"), finish("stop"), done), "Hello", nil, "stop", ""},
		"a stream without DONE":                        {sse(text("Hel"), text("lo"), finish("stop")), "Hello", nil, "stop", ""},
		"a stream with CRLF, comments and fields":      {crlf, "Hello", nil, "stop", ""},
		"a stream without blank lines":                 {joined, "Hello", nil, "stop", ""},
		"an event of two lines, and no last line end":  {folded, "Hello", nil, "stop", ""},
		"a stream that breaks after its finish":        {cutLate, "Hello", nil, "stop", ""},
		"a stream that hangs after its finish":         {hangLate, "Hello", nil, "stop", ""},
		"a line of 300 KB":                             {sse(text(big), finish("stop")), big, nil, "stop", ""},
		"length":                                       {sse(text("Hel"), finish("length")), "Hel", nil, "length", ""},
		"an error that repeats the stop reason length": {sse(text("Hel"), finish("length"), `{"error":{"code":400,"message":"Token limit reached"},"choices":[]}`), "Hel", nil, "length", ""},
		"JSON without a finish reason":                 {answer(200, completion(`{"content":"Hello"}`, "")), "Hello", nil, "stop", ""},
		"a stream with DONE and no finish reason":      {sse(text("Hel"), text("lo"), done), "Hello", nil, "stop", ""},
		"a call in JSON without a finish reason":       {answer(200, completion(`{"tool_calls":[{"id":"a","function":{"name":"get","arguments":{"k":"1"}}}]}`, "")), "", two[:1], "tool_calls", ""},
		"Mistral's model_length":                       {sse(text("Hel"), finish("model_length")), "Hel", nil, "length", ""},
		"an unknown finish reason":                     {sse(text("Hel"), finish("Enough")), "Hel", nil, "enough", ""},
		"no text at all":                               {sse(finish("stop")), "", nil, "stop", ""},
		"two calls, plain":                             {answer(200, completion(`{"content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"get","arguments":"{\"k\":\"1\"}"}},{"id":"b","type":"function","function":{"name":"put","arguments":"{\"k\":\"2\"}"}}]}`, "tool_calls")), "", two, "tool_calls", ""},
		"arguments as an object":                       {answer(200, completion(`{"tool_calls":[{"id":"a","function":{"name":"get","arguments":{"k":"1"}}}]}`, "stop")), "", two[:1], "tool_calls", ""},
		"two calls, interleaved":                       {sse(toolDelta(`{"index":0,"id":"a","function":{"name":"get","arguments":""}},{"index":1,"id":"b","function":{"name":"put","arguments":""}}`), toolDelta(`{"index":1,"function":{"arguments":"{\"k\":"}},{"index":0,"function":{"arguments":"{\"k\":"}}`), toolDelta(`{"index":0,"function":{"arguments":"\"1\"}"}}`), toolDelta(`{"index":1,"function":{"arguments":"\"2\"}"}}`), finish("tool_calls")), "", two, "tool_calls", ""},
		"a reused index":                               {sse(toolDelta(`{"index":0,"id":"a","function":{"name":"get","arguments":"{\"k\":\"1\"}"}}`), toolDelta(`{"index":0,"id":"b","function":{"name":"put","arguments":"{\"k\":\"2\"}"}}`), finish("tool_calls")), "", two, "tool_calls", ""},
		"no index":                                     {sse(toolDelta(`{"id":"a","function":{"name":"get","arguments":"{\"k\":"}}`), toolDelta(`{"function":{"arguments":"\"1\"}"}}`), toolDelta(`{"id":"b","function":{"name":"put","arguments":"{\"k\":\"2\"}"}}`), finish("stop")), "", two, "tool_calls", ""},
		"id and name in each piece":                    {sse(toolDelta(`{"index":0,"id":"a","type":"function","function":{"name":"get","arguments":"{\"k\":"}}`), toolDelta(`{"index":0,"id":"a","type":"function","function":{"name":"get","arguments":"\"1\"}"}}`), toolDelta(`{"index":1,"id":"b","function":{"name":"put","arguments":"{\"k\":\"2\"}"}}`), finish("tool_calls")), "", two, "tool_calls", ""},
		"trailing empty pieces":                        {sse(toolDelta(`{"index":0,"id":"a","function":{"name":"get","arguments":"{\"k\":\"1\"}"}}`), toolDelta(`{"index":0,"id":"a","function":{"name":"get","arguments":""}}`), toolDelta(`{"index":0,"function":{"arguments":""}}`), toolDelta(`{"index":3,"function":{}}`), finish("tool_calls")), "", two[:1], "tool_calls", ""},
		"a changed index with a known id":              {sse(toolDelta(`{"index":0,"id":"a","function":{"name":"get","arguments":"{\"k\":"}}`), toolDelta(`{"index":1,"id":"a","function":{"arguments":"\"1\"}"}}`), finish("tool_calls")), "", two[:1], "tool_calls", ""},
		"no ids and no index, names differ":            {sse(toolDelta(`{"function":{"name":"get","arguments":"{\"k\":\"1\"}"}},{"function":{"name":"put","arguments":"{\"k\":\"2\"}"}}`), finish("tool_calls")), "", []contract.ToolCall{{ID: "call_1", Name: "get", Arguments: `{"k":"1"}`}, {ID: "call_2", Name: "put", Arguments: `{"k":"2"}`}}, "tool_calls", ""},
		"no ids, one tool twice, reused index":         {sse(toolDelta(`{"index":0,"function":{"name":"get","arguments":"{\"k\":\"1\"}"}}`), toolDelta(`{"index":0,"function":{"name":"get","arguments":"{\"k\":\"2\"}"}}`), finish("stop")), "", []contract.ToolCall{{ID: "call_1", Name: "get", Arguments: `{"k":"1"}`}, {ID: "call_2", Name: "get", Arguments: `{"k":"2"}`}}, "tool_calls", ""},
		"a name in pieces":                             {sse(toolDelta(`{"index":0,"id":"a","function":{"name":"ge","arguments":""}}`), toolDelta(`{"index":0,"function":{"name":"t","arguments":"{\"k\":\"1\"}"}}`), finish("tool_calls")), "", two[:1], "tool_calls", ""},
		"an id that is a number, and null fields":      {sse(toolDelta(`{"index":0,"id":17,"function":{"name":"get","arguments":null}}`), `{"choices":[{"delta":{"content":null,"tool_calls":null,"refusal":null},"finish_reason":"tool_calls"}],"usage":null,"error":null}`), "", []contract.ToolCall{{ID: "17", Name: "get", Arguments: "{}"}}, "tool_calls", ""},
		"the same id twice in a plain answer":          {answer(200, completion(`{"tool_calls":[{"id":"a","function":{"name":"get","arguments":"{}"}},{"id":"a","function":{"name":"put","arguments":"{}"}}]}`, "tool_calls")), "", []contract.ToolCall{{ID: "a", Name: "get", Arguments: "{}"}, {ID: "a_2", Name: "put", Arguments: "{}"}}, "tool_calls", ""},
		"arguments that are not JSON are unchanged":    {sse(toolDelta(`{"index":0,"id":"a","function":{"name":"get","arguments":"{k: 1"}}`), finish("tool_calls")), "", []contract.ToolCall{{ID: "a", Name: "get", Arguments: "{k: 1"}}, "tool_calls", ""},
		"integers above 2^53 are unchanged":            {answer(200, completion(`{"tool_calls":[{"id":"a","function":{"name":"get","arguments":{"n":12345678901234567}}}]}`, "tool_calls")), "", []contract.ToolCall{{ID: "a", Name: "get", Arguments: `{"n":12345678901234567}`}}, "tool_calls", ""},
		"text with calls, and legacy finish reasons":   {sse(text("Hello"), toolDelta(`{"index":0,"id":"a","function":{"name":"get","arguments":"{\"k\":\"1\"}"}}`), finish("function_call")), "Hello", two[:1], "tool_calls", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, tc.handle)
			a, err := ask(t, openModel(t, "compatible", s.URL), &Call{})
			if err != nil {
				t.Fatal(err)
			}
			a.Message.Provider = nil
			want := contract.Message{Role: "assistant", Text: tc.text, Calls: tc.calls, Reasoning: tc.reason}
			if !reflect.DeepEqual(a.Message, want) {
				t.Errorf("message %+v\nwant %+v", a.Message, want)
			}
			if a.Stop != tc.stop {
				t.Errorf("stop %q, want %q", a.Stop, tc.stop)
			}
		})
	}
}

func TestUsageAndModel(t *testing.T) {
	last := `{"model":"m-1-2026","choices":[],"usage":{"prompt_tokens":120,"completion_tokens":30.0,"total_tokens":150,"prompt_tokens_details":{"cached_tokens":64},"completion_tokens_details":{"reasoning_tokens":12}}}`
	tests := map[string]struct {
		handle http.HandlerFunc
		want   contract.Usage
	}{
		"in the last event":  {sse(text("a"), finish("stop"), last, done), contract.Usage{Calls: 1, Input: 120, Output: 30, Cached: 64, Reasoning: 12}},
		"DeepSeek's cache":   {sse(`{"model":"m-1-2026","choices":[{"delta":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"prompt_cache_hit_tokens":8,"completion_tokens":1}}`), contract.Usage{Calls: 1, Input: 9, Output: 1, Cached: 8}},
		"plain":              {answer(200, completion(`{"content":"a"}`, "stop")), contract.Usage{Calls: 1, Input: 7, Output: 3}},
		"OpenRouter's cache": {sse(`{"model":"m-1-2026","choices":[{"delta":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":90,"prompt_tokens_details":{"cached_tokens":20,"cache_write_tokens":60},"completion_tokens":1}}`), contract.Usage{Calls: 1, Input: 90, Output: 1, Cached: 20, CacheWrite: 60}},
		"none":               {sse(`{"model":"m-1-2026","choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`), contract.Usage{Calls: 1}},
		"invalid numbers":    {sse(`{"model":"m-1-2026","choices":[{"delta":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":-5,"completion_tokens":1e30}}`), contract.Usage{Calls: 1}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := serve(t, tc.handle)
			a, err := ask(t, openModel(t, "compatible", s.URL), &Call{})
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(a.Usage, tc.want) || a.Model != "fake/m-1-2026" {
				t.Errorf("usage %+v, model %q; want %+v", a.Usage, a.Model, tc.want)
			}
		})
	}
}

func TestPartialText(t *testing.T) {
	s := serve(t, sse(text("Hel"), toolDelta(`{"index":0,"id":"a","function":{"name":"get","arguments":"{}"}}`), text("lo"), finish("stop")))
	var seen []string
	_, err := ask(t, openModel(t, "compatible", s.URL), &Call{Partial: func(p string) { seen = append(seen, p) }})
	if err != nil || !reflect.DeepEqual(seen, []string{"Hel", "Hello"}) {
		t.Errorf("partial texts %q, error %v", seen, err)
	}
}

// TestReasoningSentBack checks that reasoning is sent back, but only to its own provider.
func TestReasoningSentBack(t *testing.T) {
	details := func(s string) string { return `{"choices":[{"delta":{"reasoning_details":[` + s + `]}}]}` }
	openrouter := sse(
		`{"choices":[{"delta":{"reasoning":"hm"}}]}`,
		details(`{"type":"reasoning.text","text":"Let","format":"f","index":0}`),
		details(`{"type":"reasoning.text","text":" me","index":0},{"type":"reasoning.encrypted","data":"xyz","index":1}`),
		details(`{"type":"reasoning.text","signature":"SIG","index":0}`),
		toolDelta(`{"index":0,"id":"a","function":{"name":"get","arguments":"{}"},"extra_content":{"google":{"thought_signature":"TS"}}}`),
		finish("tool_calls"))
	deepseek := sse(`{"choices":[{"delta":{"reasoning_content":"hm"}}]}`, toolDelta(`{"index":0,"id":"a","function":{"name":"get","arguments":"{}"}}`), finish("tool_calls"))
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("X-Kind"), "deepseek") {
			deepseek(w, r)
			return
		}
		openrouter(w, r)
	})
	header := func(kind string) func(*ProviderSettings) {
		return func(p *ProviderSettings) { p.Headers = map[string]string{"X-Kind": kind} }
	}
	router, seek := openModel(t, "openrouter", s.URL, header("openrouter")), openModel(t, "deepseek", s.URL, header("deepseek"))
	seek.Provider = "seek"

	again := func(m *provider, a *Answer) string {
		t.Helper()
		stored, err := a.Message.Encode() // through history
		if err != nil {
			t.Fatal(err)
		}
		msg, err := contract.DecodeMessage(stored)
		if err != nil {
			t.Fatal(err)
		}
		in := transcriptOf("", user("hi"), *msg, contract.Message{Role: "tool", CallID: "a", Name: "get", Text: "1"})
		if _, err := generate(t.Context(), m, newCall(&Call{}, in, nil)); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(s.sent(t)["messages"].([]any)[1])
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	byRouter, err := ask(t, router, &Call{})
	if err != nil {
		t.Fatal(err)
	}
	checkContains(t, again(router, byRouter), `"reasoning":"hm"`, `"text":"Let me"`, `"signature":"SIG"`, `"data":"xyz"`, `"thought_signature":"TS"`)
	if got := again(seek, byRouter); strings.Contains(got, "hm") || strings.Contains(got, "TS") {
		t.Errorf("sent to another provider: %s", got)
	}
	bySeek, err := ask(t, seek, &Call{})
	if err != nil {
		t.Fatal(err)
	}
	checkContains(t, again(seek, bySeek), `"reasoning_content":"hm"`)
	if got := again(router, bySeek); strings.Contains(got, "hm") {
		t.Errorf("sent to another provider: %s", got)
	}
}

// TestReasoningField checks that reasoning is sent back in the field in which it was received, or omitted if
// the server rejects it.
func TestReasoningField(t *testing.T) {
	for name, tt := range map[string]struct {
		kind, message, want string
		refuses             bool
	}{
		"reasoning_content": {"compatible", `{"content":"a","reasoning_content":"hm"}`, `"reasoning_content":"hm"`, false},
		"reasoning":         {"compatible", `{"content":"a","reasoning":"hm"}`, `"reasoning":"hm"`, false},
		"refused":           {"compatible", `{"content":"a","reasoning":"hm"}`, ``, true},
		"Ollama":            {"ollama", `{"content":"a","reasoning":"hm"}`, `"reasoning":"hm"`, false},
		"Mistral":           {"mistral", `{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"a"}]}`, `[{"thinking":[{"text":"hm","type":"text"}],"type":"thinking"},{"text":"a","type":"text"}]`, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, nil)
			s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					http.NotFound(w, r) // it does not report its models' state
					return
				}
				raw, _ := io.ReadAll(r.Body)
				s.mu.Lock()
				s.bodies = append(s.bodies, string(raw))
				s.mu.Unlock()
				if tt.refuses && strings.Contains(string(raw), `"reasoning":`) {
					answer(400, `{"error":{"message":"property 'reasoning' is unsupported"}}`)(w, r)
					return
				}
				answer(200, completion(tt.message, "stop"))(w, r)
			})
			m := openModel(t, tt.kind, s.URL)
			a, err := ask(t, m, &Call{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := generate(t.Context(), m, newCall(&Call{}, transcriptOf("", user("hi"), a.Message, user("more")), nil)); err != nil {
				t.Fatal(err)
			}
			got := s.bodies[len(s.bodies)-1]
			if !strings.Contains(got, tt.want) || tt.want == "" && strings.Contains(got, "hm") {
				t.Errorf("sent back: %s", got)
			}
		})
	}
}

// FuzzStream checks that any response is parsed to an answer or a failure, without a
// panic.
func FuzzStream(f *testing.F) {
	for _, s := range []string{
		"data: " + text("Hel") + "\n\ndata: " + finish("stop") + "\n\ndata: [DONE]\n\n",
		"data: " + toolDelta(`{"index":0,"id":"a","function":{"name":"get","arguments":"{"}}`) + "\r\n\r\n",
		"data: {\"choices\":[{\ndata: \"delta\":{}}]}\n\n", ": x\n", "data:", "\xef\xbb\xbfdata: 1\n\n", `{"error":[[[["x"]]]]}`,
		`data: {"choices":[{"delta":{"reasoning_details":[null,{"index":0,"text":1},{"index":0,"text":"a"}]},"finish_reason":"stop"}]}`,
		completion(`{"content":[{"thinking":[{"thinking":"x"}]}]}`, "stop"),
	} {
		f.Add(s)
	}
	for _, v := range []vendor{fakeClaude{}, fakeGemini{}, fakeOCI{}} {
		s := fakeAnswer{pieces: []string{"a", "b"}, thought: "hm", calls: sampleCalls(), stop: "tool_calls"}
		f.Add(strings.Join(v.events(s), ""))
		f.Add(v.unary(s))
		f.Add(v.errorEvent(faultContext, "too long"))
	}
	f.Fuzz(func(t *testing.T, stream string) {
		for _, kind := range []string{"openai", "anthropic", "google", "oci"} { // one of each protocol
			row, _ := rowOf(kind)
			p := &provider{Model: wire.Model{Server: row.Server, Provider: "fake", Name: "m"}, row: row, firstByte: 1e10, idle: 1e10, maxBody: 1 << 20, limits: newLimiter([3]int{})}
			p.client = &http.Client{Transport: fixedResponse(stream)}
			_, err := p.answer(t.Context(), newCall(&Call{}, hello(), nil))
			if err == nil {
				continue
			}
			if fl := contract.FailureOf(err); fl.Class == "" || fl.Text == "" {
				t.Errorf("%s: failure %+v", row.Name, fl)
			}
		}
	})
}

// fixedResponse is a transport that responds to every request with the same body.
type fixedResponse string

func (a fixedResponse) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(a)))}, nil
}
