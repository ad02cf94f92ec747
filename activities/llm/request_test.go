package llm

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
	"weft/activities/llm/wire"
	"weft/activities/textutil"
)

// lookup returns a value in a decoded request, or nil if it does not exist.
func lookup(v any, path ...any) any {
	for _, p := range path {
		switch k := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[k]
		case int:
			l, _ := v.([]any)
			if k >= len(l) {
				return nil
			}
			v = l[k]
		}
	}
	return v
}

func TestChatRequests(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"b":{"anyOf":[{"type":"null"}]},"a":{"minimum":3}}}`)
	withTools := []llms.CallOption{llms.WithTools(tools())}
	noTools := []llms.CallOption{llms.WithTools(tools()), llms.WithToolChoice("none")}
	sampling := []llms.CallOption{llms.WithTemperature(0), llms.WithTopP(0.5), llms.WithSeed(0), llms.WithMaxTokens(9), llms.WithStopWords([]string{"END"})}
	is := func(want any, path ...any) func(map[string]any) bool {
		return func(b map[string]any) bool { return lookup(b, path...) == want }
	}
	tests := map[string]struct {
		kind  string
		model string
		call  Call
		opts  []llms.CallOption
		want  []func(map[string]any) bool
	}{
		"no fields by default":              {"openai", "", Call{}, nil, []func(map[string]any) bool{is(nil, "temperature"), is(nil, "top_p"), is(nil, "seed"), is(nil, "max_completion_tokens"), is(nil, "stop"), is(nil, "tools"), is(nil, "tool_choice"), is(nil, "response_format")}},
		"zero values are sent":              {"openai", "", Call{}, sampling, []func(map[string]any) bool{is(0.0, "temperature"), is(0.5, "top_p"), is(0.0, "seed"), is(9.0, "max_completion_tokens"), is(nil, "max_tokens"), is("END", "stop", 0)}},
		"model without sampling parameters": {"openai", "gpt-5-mini", Call{}, sampling, []func(map[string]any) bool{is(nil, "temperature"), is(nil, "top_p"), is(9.0, "max_completion_tokens")}},
		"Mistral's field names":             {"mistral", "", Call{}, sampling, []func(map[string]any) bool{is(0.0, "random_seed"), is(nil, "seed"), is(9.0, "max_tokens"), is(nil, "stream_options")}},
		"stream requests usage":             {"deepseek", "", Call{}, nil, []func(map[string]any) bool{is(true, "stream"), is(true, "stream_options", "include_usage")}},
		"schema unchanged":                  {"openai", "", Call{Request: wire.Request{Schema: schema, JSON: true}}, withTools, []func(map[string]any) bool{is("json_schema", "response_format", "type"), is(false, "response_format", "json_schema", "strict"), is("answer", "response_format", "json_schema", "name"), is(3.0, "response_format", "json_schema", "schema", "properties", "a", "minimum")}},
		"JSON mode instead of schema":       {"deepseek", "", Call{Request: wire.Request{Schema: schema, JSON: true}}, nil, []func(map[string]any) bool{is("json_object", "response_format", "type"), is(nil, "response_format", "json_schema")}},
		"no response format":                {"compatible", "", Call{Request: wire.Request{Schema: schema, JSON: true}}, nil, []func(map[string]any) bool{is(nil, "response_format")}},
		"JSON without a schema":             {"openai", "", Call{Request: wire.Request{JSON: true}}, nil, []func(map[string]any) bool{is("json_object", "response_format", "type")}},
		"no format with tools":              {"vllm", "", Call{Request: wire.Request{Schema: schema}}, withTools, []func(map[string]any) bool{is(nil, "response_format"), is("get", "tools", 0, "function", "name")}},
		"format with tool_choice none":      {"vllm", "", Call{Request: wire.Request{Schema: schema}}, noTools, []func(map[string]any) bool{is("json_schema", "response_format", "type"), is("none", "tool_choice")}},
		"tools unchanged":                   {"openai", "", Call{}, withTools, []func(map[string]any) bool{is("put", "tools", 1, "function", "name"), is("function", "tools", 1, "type"), is("a", "tools", 1, "function", "parameters", "properties", "k", "enum", 0), is(nil, "tools", 1, "function", "strict")}},
		"tool_choice none":                  {"openai", "", Call{}, noTools, []func(map[string]any) bool{is("none", "tool_choice"), is("put", "tools", 1, "function", "name")}},
		"tool_choice none unsupported":      {"ollama", "", Call{}, noTools, []func(map[string]any) bool{is(nil, "tool_choice"), is(nil, "tools"), is(true, "stream")}},
		"tools without a stream":            {"ollama", "", Call{}, withTools, []func(map[string]any) bool{is(nil, "stream"), is("get", "tools", 0, "function", "name")}},
		"named tool choice":                 {"openai", "", Call{}, []llms.CallOption{llms.WithTools(tools()), llms.WithToolChoice(llms.ToolChoice{Type: "function", Function: &llms.FunctionReference{Name: "get"}})}, []func(map[string]any) bool{is("get", "tool_choice", "function", "name")}},
		"tool choice without tools":         {"openai", "", Call{}, []llms.CallOption{llms.WithToolChoice("none")}, []func(map[string]any) bool{is(nil, "tool_choice")}},
		"model name with slashes":           {"openrouter", "", Call{}, nil, []func(map[string]any) bool{is("vendor/m-1", "model")}},
		"cache mark":                        {"openrouter", "anthropic/claude-opus-4.5", Call{}, withTools, []func(map[string]any) bool{is("ephemeral", "cache_control", "type")}},
		"no cache mark for a judge":         {"openrouter", "anthropic/claude-opus-4.5", Call{Kind: KindJudge}, nil, []func(map[string]any) bool{is(nil, "cache_control")}},
		"model with implicit caching":       {"openrouter", "openai/gpt-5-mini", Call{}, nil, []func(map[string]any) bool{is(nil, "cache_control")}},
		"server with implicit caching":      {"openai", "anthropic/x", Call{}, nil, []func(map[string]any) bool{is(nil, "cache_control")}},
	}
	s := serve(t, answer(200, completion(`{"content":"{}"}`, "stop")))
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m := openModel(t, tc.kind, s.URL)
			if tc.model != "" {
				m.Name = tc.model
			}
			if _, err := ask(t, m, &tc.call, tc.opts...); err != nil {
				t.Fatal(err)
			}
			sent := s.sent(t)
			for i, ok := range tc.want {
				if !ok(sent) {
					t.Errorf("condition %d does not hold of %v", i, sent)
				}
			}
		})
	}
}

func TestCacheDisabled(t *testing.T) {
	s := serve(t, answer(200, completion(`{"content":"{}"}`, "stop")))
	m := openModel(t, "openrouter", s.URL, func(p *ProviderSettings) { p.NoCache = true })
	m.Name = "anthropic/claude-opus-4.5"
	if _, err := ask(t, m, &Call{}); err != nil {
		t.Fatal(err)
	}
	if sent := s.sent(t); sent["cache_control"] != nil {
		t.Errorf("sent %v", sent)
	}
}

func TestHeaders(t *testing.T) {
	s := serve(t, answer(200, completion(`{"content":"x"}`, "stop")))
	m := openModel(t, "compatible", s.URL, func(p *ProviderSettings) { p.Headers = map[string]string{"x-title": "Weft tests"} })
	for key, want := range map[string]string{"flow-abc/plan#1/model/2": "flow-abc/plan#1/model/2", "fläche 1": contract.SHA([]byte("fläche 1")), "": "", strings.Repeat("k", 300): contract.SHA([]byte(strings.Repeat("k", 300)))} {
		if _, err := ask(t, m, &Call{IdempotencyKey: key}); err != nil {
			t.Fatal(err)
		}
		h := s.headers[len(s.headers)-1]
		if got := h.Get("Idempotency-Key"); got != want {
			t.Errorf("idempotency key %q, want %q", got, want)
		}
		if h.Get("Authorization") != "Bearer "+testKey || h.Get("X-Title") != "Weft tests" || h.Get("Content-Type") != "application/json" {
			t.Errorf("headers %v", h)
		}
	}
	if strings.Contains(s.bodies[0], testKey) {
		t.Error("the key is in the body")
	}
}

// transcript returns messages of every role, with every field that is sent.
func transcript() []contract.Message {
	return []contract.Message{
		{Role: "user", Parts: []contract.Part{{Text: "he"}, {Text: "llo <&>"}}},
		{Role: "assistant", Text: "both", Calls: []contract.ToolCall{
			{ID: "call_a", Name: "get", Arguments: `{"k":1}`}, {ID: strings.Repeat("long", 20), Name: "put", Arguments: "{k: 1"}, {ID: "c", Name: "put"},
		}},
		{Role: "tool", CallID: "call_a", Name: "get", Text: "1"},
		{Role: "tool", CallID: strings.Repeat("long", 20), Name: "put", Text: "error: no JSON", Error: true},
		{Role: "tool", CallID: "c", Name: "put", Text: ""},
		{Role: "assistant", Calls: []contract.ToolCall{{ID: "d", Name: "get", Arguments: "{}"}}},
		{Role: "tool", CallID: "d", Name: "get", Text: "2"},
		{Role: "assistant", Text: ""},
	}
}

func TestTranscriptEncoding(t *testing.T) {
	s := serve(t, answer(200, completion(`{"content":"x"}`, "stop")))
	in := transcriptOf("be good", transcript()...)
	send := func(kind string) []any {
		t.Helper()
		if _, err := generate(t.Context(), openModel(t, kind, s.URL), newCall(&Call{}, in, nil)); err != nil {
			t.Fatal(err)
		}
		return s.sent(t)["messages"].([]any)
	}
	openai := send("openai")
	for i, want := range []string{
		`{"content":"be good","role":"system"}`,
		`{"content":"hello <&>","role":"user"}`,
		`{"content":"both","role":"assistant","tool_calls":[{"function":{"arguments":"{\"k\":1}","name":"get"},"id":"call_a","type":"function"},{"function":{"arguments":"{k: 1","name":"put"},"id":"` + "call_" + contract.SHA([]byte(strings.Repeat("long", 20)))[:32] + `","type":"function"},{"function":{"arguments":"{}","name":"put"},"id":"c","type":"function"}]}`,
		`{"content":"1","role":"tool","tool_call_id":"call_a"}`,
		`{"content":"error: no JSON","role":"tool","tool_call_id":"` + "call_" + contract.SHA([]byte(strings.Repeat("long", 20)))[:32] + `"}`,
		`{"content":"","role":"tool","tool_call_id":"c"}`,
		`{"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"get"},"id":"d","type":"function"}]}`,
		`{"content":"2","role":"tool","tool_call_id":"d"}`,
		`{"content":"","role":"assistant"}`,
	} {
		got, _ := textutil.JSON(openai[i])
		if string(got) != want {
			t.Errorf("message %d:\n %s, want\n %s", i, got, want)
		}
	}
	mistral := send("mistral")
	id, _ := lookup(mistral, 2, "tool_calls", 0, "id").(string)
	if len(id) != 9 || lookup(mistral, 3, "tool_call_id") != id || lookup(mistral, 3, "name") != "get" {
		t.Errorf("Mistral got %v", mistral)
	}
	if args, _ := lookup(mistral, 2, "tool_calls", 1, "function", "arguments").(string); args != `{"unparsable_arguments":"{k: 1"}` {
		t.Errorf("arguments that are not JSON sent as %s", args)
	}
	first := s.bodies[len(s.bodies)-1]
	send("mistral")
	if s.bodies[len(s.bodies)-1] != first {
		t.Error("two equal requests differ in their bytes")
	}
}

