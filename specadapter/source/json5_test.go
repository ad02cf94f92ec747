package source

import (
	"strings"
	"testing"
	"time"
)

// TestJSON5 checks the JSON that documents in JSON5 convert to.
func TestJSON5(t *testing.T) {
	tests := map[string]struct{ name, text, want string }{
		"comments":                {"f.json5", "// a\n{ /* b\n * c **/ a: 1 // d\u2028, }", `{"a":1}`},
		"trailing commas":         {"f.json5", "{a: [1, 2,], b: {},}", `{"a":[1,2],"b":{}}`},
		"bare keys":               {"f.json5", "{ünter_1$: 1, \\u0061b: 2, null: 3, true: 4}", `{"ünter_1$":1,"ab":2,"null":3,"true":4}`},
		"quotes":                  {"f.json5", `['it\'s "so"', "it's \"so\""]`, `["it's \"so\"","it's \"so\""]`},
		"escapes":                 {"f.json5", `['\x41\u00e9\ud83d\ude00\v\0\a\/']`, "[\"Aé\U0001F600\\u000b\\u0000a/\"]"},
		"line continuations":      {"f.json5", "['a\\\nb\\\r\nc\\\u2028d']", `["abcd"]`},
		"numbers":                 {"f.json5", "[0xfF, -0x10, +1, .5, 5., -5.e2, 1e3, 1.50]", `[255,-16,1,0.5,5,-5e2,1e3,1.50]`},
		"unusual spaces":          {"f.json5", "\ufeff[\u00a01\v,\f2\u3000]", `[1,2]`},
		"single value":            {"f.json5", "'x'", `"x"`},
		"detected by its content": {"flow", "// a comment begins it\n{a: 1}", `{"a":1}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			doc, diags := Parse(tc.name, []byte(tc.text))
			if doc == nil {
				t.Fatal(diags)
			}
			if got := string(doc.Root.JSON()); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestLongJSON5 checks that comments, long strings and long identifiers take time linear in their length.
func TestLongJSON5(t *testing.T) {
	tests := map[string]string{
		"comments": "[" + strings.Repeat("//\n/**/1,", 300_000) + "]",
		"a string": "'" + strings.Repeat("\\x41", 1_000_000) + "'",
		"keys":     "{" + strings.Repeat("a", 4_000_000) + ": 1}",
		"a number": strings.Repeat("1", 4_000_000),
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			Parse("f.json5", []byte(text))
			if took := time.Since(start); took > 3*time.Minute {
				t.Errorf("took %v", took)
			}
		})
	}
}
