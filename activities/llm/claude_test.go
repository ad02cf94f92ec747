package llm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
	"weft/activities/llm/wire"
)

// claudeCase returns the test case of Anthropic.
func claudeCase() providerCase {
	row, _ := rowOf("anthropic")
	return providerCase{row: row, vendor: fakeClaude{}}
}

// cacheMarks returns the paths of the cache marks in a request.
func cacheMarks(v any, path string) []string {
	var out []string
	switch v := v.(type) {
	case map[string]any:
		if v["cache_control"] != nil {
			out = append(out, path)
		}
		for _, key := range []string{"tools", "system", "messages", "content"} {
			out = append(out, cacheMarks(v[key], path+"."+key)...)
		}
	case []any:
		for i, e := range v {
			out = append(out, cacheMarks(e, fmt.Sprintf("%s[%d]", path, i))...)
		}
	}
	return out
}

func TestClaudeCacheMarks(t *testing.T) {
	e, m := claudeCase().start(t, textAnswer("ok"), nil)
	turn := func(id string) []contract.Message {
		return []contract.Message{
			{Role: "assistant", Calls: []contract.ToolCall{{ID: id, Name: "get", Arguments: "{}"}, {ID: id + "b", Name: "get", Arguments: "{}"}}},
			{Role: "tool", CallID: id, Name: "get", Text: "1"}, {Role: "tool", CallID: id + "b", Name: "get", Text: "2"},
		}
	}
	conversation := append(append([]contract.Message{user("go")}, turn("x")...), turn("y")...)
	for name, tc := range map[string]struct {
		call  *Call
		upto  int
		tools bool
		set   func(*provider)
		want  []string
	}{
		"first turn":               {&Call{}, 1, true, nil, []string{".tools[1]", ".system[0]", ".messages[0].content[0]"}},
		"later turns":              {&Call{}, 7, true, nil, []string{".tools[1]", ".system[0]", ".messages[2].content[1]", ".messages[4].content[1]"}},
		"without tools":            {&Call{}, 1, false, nil, []string{".system[0]"}},
		"no marks for a judge":     {&Call{Kind: KindJudge}, 1, false, nil, nil},
		"no marks for a condenser": {&Call{Kind: KindCondense}, 1, false, nil, nil},
		"switched off":             {&Call{}, 1, true, func(m *provider) { m.NoCache = true }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m.NoCache = false
			if tc.set != nil {
				tc.set(m)
			}
			var opts []llms.CallOption
			if tc.tools {
				opts = append(opts, llms.WithTools(tools()))
			}
			e.generate(t, m, tc.call, transcriptOf("be good", conversation[:tc.upto]...), opts...)
			checkEqual(t, "marks", cacheMarks(e.sent(t), ""), tc.want)
		})
	}
}

// TestClaudeCacheMarksWithoutTools checks that a conversation with an answer is marked even without tools: more turns are likely.
func TestClaudeCacheMarksWithoutTools(t *testing.T) {
	e, m := claudeCase().start(t, textAnswer("ok"), nil)
	reply := func(s string) contract.Message { return contract.Message{Role: "assistant", Text: s} }
	e.generate(t, m, &Call{}, transcriptOf("be good", user("a"), reply("b"), user("c"), reply("d"), user("e")))
	checkEqual(t, "marks", cacheMarks(e.sent(t), ""), []string{".system[0]", ".messages[2].content[0]", ".messages[4].content[0]"})
	e.generate(t, m, &Call{Kind: KindJudge}, transcriptOf("be good", user("a"), reply("b"), user("c")))
	checkEqual(t, "marks of a judge", cacheMarks(e.sent(t), ""), []string(nil))
}