func TestInvalidRequests(t *testing.T) {
	s := serve(t, answer(200, completion(`{"content":"x"}`, "stop")))
	m := openModel(t, "openai", s.URL)
	broken := []llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "bad", Parameters: json.RawMessage(`{`)}}}
	tests := map[string]struct {
		call     Call
		opts     []llms.CallOption
		in       []contract.Message
		wantText string
	}{
		"a tool's schema that is not JSON":    {opts: []llms.CallOption{llms.WithTools(broken)}, wantText: `tool "bad"`},
		"a tool without a function":           {opts: []llms.CallOption{llms.WithTools([]llms.Tool{{Type: "retrieval"}})}, wantText: "retrieval"},
		"an answer's schema that is not JSON": {call: Call{Request: wire.Request{Schema: json.RawMessage(`{`)}}, wantText: "schema of the answer"},
		"a parameter that would be dropped":   {opts: []llms.CallOption{llms.WithTopK(3)}, wantText: "top_k"},
		"unknown role":                        {in: []contract.Message{{Role: "function"}}, wantText: `"function"`},
		"image that is not base64":            {in: []contract.Message{{Role: "user", Media: []contract.Media{{MediaType: "image/png", Data: "?"}}}}, wantText: "image 1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			in := hello()
			if tc.in != nil {
				in.Messages = tc.in
			}
			_, err := generate(t.Context(), m, newCall(&tc.call, in, nil, tc.opts...))
			f := failureOf(t, err)
			if f.Class != contract.ClassBadRequest {
				t.Errorf("class %q", f.Class)
			}
			checkContains(t, f.Text, tc.wantText)
		})
	}
	if s.calls() != 0 {
		t.Errorf("%d requests were made", s.calls())
	}
}

