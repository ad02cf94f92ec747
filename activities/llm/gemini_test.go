package llm

import (
	"encoding/json"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
	"weft/activities/llm/wire"
)

// geminiCase returns the test case of Google.
func geminiCase() providerCase {
	row, _ := rowOf("google")
	return providerCase{row: row, vendor: fakeGemini{}}
}

func TestGeminiThinking(t *testing.T) {
	e, m := geminiCase().start(t, textAnswer("ok"), nil)
	for _, tc := range []struct{ model, effort, want string }{
		{"gemini-2.5-pro", "none", `{"thinkingBudget":0}`}, {"gemini-2.5-flash", "medium", `{"thinkingBudget":8192}`},
		{"gemini-3-pro-preview", "medium", `{"thinkingLevel":"medium"}`}, {"gemini-3-flash", "max", `{"thinkingLevel":"high"}`}, {"gemini-3-flash", "", `null`},
	} {
		m.Name = tc.model
		e.generate(t, m, &Call{Request: wire.Request{Effort: tc.effort}}, hello())
		checkEqual(t, tc.model+" "+tc.effort, lookup(e.sent(t), "generationConfig", "thinkingConfig"), json.RawMessage(tc.want))
	}
	_, err := generate(t.Context(), m, newCall(&Call{Request: wire.Request{Effort: "huge"}}, hello(), nil))
	checkContains(t, failureOf(t, err).Text, `"huge"; expected none`)
	m.Name = "models/gemini-3-flash"
	e.generate(t, m, &Call{}, hello())
	checkEqual(t, "model", e.lastRequest(t).model, "gemini-3-flash")
}

func TestGeminiFinishReasons(t *testing.T) {
	for name, tc := range map[string]struct{ body, class, wantText string }{
		"blocked prompt":               {`{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT","blockReasonMessage":"no"}}`, contract.ClassRefused, "PROHIBITED_CONTENT no"},
		"withheld answer":              {`{"candidates":[{"finishReason":"SPII"}]}`, contract.ClassRefused, "filtered"},
		"malformed call":               {`{"candidates":[{"content":{},"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"print(x)"}]}`, contract.ClassUnavailable, "MALFORMED_FUNCTION_CALL print(x)"},
		"a call without a name":        {`{"candidates":[{"content":{"parts":[{"functionCall":{}}]},"finishReason":"STOP"}]}`, contract.ClassUnavailable, "no name"},
		"invalid part":                 {`{"candidates":[{"content":{"parts":[3]},"finishReason":"STOP"}]}`, contract.ClassUnavailable, "invalid part"},
		"an error in a list":           {`[{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"}}]`, contract.ClassRateLimited, "slow"},
		"an answer without a finish":   {`{"candidates":[{"content":{"parts":[{"text":"half"}]}}]}`, contract.ClassUnavailable, "finishReason"},
		"unknown finish reason":        {`{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"TIRED"}]}`, "", ""},
		"unknown finish reason, empty": {`{"candidates":[{"content":{},"finishReason":"TIRED"}]}`, contract.ClassRefused, `ended with "tired"`},
		"blocked answer":               {`{"candidates":[{"content":{},"finishReason":"MODEL_ARMOR"}]}`, contract.ClassRefused, "filtered"},
		"an unexpected call":           {`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"other","args":{}}}]},"finishReason":"UNEXPECTED_TOOL_CALL"}]}`, "", ""},
		"unexpected call, missing":     {`{"candidates":[{"content":{},"finishReason":"UNEXPECTED_TOOL_CALL"}]}`, contract.ClassUnavailable, "UNEXPECTED_TOOL_CALL"},
		"empty answer":                 {`{"candidates":[{"content":{},"finishReason":"STOP"}]}`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, m := geminiCase().start(t, fakeAnswer{}, answer(200, tc.body))
			_, err := ask(t, m, &Call{})
			if tc.class == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			f := failureOf(t, err)
			checkEqual(t, "class", f.Class, tc.class)
			checkContains(t, f.Text, tc.wantText)
		})
	}
	_, m := geminiCase().start(t, fakeAnswer{}, answer(400, `{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}`))
	_, err := ask(t, m, &Call{})
	checkEqual(t, "class of an invalid key", failureOf(t, err).Class, contract.ClassDenied)
}

func TestGeminiSignatures(t *testing.T) {
	const parts = `[{"text":"One. "},{"text":"Two.","thoughtSignature":"SA"},{"functionCall":{"args":{"a":1},"id":"c1","name":"get"},"thoughtSignature":"SB"},{"text":"","thoughtSignature":"SC"}]`
	var events []string
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(parts), &list); err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		events = append(events, `{"candidates":[{"content":{"parts":[`+string(p)+`]}}]}`)
	}
	e, m := geminiCase().start(t, fakeAnswer{}, sse(append(events, `{"candidates":[{"finishReason":"STOP"}]}`)...))
	a := e.generate(t, m, &Call{}, hello(), llms.WithTools(tools()))
	checkEqual(t, "text", a.Message.Text, "One. Two.")
	raw, _, err := encodeRequest(m, transcriptOf("", user("go"), a.Message, contract.Message{Role: "tool", CallID: "c1", Name: "get", Text: "1"}))
	if err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "parts", lookup(raw, "contents", 1, "parts"), json.RawMessage(parts))
	// The result names its call.
	checkEqual(t, "result", lookup(raw, "contents", 2, "parts", 0, "functionResponse"), object{"id": "c1", "name": "get", "response": object{"output": "1"}})
}

// encodeRequest encodes a request, and returns it decoded and as text.
func encodeRequest(m *provider, in wire.Request) (map[string]any, string, error) {
	out, err := m.Encode(&newCall(&Call{}, in, tools()).Request)
	if err != nil {
		return nil, "", err
	}
	var v map[string]any
	err = json.Unmarshal(out.Body, &v)
	return v, string(out.Body), err
}
