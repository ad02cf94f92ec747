package value

import (
	"math"
	"strings"
	"testing"
)

// TestParse checks that the JSON of a value decodes to the same value and type.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		`42`: `42`, `42.0`: `42.0`, `-0.0`: `-0.0`, `1e2`: `100.0`, `3000000000`: `3000000000`, `99999999999999999999`: `99999999999999999999`,
		`0.1`: `0.1`, `1e-9`: `1e-09`, `1e400`: `{"$double":"Infinity"}`, `"a<b>&\u00e9"`: `"a<b>&é"`, `null`: `null`,
		`"\u000a\u000d\u0009\u0008\u000c\u0000\u001f\"\\\/\u007f"`: "\"\\n\\r\\t\\b\\f\\u0000\\u001f\\\"\\\\/\x7f\"",
		`[1, [true, {}]]`: `[1,[true,{}]]`, `{"b":1,"a":[]}`: `{"b":1,"a":[]}`, `{"$double":"NaN"}`: `{"$double":"NaN"}`, `{"$double":"x"}`: `{"$double":"x"}`,
	} {
		v, err := Parse([]byte(text))
		if err != nil || string(v.JSON()) != want {
			t.Errorf("%s: JSON is %s, %v, want %s", text, v.JSON(), err, want)
			continue
		}
		decoded, err := Parse(v.JSON())
		if err != nil || decoded.Kind != v.Kind || string(decoded.JSON()) != want {
			t.Errorf("%s: JSON is %s after decoding it, %v", text, decoded.JSON(), err)
		}
	}
	for _, text := range []string{``, `{`, `1 2`, `[1,]`, `nan`, strings.Repeat("[", 200) + strings.Repeat("]", 200)} {
		if v, err := Parse([]byte(text)); err == nil {
			t.Errorf("Parse(%q) = %s, want an error", text, v.JSON())
		}
	}
}

func TestHolds(t *testing.T) {
	long := Of(int64(math.MaxInt64))
	tests := map[string]struct {
		a, b         Value
		op           string
		value, typed bool
	}{
		"integer and double, equal":                {Of(42), Of(42.0), Equals, true, false},
		"integer and double, not equal":            {Of(42), Of(42.0), NotEquals, false, true},
		"64-bit integers":                          {long, Of(int64(math.MaxInt64 - 1)), More, true, false},
		"integers over 64 bits, greater":           {parsed("18446744073709551617"), parsed("18446744073709551616"), More, true, false},
		"integers over 64 bits, equal":             {parsed("18446744073709551617"), parsed("18446744073709551616"), Equals, false, true},
		"integer over 64 bits and 64-bit integer":  {parsed("18446744073709551616"), long, More, true, true},
		"integer over 64 bits and double":          {parsed("18446744073709551616"), Of(math.Pow(2, 64)), Equals, true, true},
		"double rounded from the integer, equal":   {Of(int64(1<<53 + 1)), Of(float64(1 << 53)), Equals, false, false},
		"double rounded from the integer, greater": {Of(int64(1<<53 + 1)), Of(float64(1 << 53)), More, true, false},
		"integer and infinity":                     {long, Of(math.Inf(1)), Less, true, true},
		"0.0 and -0.0":                             {Of(0.0), Of(math.Copysign(0, -1)), Equals, true, false},
		"NaN and NaN":                              {Of(math.NaN()), Of(math.NaN()), Equals, false, true},
		"string and number":                        {Of("42"), Of(42), Equals, false, false},
		"strings, case-insensitive":                {Of("äPFEL"), Of("ÄPFEL"), LessOrEqual, true, true},
		"strings of different lengths":             {Of("ab"), Of("A"), More, true, true},
		"lists":                                    {Of([]Value{Of(1)}), Of([]Value{Of(1.0)}), Equals, true, false},
		"and":                                      {Of(true), Of(true), And, true, true},
		"or with a string":                         {Of(true), Of("x"), Or, false, false},
		"not":                                      {Of(true), Of(false), Not, true, true},
		"unknown operation":                        {Of(true), Of(true), "xor", false, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Holds(ByValue, tc.op, tc.a, tc.b); got != tc.value {
				t.Errorf("ByValue: got %v", got)
			}
			if got := Holds(ByType, tc.op, tc.a, tc.b); got != tc.typed {
				t.Errorf("ByType: got %v", got)
			}
			exact := tc.value && (tc.op != Equals || sameTypes(tc.a, tc.b)) || tc.op == NotEquals && !sameTypes(tc.a, tc.b)
			if got := Holds(Exact, tc.op, tc.a, tc.b); got != exact {
				t.Errorf("Exact: got %v", got)
			}
		})
	}
}