func TestImages(t *testing.T) {
	s := serve(t, answer(200, completion(`{"content":"x"}`, "stop")))
	in := transcriptOf("", contract.Message{Role: "user", Text: "look", Media: []contract.Media{{MediaType: "image/png", Data: "eA=="}}})
	if _, err := generate(t.Context(), openModel(t, "openai", s.URL), newCall(&Call{}, in, nil)); err != nil {
		t.Fatal(err)
	}
	parts := lookup(s.sent(t), "messages", 0, "content")
	if lookup(parts, 0, "text") != "look" || lookup(parts, 1, "image_url", "url") != "data:image/png;base64,eA==" {
		t.Errorf("content %v", parts)
	}
}

func TestInvalidMessages(t *testing.T) {
	_, err := (&Call{Request: transcriptOf("", contract.Message{Role: "system", Text: "x"}, contract.Message{Role: "tool", Name: "get"},
		contract.Message{Role: "user", Parts: []contract.Part{{Ref: &contract.ContentRef{SHA: "1"}}}})}).prepare()
	f := failureOf(t, err)
	checkContains(t, f.Text, `message 1: invalid role "system"`, `message 2: result of tool "get"`, "message 3: part 1")
}

func TestConcurrentUse(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		sse(text("Hel"), text("lo"), finish("stop"))(w, r)
	})
	m := openModel(t, "openai", s.URL)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			call := newCall(&Call{Partial: func(string) {}}, hello(), tools())
			if a, err := generate(context.Background(), m, call); err != nil || a.Message.Text != "Hello" {
				t.Errorf("%v, %v", a, err)
			}
		})
	}
	wg.Wait()
}
