package activities

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestVerdict(t *testing.T) {
	tests := map[string]struct {
		text    string
		yes, ok bool
		reason  string
	}{
		"an object":                                   {`{"answer":"yes","reason":"it is done"}`, true, true, "it is done"},
		"an object that says no":                      {`{"answer":"No."}`, false, true, ""},
		"an object in a fenced block":                 {"```json\n{\"answer\": \"no\"}\n```", false, true, ""},
		"an object in prose":                          {`Yes, I think: {"answer":"no"}`, false, true, ""},
		"a boolean":                                   {`{"answer":true}`, true, true, ""},
		"a number":                                    {`{"answer":0}`, false, true, ""},
		"a reason that quotes a fenced block":         {"{\"answer\":\"no\",\"reason\":\"it says ```true``` and ```{}```\"}", false, true, "it says ```true``` and ```{}```"},
		"an object with another answer":               {`{"answer":"maybe"}`, false, false, ""},
		"an object without an answer, whatever it is": {`{"yes":1}`, false, false, ""},
		"no answer at all":                            {`{"answer":null,"reason":"yes"}`, false, false, "yes"},
		"a word":                                      {"yes", true, true, ""},
		"a word with a reason":                        {"No, the plan lacks dates.", false, true, "the plan lacks dates."},
		"a word as a JSON string":                     {`"yes"`, true, true, ""},
		"a word in capitals and stars":                {" **YES** ", true, true, ""},
		"a word before a dash":                        {"Yes—it is done", true, true, "is done"},
		"a word in curly quotes":                      {"“No”", false, true, ""},
		"a short form":                                {"y", true, true, ""},
		"a short form with a reason":                  {"N. It lacks dates", false, true, "It lacks dates"},
		"true":                                        {"True", true, true, ""},
		"n/a is neither":                              {"N/A", false, false, ""},
		"a share is neither":                          {"0.5", false, false, ""},
		"a number of things is neither":               {"10 of them", false, false, ""},
		"a word that begins like one":                 {"Nothing is missing", false, false, ""},
		"a word behind others":                        {"I would say yes", false, false, ""},
		"another language":                            {"да", false, false, ""},
		"signs alone":                                 {"?!", false, false, ""},
		"nothing":                                     {"", false, false, ""},
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

func FuzzVerdict(f *testing.F) {
	for _, s := range []string{"yes", "No.", `{"answer":"yes"}`, `{"answer":1.0}`, `{"answer":[{"answer":true}]}`, "“No”", "n/a", "\xff yes", "İ", "```{}```", `{"answer":null}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		yes, reason, ok := verdict(text)
		if yes && !ok {
			t.Fatalf("verdict(%q) is yes and no verdict", text)
		}
		if ok && utf8.ValidString(text) && !utf8.ValidString(reason) {
			t.Fatalf("verdict(%q) has the reason %q", text, reason)
		}
		// A verdict does not depend on blanks around it or on capitals.
		if again, _, ok2 := verdict(" \n" + text + "\n"); (again != yes || ok2 != ok) && utf8.ValidString(text) && !strings.Contains(text, "\ufeff") {
			t.Fatalf("verdict(%q) changes with blanks around it", text)
		}
	})
}
