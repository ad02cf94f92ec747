package activities

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"weft/activities/contract"
)

func TestVerdict(t *testing.T) {
	tests := map[string]struct {
		text    string
		yes, ok bool
		reason  string
	}{
		"an object":                           {`{"answer":"yes","reason":"it is done"}`, true, true, "it is done"},
		"an object with no":                   {`{"answer":"No."}`, false, true, ""},
		"an object in a fenced block":         {"```json\n{\"answer\": \"no\"}\n```", false, true, ""},
		"an object in prose":                  {`Yes, I think: {"answer":"no"}`, false, true, ""},
		"a boolean":                           {`{"answer":true}`, true, true, ""},
		"a number":                            {`{"answer":0}`, false, true, ""},
		"a reason that quotes a fenced block": {"{\"answer\":\"no\",\"reason\":\"it says ```true``` and ```{}```\"}", false, true, "it says ```true``` and ```{}```"},
		"an object with another answer":       {`{"answer":"maybe"}`, false, false, ""},
		"an object without an answer":         {`{"yes":1}`, false, false, ""},
		"no answer at all":                    {`{"answer":null,"reason":"yes"}`, false, false, "yes"},
		"a word":                              {"yes", true, true, ""},
		"a word with a reason":                {"No, the plan lacks dates.", false, true, "the plan lacks dates."},
		"a word as a JSON string":             {`"yes"`, true, true, ""},
		"a word in capitals and asterisks":    {" **YES** ", true, true, ""},
		"a word before a dash":                {"Yes—it is done", true, true, "is done"},
		"a word in curly quotes":              {"“No”", false, true, ""},
		"a short form":                        {"y", true, true, ""},
		"a short form with a reason":          {"N. It lacks dates", false, true, "It lacks dates"},
		"true":                                {"True", true, true, ""},
		"a list's number is no answer":        {"1. No, it is not", false, false, ""},
		"yes/no is neither":                   {"Yes/No", false, false, ""},
		"an answer after reasoning":           {"<think>no, wait</think>\nyes", true, true, ""},
		"n/a is neither":                      {"N/A", false, false, ""},
		"a fraction is neither":               {"0.5", false, false, ""},
		"a quantity is neither":               {"10 of them", false, false, ""},
		"a word that begins like one":         {"Nothing is missing", false, false, ""},
		"a word after others":                 {"I would say yes", false, false, ""},
		"another language":                    {"да", false, false, ""},
		"punctuation":                         {"?!", false, false, ""},
		"empty":                               {"", false, false, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			yes, reason, ok := verdict(tc.text)
			if yes != tc.yes || ok != tc.ok || ok && reason != tc.reason {
				t.Errorf("verdict(%q) = %v, %q, %v", tc.text, yes, reason, ok)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	tests := map[string]struct {
		script string
		yes    bool
		reason string
		calls  int
		class  string
	}{
		"a yes":                                     {`rules: [{kind: judge, question: "Is it done?", yes: true, reason: it is}]`, true, "it is", 1, ""},
		"a no in words":                             {`rules: [{kind: judge, say: "No. It lacks dates."}]`, false, "It lacks dates.", 1, ""},
		"an answer to the second call":              {`rules: [{kind: judge, turn: 1, say: perhaps}, {kind: judge, turn: 2, say: "yes"}]`, true, "", 2, ""},
		"neither yes nor no, twice":                 {`rules: [{kind: judge, say: "perhaps <so>"}]`, false, "", 2, contract.ClassConditionUnparsable},
		"a failure of the provider":                 {`rules: [{kind: judge, fail: {class: refused, text: no}}]`, false, "", 0, contract.ClassRefused},
		"the question, input, output, state":        {`rules: [{contains: "Question: Is it done?\n\n<input>\nthe input\n</input>\n\n<output node=\"Writer\">\nthe output\n</output>\n\n<state>\n{\"k\":1}\n</state>", yes: true}]`, true, "", 1, ""},
		"the second call includes the first answer": {`rules: [{kind: judge, turn: 1, say: hm}, {kind: judge, match: "^Answer with yes or no, nothing else.$", contains: hm, say: "no"}]`, false, "", 2, ""},
		"a script of another node's question":       {`rules: [{question: "Is it red?", yes: true}]`, false, "", 0, contract.ClassBadRequest},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := newFakeRun()
			_, env := bench(t, Deps{Source: r})
			input := r.keep(t, contract.Message{Role: contract.RoleUser, Text: "the input"})
			output := r.keep(t, contract.Message{Role: contract.RoleAssistant, Text: "the output"})
			out, f := perform[contract.JudgeResult](t, env, contract.ActivityEvaluateCondition, contract.JudgeInput{
				Model: "script", Script: scripted(t, r, tc.script), Question: "Is it done?", Node: "w", Name: "Writer", Step: 2,
				Input: contract.Part{Ref: &input}, Output: &output, State: json.RawMessage(`{"k":1}`),
			})
			if tc.class != "" {
				if f == nil || f.Class != tc.class {
					t.Fatalf("failure is %+v, want %s", f, tc.class)
				}
				if tc.calls > 0 != (f.Usage != nil) || f.Usage != nil && f.Usage.Calls != tc.calls {
					t.Errorf("the failure's usage is %+v, want %d calls", f.Usage, tc.calls)
				}
				if f.Class == contract.ClassConditionUnparsable && (f.Remedy == "" || !strings.Contains(f.Text, `"Is it done?"`) || !strings.Contains(f.Text, "perhaps <so>")) {
					t.Errorf("failure is %+v", f)
				}
				return
			}
			if f != nil {
				t.Fatal(f)
			}
			if out.Yes != tc.yes || out.Reason != tc.reason || out.Usage.Calls != tc.calls {
				t.Errorf("result is %+v", out)
			}
		})
	}
}

func TestJudgeWithoutItsTranscript(t *testing.T) {
	_, env := bench(t, Deps{Source: newFakeRun()})
	_, f := perform[contract.JudgeResult](t, env, contract.ActivityEvaluateCondition, contract.JudgeInput{
		Model: "script", Question: "Is it?", Input: contract.Part{Text: "x"}, Output: &contract.ContentRef{SHA: "gone"},
	})
	if f == nil || f.Class != contract.ClassTranscriptLost {
		t.Errorf("failure is %+v", f)
	}
}

func FuzzVerdict(f *testing.F) {
	for _, s := range []string{"yes", "No.", `{"answer":"yes"}`, `{"answer":1.0}`, `{"answer":[{"answer":true}]}`, "“No”", "n/a", "\xff yes", "İ", "```{}```", `{"answer":null}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		yes, reason, ok := verdict(text)
		if yes && !ok {
			t.Fatalf("verdict(%q) is yes but not ok", text)
		}
		if ok && utf8.ValidString(text) && !utf8.ValidString(reason) {
			t.Fatalf("verdict(%q) has the reason %q", text, reason)
		}
		// A verdict does not depend on surrounding whitespace.
		if again, _, ok2 := verdict(" \n" + text + "\n"); (again != yes || ok2 != ok) && utf8.ValidString(text) && !strings.Contains(text, "\ufeff") {
			t.Fatalf("verdict(%q) changes with surrounding whitespace", text)
		}
	})
}

// TestJudgeOnce checks that there is no second call if the budget allows only one.
func TestJudgeOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		class  string
	}{
		"an answer":          {`rules: [{kind: judge, yes: false}]`, ""},
		"neither yes nor no": {`rules: [{kind: judge, turn: 1, say: perhaps}, {kind: judge, turn: 2, say: "yes"}]`, contract.ClassConditionUnparsable},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFakeRun()
			_, env := bench(t, Deps{Source: r})
			out, f := perform[contract.JudgeResult](t, env, contract.ActivityEvaluateCondition, contract.JudgeInput{
				Model: "script", Script: scripted(t, r, tc.script), Question: "Is it done?", Node: "w", Step: 2, Input: contract.Part{Text: "x"}, Once: true,
			})
			var usage *contract.Usage
			if f != nil {
				usage = f.Usage
			} else {
				usage = &out.Usage
			}
			if (tc.class == "") != (f == nil) || f != nil && f.Class != tc.class || usage == nil || usage.Calls != 1 {
				t.Errorf("%+v, failure %+v, usage %+v", out, f, usage)
			}
		})
	}
}