func TestClaudeModelFamilies(t *testing.T) {
	e, m := claudeCase().start(t, textAnswer("ok"), nil)
	for _, tc := range []struct {
		model, effort string
		maxTokens     int
		want          string
	}{
		{"claude-3-haiku-20240307", "", 0, `{"max_tokens":4096,"temperature":0,"top_k":3}`},
		{"claude-3-5-sonnet-latest", "", 0, `{"max_tokens":8192,"temperature":0,"top_k":3}`},
		{"claude-sonnet-4-5", "", 100, `{"max_tokens":100,"temperature":0,"top_k":3}`},
		{"claude-sonnet-4-5", "medium", 0, `{"max_tokens":32000,"thinking":{"budget_tokens":8192,"type":"enabled"}}`},
		{"claude-sonnet-4-5", "high", 4000, `{"max_tokens":4000,"thinking":{"budget_tokens":2000,"type":"enabled"}}`},
		{"claude-sonnet-4-5", "none", 0, `{"max_tokens":32000,"temperature":0,"top_k":3}`},
		{"claude-opus-4-6", "high", 0, `{"max_tokens":32000,"output_config":{"effort":"high"},"temperature":0,"thinking":{"type":"adaptive"},"top_k":3}`},
		{"claude-opus-4-7", "minimal", 0, `{"max_tokens":32000,"output_config":{"effort":"low"},"thinking":{"type":"adaptive"}}`},
		{"claude-opus-9", "", 0, `{"max_tokens":32000}`},
		{"gateway.claude-opus-4-7-v1:0", "none", 0, `{"max_tokens":32000,"thinking":{"type":"disabled"}}`},
	} {
		t.Run(tc.model+" "+tc.effort, func(t *testing.T) {
			m.Name = tc.model
			e.generate(t, m, &Call{Request: wire.Request{Effort: tc.effort}}, hello(), llms.WithTemperature(0), llms.WithTopK(3), llms.WithMaxTokens(tc.maxTokens))
			sent := e.sent(t)
			for _, key := range []string{"model", "messages", "system", "stream"} {
				delete(sent, key)
			}
			checkEqual(t, "request", sent, json.RawMessage(tc.want))
		})
	}
	for _, tc := range []struct {
		model, effort, wantText string
		maxTokens               int
	}{{"claude-3-5-haiku", "high", "does not support reasoning", 0}, {"claude-sonnet-4-5", "huge", "expected none, minimal", 0}, {"claude-sonnet-4-5", "low", "set 2048 or more", 1500}} {
		m.Name = tc.model
		_, err := generate(t.Context(), m, newCall(&Call{Request: wire.Request{Effort: tc.effort}}, hello(), nil, llms.WithMaxTokens(tc.maxTokens)))
		f := failureOf(t, err)
		checkEqual(t, "class", f.Class, contract.ClassBadRequest)
		checkContains(t, f.Text, tc.wantText)
	}
}

