package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/activities/schema"
	"weft/workflows/plan"
)

// sharedCases reads test cases of the blueprint dialect's framework, and skips the test if they are missing.
func sharedCases(t *testing.T, name string, out any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "shared", "cases", name))
	if err != nil {
		t.Skipf("../shared/cases/%s is not there", name)
	}
	if err := json.Unmarshal(raw, out); err != nil {
		t.Fatal(err)
	}
}

func TestExtract(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"an object alone":                     {`{"a": 1}`, `{"a":1}`},
		"an object between blanks":            {"\n {\"a\":1}\n\t", `{"a":1}`},
		"an object in prose":                  {`So: {"a":1}, I think.`, `{"a":1}`},
		"a fenced block":                      {"Here:\n```json\n{\"a\":1}\n```\nDone {x}.", `{"a":1}`},
		"a fenced block without a tag":        {"```\n[1, 2]\n```", `[1,2]`},
		"the first fenced block that is JSON": {"```sh\nls {a}\n```\n```json\n{bad}\n```\n```json\n{\"a\":2}\n```\n```json\n{\"a\":3}\n```", `{"a":2}`},
		"an unclosed fence":                   {"```json\n{\"a\":1}", `{"a":1}`},
		"a raw array":                         {`[{"a":1},{"a":2}]`, `[{"a":1},{"a":2}]`},
		"a scalar":                            {` "yes" `, `"yes"`},
		"an object whose text quotes a fenced block of JSON": {"{\"md\":\"so: ```1``` or ```json {} ```\"}", "{\"md\":\"so: ```1``` or ```json {} ```\"}"},
		"a byte order mark before it":                        {"\ufeff[1]", `[1]`},
		"numbers are unchanged":                              {`{"a":1.50,"b":12345678901234567890,"c":1e400}`, `{"a":1.50,"b":12345678901234567890,"c":1e400}`},
		"null is none":                                       {"null", ""},
		"null in a fence is none":                            {"```json\nnull\n```", ""},
		"two objects are none":                               {`{"a":1} and {"a":2}`, ""},
		"a trailing comma is none":                           {`{"a":1,}`, ""},
		"NaN is none":                                        {`{"a":NaN}`, ""},
		"text that is no UTF-8 is none":                      {"{\"a\":\"\xff\"}", ""},
		"braces the wrong way round are none":                {`} {`, ""},
		"whitespace is none":                                 {" \n", ""},
		"nesting beyond the decoder's limit is none":         {strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := string(extract(tc.text)); got != tc.want {
				t.Errorf("extract(%.100q) = %s, want %s", tc.text, got, tc.want)
			}
		})
	}
}

// extractedOtherwise lists deliberate differences from the blueprint dialect's framework,
// with the reasons.
var extractedOtherwise = map[string]struct{ want, why string }{
	"two blocks, first invalid": {`{"a":2}`, "all fenced blocks are tried, in order"},
	"raw array of objects":      {`[{"a":1},{"a":2}]`, "the whole text is tried last, so that a raw array is JSON"},
	"raw array scalars":         {`[1,2,3]`, "the whole text is tried last, so that a raw array is JSON"},
	"NaN":                       {``, "NaN is not JSON, and history could not hold it"},
	"Infinity":                  {``, "Infinity is not JSON, and history could not hold it"},
}

func TestExtractAsTheFrameworkDoes(t *testing.T) {
	var in struct {
		Cases []struct {
			Name, Text string
			Extracted  json.RawMessage
		}
	}
	sharedCases(t, "aof_extract_json.json", &in)
	differ := 0
	for _, c := range in.Cases {
		want := string(c.Extracted)
		if other, ok := extractedOtherwise[c.Name]; ok {
			want = other.want
			differ++
			if want == "" {
				want = "null"
			}
		}
		got := extract(c.Text)
		if got == nil {
			got = json.RawMessage("null")
		}
		if diff := cmp.Diff(loose(t, want), loose(t, string(got))); diff != "" {
			t.Errorf("%s: %q (-want +got):\n%s", c.Name, c.Text, diff)
		}
	}
	if differ != len(extractedOtherwise) || len(in.Cases) < 30 {
		t.Errorf("%d cases, %d of them with deliberate differences, want %d", len(in.Cases), differ, len(extractedOtherwise))
	}
}

func loose(t *testing.T, raw string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(raw), &v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}

func TestParseOnly(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"JSON":                        {` {"a": 1} `, `{"a":1}`},
		"a string":                    {`"x"`, `"x"`},
		"one fenced block":            {"```json\n[1]\n```\n", `[1]`},
		"a fenced block and prose":    {"Here:\n```json\n[1]\n```", ""},
		"two fenced blocks":           {"```\n1\n```\n```\n2\n```", ""},
		"an object in prose":          {`so {"a":1}`, ""},
		"prose":                       {"all good", ""},
		"a fenced block that is none": {"```\nls\n```", ""},
		"null":                        {"null", ""},
		"nothing":                     {"", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := string(parseOnly(tc.text)); got != tc.want {
				t.Errorf("parseOnly(%q) = %s, want %s", tc.text, got, tc.want)
			}
		})
	}
}

