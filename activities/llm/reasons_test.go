package llm

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/activities/llm/wire"
)

// emptyAnswer has, by protocol, an answer with a stop reason but neither text nor calls: unary, and as the events of a stream.
var emptyAnswer = map[string]struct {
	kind, whole string
	events      []string
}{
	"chat completions": {"openrouter", `{"choices":[{"index":0,"message":{"role":"assistant","content":null},"finish_reason":"REASON"}],"usage":{"prompt_tokens":7,"completion_tokens":1}}`,
		[]string{`{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`, `{"choices":[{"index":0,"delta":{},"finish_reason":"REASON"}],"usage":{"prompt_tokens":7,"completion_tokens":1}}`, done}},
	"Responses": {"azure", `{"status":"incomplete","incomplete_details":{"reason":"REASON"},"output":[],"usage":{"input_tokens":7,"output_tokens":1}}`,
		[]string{`{"type":"response.created","response":{"status":"in_progress"}}`, `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"REASON"},"output":[],"usage":{"input_tokens":7,"output_tokens":1}}}`}},
	"Anthropic": {"anthropic", `{"type":"message","content":[],"stop_reason":"REASON","usage":{"input_tokens":7,"output_tokens":1}}`,
		[]string{`{"type":"message_start","message":{"type":"message","content":[],"usage":{"input_tokens":7,"output_tokens":1}}}`, `{"type":"message_delta","delta":{"stop_reason":"REASON"},"usage":{"output_tokens":1}}`, `{"type":"message_stop"}`}},
	"Google": {"google", `{"candidates":[{"content":{},"finishReason":"REASON","index":0}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":1}}`,
		[]string{`{"candidates":[{"content":{"parts":[{"text":""}]}}],"usageMetadata":{"promptTokenCount":7}}`, `{"candidates":[{"finishReason":"REASON"}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":1}}`}},
	"Bedrock": {"bedrock", `{"output":{"message":{"role":"assistant","content":[]}},"stopReason":"REASON","usage":{"inputTokens":7,"outputTokens":1}}`, nil},
	"Cohere": {"cohere", `{"id":"x","finish_reason":"REASON","message":{"role":"assistant","content":[]},"usage":{"tokens":{"input_tokens":7,"output_tokens":1}}}`,
		[]string{`{"type":"message-start","delta":{"message":{"role":"assistant"}}}`, `{"type":"message-end","delta":{"finish_reason":"REASON","usage":{"tokens":{"input_tokens":7,"output_tokens":1}}}}`}},
}

// TestUnknownStopReasons checks that an empty answer with an unknown stop reason is a failure that
// reports its usage.
func TestUnknownStopReasons(t *testing.T) {
	for protocol, tt := range emptyAnswer {
		for _, reason := range []string{"MARTIAN_SAFETY", "MODEL_ARMOR", "martian"} {
			for _, stream := range []bool{false, true} {
				if stream && tt.events == nil {
					continue // [TestCutStreams] covers its frames; the stop reason is parsed in the same place
				}
				t.Run(fmt.Sprintf("%s, %s, stream %v", protocol, reason, stream), func(t *testing.T) {
					handle := answer(200, strings.ReplaceAll(tt.whole, "REASON", reason))
					if stream {
						handle = sse(strings.Split(strings.ReplaceAll(strings.Join(tt.events, "\n"), "REASON", reason), "\n")...)
					}
					_, err := ask(t, openModel(t, tt.kind, serve(t, handle).URL, byResponses(protocol)), &Call{})
					f := failureOf(t, err)
					if f.Class != contract.ClassRefused || f.Usage == nil || f.Usage.Input != 7 || f.Usage.Output != 1 {
						t.Errorf("%+v, usage %+v", f, f.Usage)
					}
				})
			}
		}
	}
}

// byResponses selects the Responses API if that is the protocol.
func byResponses(protocol string) func(*ProviderSettings) {
	return func(p *ProviderSettings) {
		if protocol == "Responses" {
			p.API = wire.APIResponses
		}
	}
}