// sentContent returns the content of message n in the last request.
func sentContent(t *testing.T, e *endpoint, n int) string {
	t.Helper()
	b, err := json.Marshal(lookup(e.sent(t), "messages", n, "content"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestClaudeBlockOrder(t *testing.T) {
	const content = `[{"signature":"U0lH","thinking":"one","type":"thinking"},{"data":"XYZ","type":"redacted_thinking"},{"text":"First. ","type":"text"},` +
		`{"id":"t1","input":{"a":1},"name":"get","type":"tool_use"},{"signature":"U0lH","thinking":"two","type":"thinking"},{"text":"Second.","type":"text"},{"id":"t2","input":{},"name":"put","type":"tool_use"}]`
	answers := answer(200, `{"type":"message","model":"claude-x","stop_reason":"tool_use","content":`+content+`,"usage":{}}`)
	e, m := claudeCase().start(t, fakeAnswer{}, answers)
	a := e.generate(t, m, &Call{}, hello(), llms.WithTools(tools()))
	checkEqual(t, "text", a.Message.Text, "First. Second.")
	checkEqual(t, "reasoning", a.Message.Reasoning, "onetwo")
	back := func(msg contract.Message) string {
		t.Helper()
		e.generate(t, m, &Call{}, transcriptOf("", user("go"), msg,
			contract.Message{Role: "tool", CallID: msg.Calls[0].ID, Name: "get", Text: "1"}, contract.Message{Role: "tool", CallID: msg.Calls[1].ID, Name: "put", Text: "2"}), llms.WithTools(tools()))
		return sentContent(t, e, 1)
	}
	if got := back(a.Message); got != content {
		t.Errorf("blocks sent back:\n%s, want\n%s", got, content)
	}
	// Ids that had to be made unique preserve the order.
	renamed := a.Message
	renamed.Calls = []contract.ToolCall{{ID: "t1_2", Name: "get", Arguments: `{"a":1}`}, a.Message.Calls[1]}
	if got := back(renamed); got != strings.Replace(content, `"t1"`, `"t1_2"`, 1) {
		t.Errorf("blocks sent back with another id:\n%s", got)
	}
	// A message that does not match the stored blocks is sent without them.
	changed := a.Message
	changed.Text = "Changed."
	if got := back(changed); strings.Contains(got, "U0lH") || !strings.Contains(got, "Changed.") {
		t.Errorf("changed message sent back:\n%s", got)
	}
}

// TestClaudeCitations checks that citations and compactions are sent back, of unary answers and of streams.
func TestClaudeCitations(t *testing.T) {
	const cited = `{"citations":[{"cited_text":"c","type":"char_location"}],"text":"So.","type":"text"}`
	const content = `[{"content":"before","type":"compaction"},` + cited + `]`
	streamed := sse(`{"type":"message_start","message":{"type":"message","usage":{}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"compaction","content":null}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"compaction_delta","content":"before"}}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"","citations":[]}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{"cited_text":"c","type":"char_location"}}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"So."}}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `{"type":"message_stop"}`)
	for name, handle := range map[string]http.HandlerFunc{"streamed": streamed,
		"whole": answer(200, `{"type":"message","stop_reason":"end_turn","content":`+content+`,"usage":{}}`)} {
		t.Run(name, func(t *testing.T) {
			e, m := claudeCase().start(t, fakeAnswer{}, handle)
			a := e.generate(t, m, &Call{}, hello())
			checkEqual(t, "text", a.Message.Text, "So.")
			e.generate(t, m, &Call{}, transcriptOf("", user("go"), a.Message, user("more")))
			checkEqual(t, "content sent back", sentContent(t, e, 1), content)
		})
	}
}

func TestClaudeRefusal(t *testing.T) {
	_, m := claudeCase().start(t, fakeAnswer{}, answer(200, `{"type":"message","model":"claude-x","stop_reason":"refusal","stop_details":{"explanation":"not this"},"content":[],"usage":{}}`))
	_, err := ask(t, m, &Call{})
	f := failureOf(t, err)
	checkEqual(t, "class", f.Class, contract.ClassRefused)
	checkContains(t, f.Text, "not this")
}

// TestClaudePausedTurn checks that an answer paused for a provider's tool is continued with its blocks unchanged.
func TestClaudePausedTurn(t *testing.T) {
	const search = `{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"q"}}`
	var e *endpoint
	always := false
	e, m := claudeCase().start(t, fakeAnswer{}, func(w http.ResponseWriter, r *http.Request) {
		if always || e.calls() == 1 {
			answer(200, `{"type":"message","model":"claude-x","stop_reason":"pause_turn","content":[{"type":"text","text":"Looking. "},`+search+`],"usage":{"input_tokens":10,"output_tokens":3}}`)(w, r)
			return
		}
		answer(200, `{"type":"message","model":"claude-x","stop_reason":"end_turn","content":[{"type":"text","text":"Found."}],"usage":{"input_tokens":20,"output_tokens":2}}`)(w, r)
	})
	got, err := ask(t, m, &Call{})
	if err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "text", got.Message.Text, "Looking. Found.")
	checkEqual(t, "stop", got.Stop, "stop")
	checkEqual(t, "usage", fmt.Sprint(got.Usage.Calls, got.Usage.Input, got.Usage.Output), "2 30 5")
	asked := e.bodies
	if len(asked) != 2 || !strings.Contains(asked[1], `"server_tool_use"`) || !strings.Contains(asked[1], "Looking. ") {
		t.Fatalf("requests:\n%s", asked)
	}
	again := hello()
	again.Messages = append(again.Messages, got.Message, contract.Message{Role: contract.RoleUser, Text: "And?"})
	if _, err := generate(t.Context(), m, newCall(&Call{}, again, nil)); err != nil {
		t.Fatal(err)
	}
	last := e.bodies[2]
	if first, second := strings.Index(last, "server_tool_use"), strings.Index(last, "Found."); first < 0 || second < first || strings.Index(last, "Looking.") > first {
		t.Errorf("answer sent back:\n%s", last)
	}
	always = true
	_, err = ask(t, m, &Call{})
	f := failureOf(t, err)
	checkEqual(t, "calls", e.calls(), 3+maxPauses+1)
	if !f.Final || f.Usage == nil || f.Usage.Calls != maxPauses+1 {
		t.Errorf("an answer that always pauses: %+v, usage %+v", f, f.Usage)
	}
}

func TestClaudeToolChoice(t *testing.T) {
	e, m := claudeCase().start(t, textAnswer("ok"), nil)
	no := false
	for want, opts := range map[string][]llms.CallOption{
		`{"disable_parallel_tool_use":true,"type":"auto"}`: nil,
		`{"disable_parallel_tool_use":true,"type":"any"}`:  {llms.WithToolChoice("required")},
		`{"type":"none"}`: {llms.WithToolChoice("none")},
	} {
		e.generate(t, m, &Call{Request: wire.Request{Parallel: &no}}, hello(), append(opts, llms.WithTools(tools()))...)
		checkEqual(t, "choice", e.sent(t)["tool_choice"], json.RawMessage(want))
	}
	_, err := generate(t.Context(), m, newCall(&Call{}, hello(), tools(), llms.WithToolChoice("sometimes")))
	checkContains(t, failureOf(t, err).Text, "invalid tool_choice sometimes; expected auto, none, required")
}

func TestClaudeUnsupportedSchema(t *testing.T) {
	// An unsupported schema is not sent: the prompt describes it, and the caller validates the answer.
	e, m := claudeCase().start(t, textAnswer("{}"), nil)
	m.Name = "claude-opus-4-7"
	e.generate(t, m, &Call{Request: wire.Request{Schema: json.RawMessage(`{"type":"object","minProperties":1}`), JSON: true}}, hello())
	checkEqual(t, "output_config", e.sent(t)["output_config"], nil)
}

func TestClaudeRateLimitHeaders(t *testing.T) {
	_, m := claudeCase().start(t, fakeAnswer{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Anthropic-Ratelimit-Requests-Remaining", "0")
		w.Header().Set("Anthropic-Ratelimit-Requests-Reset", "2126-01-01T00:00:00Z")
		w.Header().Set("Request-Id", "req_42")
		answer(429, fakeClaude{}.errorBody(429, faultPlain, "slow"))(w, r)
	})
	_, err := ask(t, m, &Call{})
	f := failureOf(t, err)
	checkEqual(t, "wait", f.After, maxRetryAfter)
	checkContains(t, f.Text, "req_42")
}
