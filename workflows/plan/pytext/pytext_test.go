package pytext

import (
	"strings"
	"testing"
)

func TestTexts(t *testing.T) {
	tests := map[string]struct{ in, json, str, repr string }{
		"null":                       {`null`, `null`, `None`, `None`},
		"true":                       {`true`, `true`, `True`, `True`},
		"false":                      {`false`, `false`, `False`, `False`},
		"a whole number":             {`12345678901234567890`, `12345678901234567890`, `12345678901234567890`, `12345678901234567890`},
		"minus zero":                 {`-0`, `0`, `0`, `0`},
		"minus zero with a point":    {`-0.0`, `-0.0`, `-0.0`, `-0.0`},
		"a whole one with a point":   {`2.0`, `2.0`, `2.0`, `2.0`},
		"digits that mean nothing":   {`1.50`, `1.5`, `1.5`, `1.5`},
		"an exponent":                {`1E3`, `1000.0`, `1000.0`, `1000.0`},
		"the last without exponent":  {`1234567890123456.0`, `1234567890123456.0`, `1234567890123456.0`, `1234567890123456.0`},
		"the first with exponent":    {`1e16`, `1e+16`, `1e+16`, `1e+16`},
		"a large one":                {`1.25e222`, `1.25e+222`, `1.25e+222`, `1.25e+222`},
		"the least without exponent": {`0.0001`, `0.0001`, `0.0001`, `0.0001`},
		"the first small exponent":   {`0.00001`, `1e-05`, `1e-05`, `1e-05`},
		"beyond what Python counts":  {`-1e999`, `-Infinity`, `-inf`, `-inf`},
		"a text":                     {`"a'b"`, `"a'b"`, `a'b`, `"a'b"`},
		"both quotes":                {`"a'\"b"`, `"a'\"b"`, `a'"b`, `'a\'"b'`},
		"not ASCII":                  {`"Zü😀\u007f\n<&>"`, `"Z\u00fc\ud83d\ude00\u007f\n<&>"`, "Zü😀\x7f\n<&>", `'Zü😀\x7f\n<&>'`},
		"not printable":              {`"\u0001\u200b\udb40\udc01\\"`, `"\u0001\u200b\udb40\udc01\\"`, "\x01\u200b\U000e0001\\", `'\x01\u200b\U000e0001\\'`},
		"nothing in it":              {`[[],{}]`, `[[], {}]`, `[[], {}]`, `[[], {}]`},
		"order is kept":              {`{"b":1,"a":["x",null]}`, `{"b": 1, "a": ["x", null]}`, `{'b': 1, 'a': ['x', None]}`, `{'b': 1, 'a': ['x', None]}`},
		"a key twice":                {`{"b":1,"a":2,"b":3}`, `{"b": 3, "a": 2}`, `{'b': 3, 'a': 2}`, `{'b': 3, 'a': 2}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			v, err := Parse([]byte(tc.in))
			if err != nil {
				t.Fatal(err)
			}
			if got := v.JSON(); got != tc.json {
				t.Errorf("JSON is %s, want %s", got, tc.json)
			}
			if got := v.Str(); got != tc.str {
				t.Errorf("Str is %s, want %s", got, tc.str)
			}
			if got := v.Repr(); got != tc.repr {
				t.Errorf("Repr is %s, want %s", got, tc.repr)
			}
		})
	}
}

func TestIndented(t *testing.T) {
	v, err := Parse([]byte(`{"a":[1,{"b":[]}],"c":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := "{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    }\n  ],\n  \"c\": {}\n}"
	if got := v.Indented(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTruthy(t *testing.T) {
	for in, want := range map[string]bool{
		`null`: false, `false`: false, `0`: false, `0.0`: false, `-0`: false, `""`: false, `[]`: false, `{}`: false,
		`true`: true, `1`: true, `0.1`: true, `1e999`: true, `"0"`: true, `[0]`: true, `{"a":null}`: true,
	} {
		v, err := Parse([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		if v.Truthy() != want {
			t.Errorf("%s is %v", in, !want)
		}
	}
	if (*Value)(nil).Truthy() || (*Value)(nil).Get("a") != nil {
		t.Error("no value is something")
	}
}

func TestParseRefuses(t *testing.T) {
	for _, in := range []string{``, `{`, `{"a":}`, `[1`, `[1,]`, `1 2`, `nul`, strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1)} {
		if v, err := Parse([]byte(in)); err == nil {
			t.Errorf("Parse(%.20q) = %v", in, v)
		}
	}
	if _, err := Parse([]byte(strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth))); err != nil {
		t.Error(err)
	}
}

func TestReprUpTo(t *testing.T) {
	long := strings.Repeat("é", 600)
	tests := map[string]struct {
		value *Value
		want  string
	}{
		"short":                        {&Value{Kind: String, Text: "a"}, "'a'"},
		"as long as it may be":         {&Value{Kind: String, Text: "12345678"}, "'12345678'"},
		"a long text is cut at a rune": {&Value{Kind: String, Text: "x" + long}, "'xéééé…"},
		"a long list is cut":           {&Value{Kind: Array, Items: []*Value{{Text: "12345678", Kind: Number}, {}, {}}}, "[12345678,…"},
		"a long key is cut":            {&Value{Kind: Object, Members: []Member{{long, &Value{}}, {"b", &Value{}}}}, "{'éééé…"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.value.ReprUpTo(10); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