// TestEmptyAnswers checks that an empty answer with a normal stop reason is accepted.
func TestEmptyAnswers(t *testing.T) {
	for protocol, reason := range map[string]string{"chat completions": "stop", "Anthropic": "end_turn", "Google": "STOP", "Bedrock": "end_turn", "Cohere": "COMPLETE"} {
		t.Run(protocol, func(t *testing.T) {
			tt := emptyAnswer[protocol]
			a, err := ask(t, openModel(t, tt.kind, serve(t, answer(200, strings.ReplaceAll(tt.whole, "REASON", reason))).URL), &Call{})
			if err != nil || a.Stop != "stop" || a.Message.Text != "" {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
}

// TestMissingStopReason checks that, from an unknown server, valid JSON and a stream closed by [DONE] are complete answers without a
// stop reason. From a known server, or if the stream just ends, they count as cut.
func TestMissingStopReason(t *testing.T) {
	const message = `{"choices":[{"index":0,"message":{"role":"assistant","content":"all"}}]}`
	const called = `{"choices":[{"index":0,"message":{"tool_calls":[{"id":"a","function":{"name":"get","arguments":"{}"}}]}}]}`
	const nothing = `{"choices":[{"index":0,"message":{"role":"assistant","content":""}}]}`
	piece := `{"choices":[{"index":0,"delta":{"content":"all"}}]}`
	for name, tt := range map[string]struct {
		kind  string
		serve http.HandlerFunc
		stop  string
	}{
		"JSON":                            {"compatible", answer(200, message), "stop"},
		"JSON with a call":                {"compatible", answer(200, called), "tool_calls"},
		"a closed stream":                 {"compatible", sse(piece, done), "stop"},
		"empty JSON answer":               {"compatible", answer(200, nothing), ""},
		"empty closed stream":             {"compatible", sse(done), ""},
		"a stream that ends":              {"compatible", sse(piece), ""},
		"half of JSON":                    {"compatible", answer(200, message[:40]), ""},
		"JSON of a known server":          {"openai", answer(200, message), ""},
		"closed stream of a known server": {"openrouter", sse(piece, done), ""},
		"JSON of another known server":    {"groq", answer(200, message), ""},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := ask(t, openModel(t, tt.kind, serve(t, tt.serve).URL), &Call{})
			if tt.stop == "" {
				if f := failureOf(t, err); f.Class != contract.ClassUnavailable {
					t.Errorf("%+v", f)
				}
				return
			}
			if err != nil || a.Stop != tt.stop {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
}

// TestTokenLimitReached checks that the error "Token limit reached" ends the answer with stop reason length and its partial text.
func TestTokenLimitReached(t *testing.T) {
	limit := `{"error":{"code":400,"message":"Token limit reached"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`
	for name, events := range map[string][]string{
		"with a choice": {text("half"), limit, done},
		"alone":         {text("half"), `{"error":{"code":400,"message":"Token limit reached"}}`, usageEvent, done},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := ask(t, openModel(t, "openrouter", serve(t, sse(events...)).URL), &Call{})
			if err != nil || a.Stop != "length" || a.Message.Text != "half" || a.Usage.Input != 7 {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
}

// TestUnexpectedToolCall checks that Gemini's call of a tool that was not offered is returned, so that the caller can reject it.
func TestUnexpectedToolCall(t *testing.T) {
	const chunk = `{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"other","args":{"a":1}}}]},"finishReason":"UNEXPECTED_TOOL_CALL"}]}`
	for name, handle := range map[string]http.HandlerFunc{"whole": answer(200, chunk), "stream": sse(chunk)} {
		t.Run(name, func(t *testing.T) {
			a, err := ask(t, openModel(t, "google", serve(t, handle).URL), &Call{})
			if err != nil || a.Stop != "tool_calls" || len(a.Message.Calls) != 1 || a.Message.Calls[0].Name != "other" {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
}
