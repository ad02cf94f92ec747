package textutil

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestUnescape(t *testing.T) {
	tests := map[string]struct{ raw, want string }{
		"characters that encoding/json escapes": {`{"a":"\u003cb\u003e \u0026 c"}`, `{"a":"<b> & c"}`},
		"in member names":                       {`{"\u003c":1}`, `{"<":1}`},
		"an escaped backslash":                  {`"\\u003c"`, `"\\u003c"`},
		"an escaped backslash before an escape": {`"\\\u003c"`, `"\\<"`},
		"other escapes are unchanged":           {`"\n\"\u000a\u2028\/"`, `"\n\"\u000a\u2028\/"`},
		"no escapes":                            {`{"a":[1,"é"]}`, `{"a":[1,"é"]}`},
		"empty":                                 {``, ``},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := string(Unescape([]byte(tc.raw))); got != tc.want {
				t.Errorf("Unescape(%s) = %s, want %s", tc.raw, got, tc.want)
			}
		})
	}
}

func FuzzUnescape(f *testing.F) {
	for _, s := range []string{"<a> & b", `\u003c`, `\\u003c`, "\\", "é\x00\n\"", "\u2028"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var plain bytes.Buffer
		enc := json.NewEncoder(&plain)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(text); err != nil {
			t.Fatal(err)
		}
		want := strings.TrimSuffix(plain.String(), "\n")
		escaped, err := json.Marshal(json.RawMessage(want))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(Unescape(escaped)); got != want {
			t.Fatalf("%s was escaped as %s and unescaped as %s", want, escaped, got)
		}
	})
}
