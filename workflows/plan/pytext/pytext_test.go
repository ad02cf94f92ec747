package pytext

import (
	"strings"
	"testing"
)

func TestTexts(t *testing.T) {
	tests := map[string]struct{ in, json, str, repr string }{
		"null":                            {`null`, `null`, `None`, `None`},
		"true":                            {`true`, `true`, `True`, `True`},
		"false":                           {`false`, `false`, `False`, `False`},
		"integer":                         {`12345678901234567890`, `12345678901234567890`, `12345678901234567890`, `12345678901234567890`},
		"negative zero integer":           {`-0`, `0`, `0`, `0`},
		"negative zero float":             {`-0.0`, `-0.0`, `-0.0`, `-0.0`},
		"whole float":                     {`2.0`, `2.0`, `2.0`, `2.0`},
		"trailing zero":                   {`1.50`, `1.5`, `1.5`, `1.5`},
		"exponent":                        {`1E3`, `1000.0`, `1000.0`, `1000.0`},
		"largest without exponent":        {`1234567890123456.0`, `1234567890123456.0`, `1234567890123456.0`, `1234567890123456.0`},
		"smallest with positive exponent": {`1e16`, `1e+16`, `1e+16`, `1e+16`},
		"large float":                     {`1.25e222`, `1.25e+222`, `1.25e+222`, `1.25e+222`},
		"smallest without exponent":       {`0.0001`, `0.0001`, `0.0001`, `0.0001`},
		"negative exponent":               {`0.00001`, `1e-05`, `1e-05`, `1e-05`},
		"infinity":                        {`-1e999`, `-Infinity`, `-inf`, `-inf`},
		"string":                          {`"a'b"`, `"a'b"`, `a'b`, `"a'b"`},
		"both quotes":                     {`"a'\"b"`, `"a'\"b"`, `a'"b`, `'a\'"b'`},
		"not ASCII":                       {`"Zü😀\u007f\n<&>"`, `"Z\u00fc\ud83d\ude00\u007f\n<&>"`, "Zü😀\x7f\n<&>", `'Zü😀\x7f\n<&>'`},
		"not printable":                   {`"\u0001\u200b\udb40\udc01\\"`, `"\u0001\u200b\udb40\udc01\\"`, "\x01\u200b\U000e0001\\", `'\x01\u200b\U000e0001\\'`},
		"empty array and object":          {`[[],{}]`, `[[], {}]`, `[[], {}]`, `[[], {}]`},
		"order of keys":                   {`{"b":1,"a":["x",null]}`, `{"b": 1, "a": ["x", null]}`, `{'b': 1, 'a': ['x', None]}`, `{'b': 1, 'a': ['x', None]}`},
		"duplicate key":                   {`{"b":1,"a":2,"b":3}`, `{"b": 3, "a": 2}`, `{'b': 3, 'a': 2}`, `{'b': 3, 'a': 2}`},
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
			t.Errorf("Truthy(%s) = %v", in, !want)
		}
	}
	if (*Value)(nil).Truthy() || (*Value)(nil).Get("a") != nil {
		t.Error("nil value is truthy or has a member")
	}
}

func TestParseInvalid(t *testing.T) {
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
		"short":          {&Value{Kind: String, Text: "a"}, "'a'"},
		"maximum length": {&Value{Kind: String, Text: "12345678"}, "'12345678'"},
		"long string":    {&Value{Kind: String, Text: "x" + long}, "'xéééé…"},
		"long array":     {&Value{Kind: Array, Items: []*Value{{Text: "12345678", Kind: Number}, {}, {}}}, "[12345678,…"},
		"long key":       {&Value{Kind: Object, Members: []Member{{long, &Value{}}, {"b", &Value{}}}}, "{'éééé…"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.value.ReprUpTo(10); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
