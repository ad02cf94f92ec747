package llm

import (
	"testing"

	"weft/activities/contract"
)

// TestScriptedModels checks that a script can play several models of a list, with prices, so that
// failover can be tested without a provider.
func TestScriptedModels(t *testing.T) {
	m, err := Open(Settings{Prices: map[string]Price{"script/dear": {Input: 2, Output: 10}, "openai/*": {Input: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	script, err := ParseScript("s.yaml", []byte(`
rules:
  - {model: script/first, turn: 1, fail: {class: rate_limited, retry_after: 10m, text: too fast}}
  - {model: script/first, say: from the first}
  - {model: script/dear, say: from the second, usage: {input: 1000, output: 100}}
`))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(in ...contract.Message) *Answer {
		t.Helper()
		a, err := m.Generate(t.Context(), "script/first, script/dear", newCall(&Call{Script: script}, transcriptOf("", in...), nil))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := ask(user("go"))
	checkEqual(t, "text", a.Message.Text, "from the second")
	checkEqual(t, "model", a.Model, "script/dear")
	checkEqual(t, "usage", a.Usage, contract.Usage{Calls: 1, Input: 1000, Output: 100, Cost: 3000})
	if len(a.Fallbacks) != 1 || a.Fallbacks[0].Model != "script/first" || a.Fallbacks[0].To != "script/dear" || a.Fallbacks[0].Class != contract.ClassRateLimited {
		t.Errorf("fallbacks %+v", a.Fallbacks)
	}
	// A scripted retry delay does not affect other calls.
	a = ask(user("go"), a.Message, user("on"))
	checkEqual(t, "text of the second turn", a.Message.Text, "from the first")
	checkEqual(t, "usage without a price", a.Usage, contract.Usage{Calls: 1})
	for list, want := range map[string]bool{"script": true, "script/a": true, "openai/x, script/a": true, "scripted/a": false, "openai/script": false} {
		if m.Scripted(list) != want || HasScriptModel(list) != want {
			t.Errorf("%q: %v and %v, want %v", list, m.Scripted(list), HasScriptModel(list), want)
		}
	}
	for ref, wantText := range map[string]string{"script/ ": "has a provider but no model name"} {
		_, err := m.get(ref)
		checkContains(t, failureOf(t, err).Text, wantText)
	}
}

// TestSampleArgumentsUnescaped checks that HTML characters are not escaped.
func TestSampleArgumentsUnescaped(t *testing.T) {
	schema := map[string]any{"type": "object", "required": []any{"q"}, "properties": map[string]any{"q": map[string]any{"enum": []any{"<a> & b"}}}}
	if got, want := string(sampleArguments(schema, "x")), `{"q":"<a> & b"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