func sameTypes(a, b Value) bool {
	return a.Kind == b.Kind && (a.Kind != Array || sameTypes(a.Items[0], b.Items[0]))
}

func TestSelected(t *testing.T) {
	nested := Critique(false, "outer", Critique(true, "inner", Of(42)))
	tests := map[string]struct {
		v          Value
		path, want string
		typed      string
	}{
		"success":            {nested, "success", "false", "false"},
		"feedback":           {nested, "feedback", `"outer"`, `"outer"`},
		"input":              {nested, "input", `{"success":true,"feedback":"inner","input":42}`, "!Not primitive types are not yet supported"},
		"nested input":       {nested, "input.input", "42", "!Not primitive types are not yet supported"},
		"data":               {Of(5), "data", "5", "!Not primitive types are not yet supported"},
		"empty path":         {Of(5), "", "5", "5"},
		"field of a number":  {Of(5), "success", "!the value 5 has no success", "!Unexpected value string: success"},
		"unknown field":      {nested, "input.data.x", "!the value", "!Not primitive types are not yet supported"},
		"field of an object": {Value{Kind: Object, Members: []Member{{"n", Of(1)}}}, "n", "1", "!Not primitive types are not yet supported"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var path []string
			if tc.path != "" {
				path = strings.Split(tc.path, ".")
			}
			for rules, want := range map[string]string{ByValue: tc.want, ByType: tc.typed} {
				v, err := Selected(rules, path, tc.v)
				got := string(v.JSON())
				if err != nil {
					got = "!" + err.Error()
				}
				if got != want && !(strings.HasPrefix(want, "!") && strings.HasPrefix(got, want)) {
					t.Errorf("%s: got %s, want %s", rules, got, want)
				}
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"type":"int","data":"1e5"}`))
	f.Add([]byte(`["1f",2,NaN]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := Parse(raw)
		if err != nil {
			return
		}
		decoded, err := Parse(v.JSON())
		if err != nil || string(decoded.JSON()) != string(v.JSON()) {
			t.Fatalf("%s decoded as %s, %v", v.JSON(), decoded.JSON(), err)
		}
		for _, way := range []string{Literal, Bare, Tagged} {
			if r, err := Reread(way, v); err == nil && r.Kind == Null {
				t.Fatalf("%s of %s is null", way, raw)
			}
			_, _ = Constant(way, v)
		}
		for _, rules := range []string{ByValue, ByType} {
			if _, err := Operand(rules, []string{"success"}, v); err == nil {
				Holds(rules, Equals, v, v)
			}
		}
	})
}

// parsed returns a value from its JSON.
func parsed(text string) Value {
	v, err := Parse([]byte(text))
	if err != nil {
		panic(err)
	}
	return v
}

// TestLongNumbers checks that integers of any length are exact, and that numbers out of the range of a double are rejected.
func TestLongNumbers(t *testing.T) {
	for _, text := range []string{"18446744073709551617", "-170141183460469231731687303715884105729", `[1,{"a":99999999999999999999}]`} {
		if v, err := Read(Literal, []byte(text)); err != nil || string(v.JSON()) != text {
			t.Errorf("Read(%s) = %s, %v", text, v.JSON(), err)
		}
	}
	for _, text := range []string{"1e400", "-1e400", "1" + strings.Repeat("0", 400), `{"a":[1e999]}`} {
		if v, err := Read(Literal, []byte(text)); err == nil || !strings.Contains(err.Error(), "out of the range of a double") {
			t.Errorf("Read(%s) = %s, %v", text, v.JSON(), err)
		}
	}
	if v, err := Read(Bare, []byte("18446744073709551617")); err != nil || string(v.JSON()) != "1.8446744073709552e+19" {
		t.Errorf("Bare: got %s, %v", v.JSON(), err)
	}
}

// TestFillIn checks that names match Python's \w, and spaces its \s.
func TestFillIn(t *testing.T) {
	in, err := Parse([]byte(`{"größe":7,"名前":"{{größe}}","n_1":true}`))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"{{größe}} {{\u3000名前\u00a0}} {{ n_1 }}":                 "7 {{größe}} true",
		"{{other}} {{ q.r }} {{a b}} {{}} {größe} {{gro\u0308}}": "{{other}} {{ q.r }} {{a b}} {{}} {größe} {{gro\u0308}}",
		"{{{größe}}} {{ {{größe}} }}":                            "{7} {{ 7 }}",
	} {
		if got := FillIn(text, in); got != want {
			t.Errorf("FillIn(%q) = %q, want %q", text, got, want)
		}
	}
}
