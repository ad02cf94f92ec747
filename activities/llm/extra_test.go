package llm

import (
	"encoding/json"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
	"weft/activities/llm/wire"
)

func TestInvalidExtraParameters(t *testing.T) {
	s := serve(t, answer(200, completion(`{"content":"x"}`, "stop")))
	m := openModel(t, "openai", s.URL)
	for extra, wantText := range map[string]string{
		`{"model":"other"}`: "extra parameter model is set by the engine", `{"messages":[]}`: "extra parameter messages",
		`{"stream_options":{"include_usage":false}}`: "stream_options", `[1]`: "not a JSON object", `oops`: "not a JSON object",
	} {
		_, err := ask(t, m, &Call{Request: wire.Request{Extra: json.RawMessage(extra)}})
		f := failureOf(t, err)
		checkEqual(t, "class", f.Class, contract.ClassBadRequest)
		checkContains(t, f.Text, wantText)
	}
	if s.calls() != 0 {
		t.Errorf("%d requests", s.calls())
	}
	if _, err := ask(t, m, &Call{Request: wire.Request{Extra: json.RawMessage(`{}`)}}); err != nil {
		t.Error(err)
	}
}

func TestUnsupportedParameters(t *testing.T) {
	s := serve(t, answer(200, completion(`{"content":"x"}`, "stop")))
	yes := true
	for kind, wantText := range map[string]string{"openai": "openai does not support top_k", "deepseek": "deepseek does not support parallel_tool_calls, reasoning_effort, top_k"} {
		_, err := ask(t, openModel(t, kind, s.URL), &Call{Request: wire.Request{Parallel: &yes, Effort: "low"}}, llms.WithTopK(3))
		checkContains(t, failureOf(t, err).Text, wantText, "remove it")
	}
}
