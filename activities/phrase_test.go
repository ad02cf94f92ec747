package activities

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPython(t *testing.T) {
	long := strings.Repeat("é", 600)
	tests := map[string]struct {
		value any
		want  string
	}{
		"nothing":                        {nil, "None"},
		"true":                           {true, "True"},
		"false":                          {false, "False"},
		"a number as it was written":     {json.Number("1.50"), "1.50"},
		"a string":                       {"a", "'a'"},
		"a string with an apostrophe":    {"it's", `"it's"`},
		"a string with both quotes":      {`"it's"`, `'"it\'s"'`},
		"a string with a line break":     {"a\n\t\r\\", `'a\n\t\r\\'`},
		"a list":                         {[]any{json.Number("1"), "a", nil}, "[1, 'a', None]"},
		"an empty list":                  {[]any{}, "[]"},
		"an object, sorted":              {map[string]any{"b": true, "a": []any{}}, "{'a': [], 'b': True}"},
		"a long string is cut at a rune": {"x" + long, "'x" + strings.Repeat("é", 249) + "…'"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := python(tc.value); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
	if got := python([]any{long, long}); len(got) > 520 || !strings.HasSuffix(got, "…]") {
		t.Errorf("a long list has %d bytes: %s", len(got), got)
	}
}

func TestPointer(t *testing.T) {
	value := map[string]any{"a/b": []any{json.Number("7"), map[string]any{"c~d": "x", "e f": "y", "100%": "z", "": "w"}}}
	tests := map[string]struct {
		pointer string
		want    any
	}{
		"the whole":                  {"", value},
		"a slash and an index":       {"/a~1b/0", json.Number("7")},
		"a tilde":                    {"/a~1b/1/c~0d", "x"},
		"a blank as a URL writes it": {"/a~1b/1/e%20f", "y"},
		"a percent sign of its own":  {"/a~1b/1/100%", "z"},
		"the same as a URL":          {"/a~1b/1/100%25", "z"},
		"an empty name":              {"/a~1b/1/", "w"},
		"an index beyond the end":    {"/a~1b/2", nil},
		"an index below 0":           {"/a~1b/-1", nil},
		"no index":                   {"/a~1b/x", nil},
		"a way through a scalar":     {"/a~1b/0/x", nil},
		"a name that is not there":   {"/z/y", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, at(value, tc.pointer)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
