package contract

import (
	"strings"
	"testing"
)

func TestKeyword(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"nothing":               {"", ""},
		"short":                 {"Triage", "Triage"},
		"maximum length":        {strings.Repeat("x", 255), strings.Repeat("x", 255)},
		"longer":                {strings.Repeat("x", 256), strings.Repeat("x", 255)},
		"characters, not bytes": {strings.Repeat("語", 255), strings.Repeat("語", 255)},
		"longer, multibyte":     {strings.Repeat("語", 300), strings.Repeat("語", 255)},
		"invalid UTF-8":         {"a\xffb", "a\uFFFDb"},
	}
	for name, tc := range tests {
		if got := Keyword(tc.in); got != tc.want {
			t.Errorf("%s: Keyword() = %q, want %q", name, got, tc.want)
		}
	}
}
