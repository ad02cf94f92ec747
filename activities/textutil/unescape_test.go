package textutil

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestUnescape(t *testing.T) {
	tests := map[string]struct{ raw, want string }{
		"the signs that encoding/json escapes":   {`{"a":"\u003cb\u003e \u0026 c"}`, `{"a":"<b> & c"}`},
		"in names too":                           {`{"\u003c":1}`, `{"<":1}`},
		"a backslash before what looks like one": {`"\\u003c"`, `"\\u003c"`},
		"two backslashes before one":             {`"\\\u003c"`, `"\\<"`},
		"other escapes stay":                     {`"\n\"\u000a\u2028\/"`, `"\n\"\u000a\u2028\/"`},
		"nothing to do":                          {`{"a":[1,"é"]}`, `{"a":[1,"é"]}`},
		"nothing":                                {``, ``},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := string(Unescape([]byte(tc.raw))); got != tc.want {
				t.Errorf("unescape(%s) = %s, want %s", tc.raw, got, tc.want)
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
			t.Fatalf("%s became %s on its way and %s again", want, escaped, got)
		}
	})
}
