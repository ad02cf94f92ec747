package llm

import (
	"net/http"
	"strings"
	"testing"

	"weft/activities/contract"
)

// counted is an event that says what the answer takes.
const counted = `{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12}}`

// TestCutAnswers asks models whose answers end too early: what was paid is said, and after some attempts no other is made.
func TestCutAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		serve  http.HandlerFunc
		before int
		cut    int
		input  int
		final  bool
	}{
		"a stream without an end":              {serve: sse(text("half"), counted), cut: 1, input: 7},
		"a stream without an end, again":       {serve: sse(text("half"), counted), before: 1, cut: 1, input: 7},
		"a stream without an end, the third":   {serve: sse(text("half"), counted), before: 2, cut: 1, input: 7, final: true},
		"a stream that says nothing of tokens": {serve: sse(text("half")), cut: 1},
		"half a JSON answer":                   {serve: answer(200, `{"choices":[{"mess`), cut: 1},
		"an error in a stream":                 {serve: sse(text("half"), `{"error":{"message":"overloaded","code":503}}`), cut: 1},
		"a page of a proxy":                    {serve: answer(200, `<html>Bad gateway</html>`), before: 2},
		"an error with status 200":             {serve: answer(200, `{"error":{"message":"overloaded","code":503}}`), before: 2},
		"a server that is down":                {serve: answer(503, `{"error":{"message":"down"}}`), before: 2},
	} {
		t.Run(name, func(t *testing.T) {
			m, _, _ := pair(t, tt.serve, good)
			_, err := m.Ask(t.Context(), "a/x", callOf(&Call{Cut: tt.before}, hello(), nil))
			f := failureOf(t, err)
			var u contract.Usage
			if f.Usage != nil {
				u = *f.Usage
			}
			if f.Class != contract.ClassUnavailable || u.Cut != tt.cut || u.Input != tt.input || f.Final != tt.final {
				t.Errorf("%+v, usage %+v", f, u)
			}
			if tt.final && !strings.Contains(f.Remedy, "providers.a.cut_retries") {
				t.Errorf("the remedy is %q", f.Remedy)
			}
		})
	}
}

// TestCutThenAnotherModel counts what a model took whose answer was cut before another model answered.
func TestCutThenAnotherModel(t *testing.T) {
	m, _, _ := pair(t, sse(text("half"), counted), good)
	got, err := m.Ask(t.Context(), "a/x, b/y", callOf(&Call{}, hello(), nil))
	if err != nil {
		t.Fatal(err)
	}
	alone, err := m.Ask(t.Context(), "b/y", callOf(&Call{}, hello(), nil))
	if err != nil {
		t.Fatal(err)
	}
	if d := got.Usage.Less(alone.Usage); d.Cut != 1 || d.Input != 7 || d.Output != 5 || d.Calls != 0 {
		t.Errorf("beside the answer: %+v", d)
	}
}
