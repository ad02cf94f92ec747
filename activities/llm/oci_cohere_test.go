package llm

import (
	"testing"

	"weft/activities/contract"
	"weft/activities/llm/wire"
)

// cohereCase returns the test case of OCI with a Cohere model.
func cohereCase(model string) providerCase {
	row, _ := rowOf("oci")
	return providerCase{row: row, vendor: fakeOCICohere{}, model: model}
}

// TestOCICohereServingMode checks that the prefix cohere/ marks a model named by OCID as a Cohere model.
func TestOCICohereServingMode(t *testing.T) {
	for model, serving := range map[string]object{
		"cohere.command-r-08-2024":                        {"servingType": "ON_DEMAND", "modelId": "cohere.command-r-08-2024"},
		"cohere/ocid1.generativeaimodel.oc1..m":           {"servingType": "ON_DEMAND", "modelId": "ocid1.generativeaimodel.oc1..m"},
		"cohere/ocid1.generativeaiendpoint.oc1.us.amaaaa": {"servingType": "DEDICATED", "endpointId": "ocid1.generativeaiendpoint.oc1.us.amaaaa"},
	} {
		e, m := cohereCase(model).start(t, textAnswer("ok"), nil)
		e.generate(t, m, &Call{}, hello())
		checkEqual(t, model, e.sent(t)["servingMode"], serving)
	}
}

func TestOCICohere(t *testing.T) {
	b := cohereCase("cohere.command-a-reasoning-08-2025")
	e, m := b.start(t, textAnswer("ok"), nil)
	for effort, want := range map[string]string{"none": "DISABLED 0", "low": "ENABLED 1024", "": ""} {
		e.generate(t, m, &Call{Request: wire.Request{Effort: effort}}, hello())
		checkEqual(t, "thinking for "+effort, e.lastRequest(t).effort, want)
	}
	no := false
	_, err := ask(t, m, &Call{Request: wire.Request{Parallel: &no}})
	f := failureOf(t, err)
	checkEqual(t, "class", f.Class, contract.ClassBadRequest)
	checkContains(t, f.Text, "parallel_tool_calls", m.Ref())

	// An error of the model is inside the answer or the stream.
	for name, body := range map[string]string{
		"in the answer": `{"modelId":"m","chatResponse":{"apiFormat":"COHEREV2","id":"x","message":{"role":"ASSISTANT","content":[]},"finishReason":"ERROR","errorMessage":"too many tokens: 200000"}}`,
		"in the stream": "data: {\"message\":{\"role\":\"ASSISTANT\",\"content\":[{\"type\":\"TEXT\",\"text\":\"ha\"}]}}\n\ndata: {\"finishReason\":\"ERROR\",\"errorMessage\":\"too many tokens: 200000\"}\n\n",
	} {
		_, m := b.start(t, fakeAnswer{}, answer(200, body))
		_, err := ask(t, m, &Call{})
		f := failureOf(t, err)
		checkEqual(t, "class "+name, f.Class, contract.ClassContextLength)
		checkContains(t, f.Text, "too many tokens", m.Ref())
	}

	// The tool plan is reasoning, not a part of the answer's text.
	_, m = b.start(t, fakeAnswer{}, answer(200, `{"modelId":"m","chatResponse":{"message":{"role":"ASSISTANT","content":[],"toolPlan":"I will look.",
		"toolCalls":[{"id":"a","type":"FUNCTION","function":{"name":"get","arguments":{"k":12345678901234567}}}]},"finishReason":"TOOL_CALL"}}`))
	a, err := ask(t, m, &Call{})
	if err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "message", a.Message, contract.Message{Role: "assistant", Reasoning: "I will look.", Provider: a.Message.Provider,
		Calls: []contract.ToolCall{{ID: "a", Name: "get", Arguments: `{"k":12345678901234567}`}}})
}
