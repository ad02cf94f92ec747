package schema

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDefaults(t *testing.T) {
	tests := map[string]struct {
		schema string
		want   []string
	}{
		"no default":                    {`{"type":"integer","minimum":3}`, nil},
		"valid":                         {`{"type":"integer","minimum":3,"default":3}`, nil},
		"at the root":                   {`{"type":"integer","minimum":3,"default":1}`, []string{"/default: 1 is less than the minimum of 3"}},
		"of an invalid type":            {`{"properties":{"a":{"type":"integer","default":"x"}}}`, []string{"/properties/a/default: 'x' is not of type 'integer'"}},
		"null":                          {`{"properties":{"a":{"type":"integer","default":null}}}`, []string{"/properties/a/default: None is not of type 'integer'"}},
		"a fraction":                    {`{"properties":{"a":{"type":"integer","default":2.0},"b":{"type":"integer","default":2.5}}}`, []string{"/properties/b/default: 2.5 is not of type 'integer'"}},
		"in lists":                      {`{"items":[{"maxLength":1,"default":"xy"},{"anyOf":[{"enum":[1],"default":2}]}]}`, []string{"/items/0/default: 'xy' is too long", "/items/1/anyOf/0/default: 2 is not one of [1]"}},
		"escaped names":                 {`{"properties":{"a/b~c ä%":{"type":"string","pattern":"^x","default":"y"}}}`, []string{"/properties/a~1b~0c%20%C3%A4%25/default: 'y' does not match '^x'"}},
		"a property named default":      {`{"properties":{"default":{"type":"string"}},"additionalProperties":{"default":1,"type":"string"}}`, []string{"/additionalProperties/default: 1 is not of type 'string'"}},
		"validated through a reference": {`{"definitions":{"d":{"minimum":3}},"properties":{"a":{"allOf":[{"$ref":"#/definitions/d"}],"default":1}}}`, []string{"/properties/a/default: must be >= 3 but found 1"}},
		"in a referenced schema":        {`{"definitions":{"d":{"minimum":3,"default":1}},"properties":{"a":{"$ref":"#/definitions/d"}}}`, []string{"/definitions/d/default: 1 is less than the minimum of 3"}},
		"inside values":                 {`{"const":{"default":1,"type":"string"},"x-ui":{"default":1,"type":"string"},"default":{"default":1,"type":"string"}}`, nil},
		"formats":                       {`{"format":"date","default":"soon"}`, nil},
		"two rules":                     {`{"minLength":2,"pattern":"^x","default":"y"}`, []string{"/default: 'y' is too short; 'y' does not match '^x'"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, d := range Defaults(json.RawMessage(tc.schema)) {
				var texts []string
				for _, e := range d.Errors {
					texts = append(texts, e.Message)
				}
				got = append(got, fmt.Sprintf("%s: %s", d.Pointer, strings.Join(texts, "; ")))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestDefaultsAreBounded checks that validation of a schema that would take exponential time is cut off: schemas are untrusted.
func TestDefaultsAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"default":1,"definitions":{"d0":{"type":"string"}`)
	for i := 1; i < 40; i++ {
		fmt.Fprintf(&b, `,"d%d":{"anyOf":[{"$ref":"#/definitions/d%d"},{"$ref":"#/definitions/d%d"}]}`, i, i-1, i-1)
	}
	b.WriteString(`},"anyOf":[{"$ref":"#/definitions/d39"}]}`)
	done := make(chan []Default)
	go func() { done <- Defaults(json.RawMessage(b.String())) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("Defaults() did not return")
	}
}
