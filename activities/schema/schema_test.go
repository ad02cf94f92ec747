package schema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func check(t *testing.T, schema, value string) []string {
	t.Helper()
	errs, err := Check(t.Context(), json.RawMessage(schema), json.RawMessage(value), Options{Limit: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range errs {
		out = append(out, fmt.Sprintf("%s | %s | %s", e.Path, e.Message, e.SchemaPath))
	}
	return out
}

// TestMessages checks that messages, paths and their order match those of Python's jsonschema 4.26.
func TestMessages(t *testing.T) {
	tests := map[string]struct {
		schema, value string
		want          []string
	}{
		"valid": {`{"type":"integer"}`, `100.0`, nil},
		"rules in document order": {
			`{"required":["b","a"],"properties":{"y":{"type":"string"},"x":{"type":"string"}},"additionalProperties":false}`,
			`{"q":0,"x":1,"y":2,"p":0}`,
			[]string{"$ | 'b' is a required property | required", "$ | 'a' is a required property | required",
				"$.y | 2 is not of type 'string' | properties/y/type", "$.x | 1 is not of type 'string' | properties/x/type",
				"$ | Additional properties are not allowed ('p', 'q' were unexpected) | additionalProperties"}},
		"the same rules in another order": {
			`{"additionalProperties":false,"properties":{"x":{"type":"string"}},"required":["b"]}`, `{"q":0,"x":1}`,
			[]string{"$ | Additional properties are not allowed ('q' was unexpected) | additionalProperties",
				"$.x | 1 is not of type 'string' | properties/x/type", "$ | 'b' is a required property | required"}},
		"errors in the order of items": {
			`{"items":{"required":["a"],"properties":{"b":{"minimum":1}}}}`, `[{"b":0},{"b":0,"a":1}]`,
			[]string{"$.0 | 'a' is a required property | items/required", "$.0.b | 0 is less than the minimum of 1 | items/properties/b/minimum",
				"$.1.b | 0 is less than the minimum of 1 | items/properties/b/minimum"}},
		"a reference is not part of the path": {
			`{"definitions":{"d":{"properties":{"n":{"type":"string"}}}},"properties":{"p":{"items":{"$ref":"#/definitions/d"}}}}`, `{"p":[{"n":1}]}`,
			[]string{"$.p.0.n | 1 is not of type 'string' | properties/p/items/properties/n/type"}},
		"a recursive schema": {`{"properties":{"c":{"$ref":"#"},"n":{"type":"string"}}}`, `{"c":{"c":{"n":1}},"n":2}`,
			[]string{"$.c.c.n | 1 is not of type 'string' | properties/c/properties/c/properties/n/type", "$.n | 2 is not of type 'string' | properties/n/type"}},
		"lengths": {`{"properties":{"a":{"minLength":1},"b":{"minLength":2},"c":{"maxLength":0},"d":{"maxLength":1}}}`, `{"a":"","b":"x","c":"x","d":"xy"}`,
			[]string{"$.a | '' should be non-empty | properties/a/minLength", "$.b | 'x' is too short | properties/b/minLength",
				"$.c | 'x' is expected to be empty | properties/c/maxLength", "$.d | 'xy' is too long | properties/d/maxLength"}},
		"numbers of items": {`{"properties":{"a":{"minItems":1},"b":{"minItems":2},"c":{"maxItems":0},"d":{"maxItems":1},"e":{"uniqueItems":true}}}`, `{"a":[],"b":[1],"c":[1],"d":[1,2],"e":[1,1.0]}`,
			[]string{"$.a | [] should be non-empty | properties/a/minItems", "$.b | [1] is too short | properties/b/minItems",
				"$.c | [1] is expected to be empty | properties/c/maxItems", "$.d | [1, 2] is too long | properties/d/maxItems",
				"$.e | [1, 1.0] has non-unique elements | properties/e/uniqueItems"}},
		"numbers of properties": {`{"properties":{"a":{"minProperties":1},"b":{"minProperties":2},"c":{"maxProperties":0},"d":{"maxProperties":1}}}`, `{"a":{},"b":{"x":1},"c":{"x":1},"d":{"x":1,"y":2}}`,
			[]string{"$.a | {} should be non-empty | properties/a/minProperties", "$.b | {'x': 1} does not have enough properties | properties/b/minProperties",
				"$.c | {'x': 1} is expected to be empty | properties/c/maxProperties", "$.d | {'x': 1, 'y': 2} has too many properties | properties/d/maxProperties"}},
		"limits": {`{"items":[{"minimum":1.50},{"maximum":1},{"exclusiveMinimum":0},{"exclusiveMaximum":0},{"multipleOf":2}]}`, `[1,2,0,0,3]`,
			[]string{"$.0 | 1 is less than the minimum of 1.5 | items/0/minimum", "$.1 | 2 is greater than the maximum of 1 | items/1/maximum",
				"$.2 | 0 is less than or equal to the minimum of 0 | items/2/exclusiveMinimum", "$.3 | 0 is greater than or equal to the maximum of 0 | items/3/exclusiveMaximum",
				"$.4 | 3 is not a multiple of 2 | items/4/multipleOf"}},
		"too many items": {`{"items":[{}],"additionalItems":false}`, `[1,"x",null]`, []string{"$ | Additional items are not allowed ('x', None were unexpected) | additionalItems"}},
		"a constant":     {`{"const":{"a":[1]}}`, `1`, []string{"$ | {'a': [1]} was expected | const"}},
		"a pattern":      {`{"pattern":"^x\\d"}`, `"y"`, []string{`$ | 'y' does not match '^x\\d' | pattern`}},
		"formats are annotations": {`{"properties":{"format":{"type":"string","format":"date"},"default":{"format":"date"}},"anyOf":[{"format":"date"},{"required":["x"]}],"default":{"format":"x"}}`,
			`{"format":1,"default":"x"}`, []string{"$.format | 1 is not of type 'string' | properties/format/type"}},
		"a format in a constant":            {`{"const":{"format":"x"}}`, `{"format":"x"}`, nil},
		"a false schema":                    {`{"properties":{"a":false}}`, `{"a":1}`, []string{"$.a | False schema does not allow 1 | properties/a"}},
		"anyOf, none valid":                 {`{"anyOf":[{"type":"string"},{"required":["x"]}]}`, `{}`, []string{"$ | {} is not valid under any of the given schemas | anyOf"}},
		"a property named like a keyword":   {`{"properties":{"anyOf":{"required":["x"],"minProperties":1}}}`, `{"anyOf":{}}`, []string{"$.anyOf | 'x' is a required property | properties/anyOf/required", "$.anyOf | {} should be non-empty | properties/anyOf/minProperties"}},
		"oneOf, none valid":                 {`{"oneOf":[{"type":"string"},{"type":"null"}]}`, `1`, []string{"$ | 1 is not valid under any of the given schemas | oneOf"}},
		"oneOf, two valid":                  {`{"oneOf":[{"minimum":1},{"type":"string"},{"type":"integer"}]}`, `1`, []string{"$ | 1 is valid under each of {'type': 'integer'}, {'minimum': 1} | oneOf"}},
		"allOf":                             {`{"allOf":[{},{"required":["x"]}]}`, `{}`, []string{"$ | 'x' is a required property | allOf/1/required"}},
		"not":                               {`{"not":{"type":"integer"}}`, `1`, []string{"$ | 1 should not be valid under {'type': 'integer'} | not"}},
		"if and then":                       {`{"if":{"type":"object"},"then":{"required":["x"]}}`, `{}`, []string{"$ | 'x' is a required property | then/required"}},
		"if and else":                       {`{"if":{"type":"array"},"else":{"required":["x"]}}`, `{}`, []string{"$ | 'x' is a required property | else/required"}},
		"contains":                          {`{"contains":{"type":"string"}}`, `[1]`, []string{"$ | None of [1] are valid under the given schema | contains"}},
		"propertyNames":                     {`{"propertyNames":{"pattern":"^a"}}`, `{"b":1,"a":2}`, []string{"$ | 'b' does not match '^a' | propertyNames/pattern"}},
		"a dependency":                      {`{"dependencies":{"a":["b","c"]}}`, `{"a":1,"c":2}`, []string{"$ | 'b' is a dependency of 'a' | dependencies"}},
		"a schema dependency":               {`{"dependencies":{"a":{"required":["b"]}}}`, `{"a":1}`, []string{"$ | 'b' is a required property | dependencies/a/required"}},
		"several unmatched properties":      {`{"patternProperties":{"^x":{"type":"string"}},"additionalProperties":false}`, `{"x1":1,"y":2,"a":3}`, []string{"$.x1 | 1 is not of type 'string' | patternProperties/^x/type", "$ | 'a', 'y' do not match any of the regexes: '^x' | additionalProperties"}},
		"one unmatched property":            {`{"patternProperties":{"^x":{}},"additionalProperties":false}`, `{"y":2}`, []string{"$ | 'y' does not match any of the regexes: '^x' | additionalProperties"}},
		"a schema of additional properties": {`{"additionalProperties":{"type":"string"}}`, `{"b":1,"a":2}`, []string{"$.b | 1 is not of type 'string' | additionalProperties/type", "$.a | 2 is not of type 'string' | additionalProperties/type"}},
		"invalid type and value":            {`{"enum":["a"],"type":"string","const":"a"}`, `1`, []string{"$ | 1 is not one of ['a'] | enum", "$ | 1 is not of type 'string' | type", "$ | 'a' was expected | const"}},
		"invalid type of a valid value":     {`{"enum":[{"a":1.0,"b":[2]}],"type":"string"}`, `{"b":[2.0],"a":1}`, []string{"$ | {'b': [2.0], 'a': 1} is not of type 'string' | type"}},
		"one of several types":              {`{"type":["string","null"]}`, `true`, []string{"$ | True is not of type 'string', 'null' | type"}},
		"odd names":                         {`{"properties":{"a b/c~d%é":{"type":"string"}},"required":["it's"]}`, `{"a b/c~d%é":5}`, []string{"$.a b/c~d%é | 5 is not of type 'string' | properties/a b/c~d%é/type", `$ | "it's" is a required property | required`}},
		"a reference by $id":                {`{"$id":"http://x/y","definitions":{"d":{"$id":"#d","type":"string"}},"properties":{"a":{"$ref":"#d"}}}`, `{"a":1}`, []string{"$.a | number is not one of the types [string] | properties/a"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, check(t, tc.schema, tc.value)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestDocumentedStyle checks the path format of the dialect's documentation, which differs from that of its implementation.
func TestDocumentedStyle(t *testing.T) {
	errs, err := Check(t.Context(), json.RawMessage(`{"required":["s"],"properties":{"i":{"items":{"required":["a"],"properties":{"e":{"type":"string","enum":["x"]}}}}}}`),
		json.RawMessage(`{"i":[{"a":1,"e":2},{"[0]":1}]}`), Options{Documented: true})
	if err != nil {
		t.Fatal(err)
	}
	want := []Error{
		{"$.s", "'s' is a required property", "required"},
		{"$.i[0].e", "2 is not of type 'string'", "properties.i.items.properties.e.type"},
		{"$.i[0].e", "2 is not one of ['x']", "properties.i.items.properties.e.enum"},
		{"$.i[1].a", "'a' is a required property", "properties.i.items.required"},
	}
	if diff := cmp.Diff(want, errs); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestLongValuesAreTruncated(t *testing.T) {
	got := check(t, `{"type":"string","required":["x"]}`, `["`+strings.Repeat("é", 600)+`"]`)
	if len(got) != 1 || len(got[0]) > maxShown+100 || !strings.Contains(got[0], "…") {
		t.Errorf("%q", got)
	}
}

func TestManyMembers(t *testing.T) {
	var b strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&b, `"k%d":%d,`, i, i)
	}
	began := time.Now()
	got := check(t, `{"additionalProperties":{"type":"string"}}`, "{"+b.String()+`"z":0}`)
	if len(got) != MaxErrors+1 || got[0] != "$.k0 | 0 is not of type 'string' | additionalProperties/type" || !strings.Contains(got[MaxErrors], "19901 more") {
		t.Errorf("%d errors, the first %s, the last %s", len(got), got[0], got[len(got)-1])
	}
	if took := time.Since(began); took > 3*time.Minute {
		t.Errorf("took %s", took)
	}
}

func TestCheckRejects(t *testing.T) {
	tests := map[string]struct{ schema, value, want string }{
		"a value nested too deep":         {`{}`, strings.Repeat("[", 66) + strings.Repeat("]", 66), "nests 66 levels deep"},
		"a schema that is too large":      {`{"description":"` + strings.Repeat("x", MaxBytes) + `"}`, `1`, "at most 262144"},
		"an invalid schema":               {`{"type":"thing"}`, `1`, "cannot be used"},
		"a schema that is not JSON":       {`{`, `1`, "cannot be used"},
		"a number in the schema":          {`{"minimum":1e999999999}`, `1`, "1e999999999 is out of range"},
		"a number in the value":           {`{"multipleOf":2}`, `{"a":[1e999999999]}`, "1e999999999 is out of range"},
		"a value that is not JSON":        {`{}`, `{`, "EOF"},
		"a reference out of the document": {`{"$ref":"file:///etc/passwd"}`, `1`, "points outside the document"},
		"a reference to itself":           {`{"$ref":"#"}`, `1`, "cannot be used"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(check(t, tc.schema, tc.value), "; ")
			if !strings.HasPrefix(got, "$ | ") || !strings.Contains(got, tc.want) {
				t.Errorf("got %.200q, want %q", got, tc.want)
			}
		})
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Check(ctx, json.RawMessage(`{}`), json.RawMessage(`1`), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

// FuzzCheck checks that every check terminates, and that its errors have messages and paths.
func FuzzCheck(f *testing.F) {
	for _, s := range [][2]string{
		{`{"required":["a"],"properties":{"a":{"type":"string","enum":["x"]}},"additionalProperties":false}`, `{"a":1,"b":2}`},
		{`{"items":[{"$ref":"#/definitions/d"},{"minLength":1}],"additionalItems":false,"definitions":{"d":{"const":1}}}`, `[2,"",3]`},
		{`{"anyOf":[{"type":"null"}],"oneOf":[{},{}],"not":{},"if":{},"then":{"maximum":1},"contains":false}`, `[]`},
		{`{"patternProperties":{"^a":{"format":"date"}},"propertyNames":{"maxLength":0},"dependencies":{"a":["b"],"c":{"minProperties":9}}}`, `{"a":1,"c":{}}`},
		{`{"$ref":"#"}`, `1`}, {`{"multipleOf":0.1,"minimum":1e300}`, `-1e-300`}, {`true`, `null`}, {`[`, `]`},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, schema, value string) {
		began := time.Now()
		for _, documented := range []bool{false, true} {
			errs, err := Check(t.Context(), json.RawMessage(schema), json.RawMessage(value), Options{Documented: documented, Formats: documented, Limit: time.Second})
			if err != nil || len(errs) > MaxErrors+1 {
				t.Fatal(len(errs), err)
			}
			for _, e := range errs {
				if !strings.HasPrefix(e.Path, "$") || e.Message == "" || !utf8.ValidString(e.Path+e.Message+e.SchemaPath) {
					t.Fatalf("%+q", e)
				}
			}
		}
		if took := time.Since(began); took > 3*time.Minute {
			t.Fatalf("took %s", took)
		}
	})
}