// checked calls check and fails the test on an error.
func checked(t *testing.T, schema, text string) *contract.Checked {
	t.Helper()
	c, err := check(t.Context(), json.RawMessage(schema), text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// messages lists errors as path: message.
func messages(c *contract.Checked) []string {
	var out []string
	for _, e := range c.Errors {
		out = append(out, e.Path+": "+e.Message)
	}
	return out
}

const listSchema = `{"type":"object","required":["items","total"],"additionalProperties":false,"properties":{
"items":{"type":"array","items":{"$ref":"#/definitions/item"}},"total":{"type":["integer","null"]}},
"definitions":{"item":{"type":"object","required":["kind"],"properties":{"kind":{"enum":["a","b"]},"n":{"type":"number"}}}}}`

func TestCheck(t *testing.T) {
	tests := map[string]struct {
		schema, text string
		data         string
		errors       []string
	}{
		"valid data is unchanged":              {listSchema, `{"total": 3, "items": [{"kind":"a","n":1.50}]}`, `{"total":3,"items":[{"kind":"a","n":1.50}]}`, nil},
		"no schema accepts any JSON":           {``, `[1]`, `[1]`, nil},
		"an empty schema accepts any JSON":     {` {} `, `"x"`, `"x"`, nil},
		"no schema requires JSON":              {``, `just text`, "", []string{"$: No JSON output found but output_schema requires structured output"}},
		"no JSON":                              {listSchema, `just text`, "", []string{"$: No JSON output found but output_schema requires structured output"}},
		"all that is missing, an error each":   {listSchema, `{}`, "", []string{"$: 'items' is a required property", "$: 'total' is a required property"}},
		"one property too many":                {listSchema, `{"items":[],"total":null,"x":1}`, "", []string{"$: Additional properties are not allowed ('x' was unexpected)"}},
		"two properties too many":              {listSchema, `{"items":[],"total":null,"x":1,"y":2}`, "", []string{"$: Additional properties are not allowed ('x', 'y' were unexpected)"}},
		"one of several types":                 {listSchema, `{"items":[],"total":"3"}`, "", []string{"$.total: '3' is not of type 'integer', 'null'"}},
		"a rule in a referenced schema":        {listSchema, `{"items":[{"kind":"c","n":"1"}],"total":1}`, "", []string{"$.items.0.kind: 'c' is not one of ['a', 'b']", "$.items.0.n: '1' is not of type 'number'"}},
		"a place whose name has odd signs":     {`{"properties":{"a b/c~d%é":{"type":"string"}}}`, `{"a b/c~d%é":5}`, "", []string{"$.a b/c~d%é: 5 is not of type 'string'"}},
		"a rule whose place has odd signs":     {`{"definitions":{"x y/z":{"enum":[1]}},"properties":{"a":{"$ref":"#/definitions/x%20y~1z"}}}`, `{"a":2}`, "", []string{"$.a: 2 is not one of [1]"}},
		"a format":                             {`{"format":"date"}`, `"2024-13-01"`, "", []string{"$: '2024-13-01' is not a 'date'"}},
		"a pattern":                            {`{"pattern":"^x+$"}`, `"xy"`, "", []string{"$: 'xy' does not match '^x+$'"}},
		"a value as Python writes it":          {`{"type":"string"}`, `{"b":[true,null,"it's"],"a":1.0}`, "", []string{`$: {'b': [True, None, "it's"], 'a': 1.0} is not of type 'string'`}},
		"the schema of another draft":          {`{"$schema":"https://json-schema.org/draft/2020-12/schema","prefixItems":[{"type":"string"}]}`, `[1]`, "", []string{"$.0: 1 is not of type 'string'"}},
		"false accepts nothing":                {`false`, `1`, "", []string{"$: False schema does not allow 1"}},
		"a number beyond what can be computed": {`{"type":"integer"}`, `1e9999999`, "", []string{"$: the number 1e9999999 is out of range"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := checked(t, tc.schema, tc.text)
			if diff := cmp.Diff(tc.errors, messages(c)); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if string(c.Data) != tc.data {
				t.Errorf("data is %s, want %s", c.Data, tc.data)
			}
		})
	}
}

func TestCheckAsTheFrameworkDoes(t *testing.T) {
	var in struct {
		Cases []struct {
			Name           string
			Output, Schema json.RawMessage
			Errors         []contract.FieldError
		}
	}
	sharedCases(t, "aof_validate_output.json", &in)
	for _, c := range in.Cases {
		want := messages(&contract.Checked{Errors: c.Errors})
		if diff := cmp.Diff(want, messages(checked(t, string(c.Schema), string(c.Output)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.Name, diff)
		}
	}
}

func TestErrorsAreInOrderAndBounded(t *testing.T) {
	rules := `{"items":{"type":"string"}}`
	text := "[" + strings.Repeat("1,", 299) + "1]"
	first := checked(t, rules, text)
	if n := len(first.Errors); n != schema.MaxErrors+1 {
		t.Fatalf("%d errors are reported", n)
	}
	if got := messages(first)[schema.MaxErrors]; got != "$: and 200 more errors" {
		t.Errorf("the last one is %q", got)
	}
	for range 5 {
		if diff := cmp.Diff(first, checked(t, rules, text)); diff != "" {
			t.Fatalf("the order is not stable:\n%s", diff)
		}
	}
}

// ladder returns a schema with n levels, each of which refers to the next twice.
func ladder(n int, last string) string {
	var b strings.Builder
	b.WriteString(`{"definitions":{`)
	for i := range n {
		fmt.Fprintf(&b, `"s%d":{"allOf":[{"$ref":"#/definitions/s%d"},{"$ref":"#/definitions/s%d"}]},`, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"s%d":%s},"$ref":"#/definitions/s0"}`, n, last)
	return b.String()
}

// tower returns a schema with a chain of n references that starts again for each nested array.
func tower(n int) string {
	var b strings.Builder
	b.WriteString(`{"definitions":{`)
	for i := range n {
		fmt.Fprintf(&b, `"%d":{"allOf":[{"$ref":"#/definitions/%d"}]},`, i, i+1)
	}
	fmt.Fprintf(&b, `"%d":{"items":{"$ref":"#/definitions/0"}}},"$ref":"#/definitions/0"}`, n)
	return b.String()
}

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func TestHostileSchemas(t *testing.T) {
	tests := map[string]struct{ schema, text, want string }{
		"a ladder of references whose cost doubles with each step": {ladder(40, `{"minLength":1}`), `"x"`, "simplify "},
		"the same, with an answer that does not fit":               {ladder(40, `{"minLength":9}`), `"x"`, "simplify "},
		"a reference to itself":                                    {`{"$ref":"#"}`, `1`, "cannot be used"},
		"two that refer to each other":                             {`{"definitions":{"a":{"$ref":"#/definitions/b"},"b":{"$ref":"#/definitions/a"}},"$ref":"#/definitions/a"}`, `1`, "cannot be used"},
		"a recursion that would take all of the process's stack":   {tower(5000), nested(60), "too complex"},
		"a recursion that fits":                                    {tower(40), nested(60), ""},
		"an answer that nests deep":                                {`{"type":"array"}`, nested(66), "nests 66 levels deep"},
		"an answer that nests deep, without a schema":              {``, nested(66), "nests 66 levels deep"},
		"an answer that nests as deep as is allowed, in an object": {`{"type":"array"}`, nested(65), ""},
		"a reference to a web page":                                {`{"$ref":"http://127.0.0.1:1/schema.json"}`, `1`, "points outside the document"},
		"a reference to a file":                                    {`{"$ref":"file:///etc/passwd"}`, `1`, "points outside the document"},
		"a reference to a file beside it":                          {`{"$ref":"other.json#/a"}`, `1`, "points outside the document"},
		"a dialect from a web page":                                {`{"$schema":"http://127.0.0.1:1/dialect"}`, `1`, "points outside the document"},
		"a reference that leads nowhere":                           {`{"$ref":"#/definitions/x"}`, `1`, "cannot be used"},
		"a pattern that is no regular expression":                  {`{"pattern":"("}`, `"x"`, "cannot be used"},
		"a pattern that looks ahead":                               {`{"pattern":"^(?=x)"}`, `"x"`, "cannot be used"},
		"a pattern that would take other engines years":            {`{"pattern":"^(a+)+$"}`, `"` + strings.Repeat("a", 5000) + `b"`, "does not match"},
		"a schema that is no schema":                               {`{"type":"thing"}`, `1`, "cannot be used"},
		"a schema that is not JSON":                                {`{`, `1`, "cannot be used"},
		"a schema that is a number":                                {`5`, `1`, "cannot be used"},
		"a schema that is too large":                               {`{"description":"` + strings.Repeat("x", schema.MaxBytes) + `"}`, `1`, "at most 262144"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			limit := 2 * time.Second
			if tc.want == "" {
				limit = time.Minute
			}
			c, err := checkAs(t.Context(), json.RawMessage(tc.schema), tc.text, schema.Options{Limit: limit})
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(messages(c), "; ")
			if !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
				t.Errorf("errors are %.300q, want %q", got, tc.want)
			}
			if took := time.Since(began); took > 3*time.Minute {
				t.Errorf("took %s", took)
			}
		})
	}
}

func TestValidationEndsWithItsTime(t *testing.T) {
	predecessor := runtime.NumGoroutine()
	c, err := checkAs(t.Context(), json.RawMessage(ladder(40, `{"minLength":1}`)), `"x"`, schema.Options{Limit: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(messages(c), "; "); !strings.Contains(got, "20ms") && !strings.Contains(got, "too long") {
		t.Errorf("errors are %q", got)
	}
	for range 200 {
		if runtime.NumGoroutine() <= predecessor {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the validator still runs after its time")
}

func TestCancelledCheckIsNoVerdict(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := check(ctx, json.RawMessage(ladder(40, `{"minLength":1}`)), `"x"`); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
}

func FuzzExtract(f *testing.F) {
	for _, s := range []string{
		``, `null`, `{"a":1}`, "```json\n{\"a\":1}\n```", "``````", "```", "{```}```", `{"a":"}"} {`, "\ufeff{}",
		"```json\nnull\n```{}", "[1,2]", "{\"md\":\"```1```\"}", "\xff{}", "```\r\n1\r\n```", strings.Repeat("[", 70) + strings.Repeat("]", 70),
	} {
		f.Add(s)
	}
	rules := json.RawMessage(`{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}},"additionalProperties":{"$ref":"#"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		for name, raw := range map[string]json.RawMessage{"extract": extract(text), "whole": parseOnly(text)} {
			if raw == nil {
				continue
			}
			if !json.Valid(raw) || !utf8.Valid(raw) || string(raw) == "null" {
				t.Fatalf("%s(%q) = %q", name, text, raw)
			}
			// Extracting the result again does not change it.
			if again := extract(string(raw)); raw[0] == '{' && !bytes.Equal(again, raw) {
				t.Fatalf("%s(%q) = %q, and of that %q", name, text, raw, again)
			}
		}
		if parseOnly(text) != nil && extract(text) == nil {
			t.Fatalf("%q is whole but holds nothing", text)
		}
		c, err := check(t.Context(), rules, text)
		if err != nil {
			t.Fatal(err)
		}
		if (c.Data == nil) == (len(c.Errors) == 0) {
			t.Fatalf("check(%q) = %+v", text, c)
		}
		for _, e := range c.Errors {
			if !utf8.ValidString(e.Message) || e.Path == "" {
				t.Fatalf("check(%q) says %+q", text, e)
			}
		}
	})
}

// TestStyleOfAnswers checks that errors name paths in the style that the plan sets.
func TestStyleOfAnswers(t *testing.T) {
	out := plan.Output{Schema: json.RawMessage(`{"required":["summary"],"properties":{"issues":{"items":{"properties":{"severity":{"enum":["high","low"]}}}}}}`)}
	for style, want := range map[string][]contract.FieldError{
		plan.StyleFramework: {
			{Path: "$", Message: "'summary' is a required property", SchemaPath: "required"},
			{Path: "$.issues.0.severity", Message: "'critical' is not one of ['high', 'low']", SchemaPath: "properties/issues/items/properties/severity/enum"}},
		plan.StyleDocumented: {
			{Path: "$.summary", Message: "'summary' is a required property", SchemaPath: "required"},
			{Path: "$.issues[0].severity", Message: "'critical' is not one of ['high', 'low']", SchemaPath: "properties.issues.items.properties.severity.enum"}},
	} {
		out.Style = style
		c, err := checkLone(t.Context(), &out, `{"issues":[{"severity":"critical"}]}`)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, c.Errors); diff != "" {
			t.Errorf("style %q: -want +got:\n%s", style, diff)
		}
	}
}

// TestAnswersThatCannotBeCast checks that a value that the schema accepts but the output's type cannot hold is an error that the model can correct.
func TestAnswersThatCannotBeCast(t *testing.T) {
	out := plan.Output{Fit: true, Schema: json.RawMessage(`{"properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}`)}
	c, err := checkLone(t.Context(), &out, `{"a":12345678901234567890123,"b":"1"}`)
	if err != nil {
		t.Fatal(err)
	}
	if want := []contract.FieldError{{Path: "$.a", Message: "12345678901234567890123 is not a 64-bit integer"}}; !cmp.Equal(want, c.Errors) {
		t.Errorf("got %+v", c)
	}
	if c, err = checkLone(t.Context(), &out, `{"a":"7","b":1.0}`); err != nil || len(c.Errors) > 0 || string(c.Data) != `{"a":7,"b":1}` {
		t.Errorf("got %+v, %v", c, err)
	}
}
