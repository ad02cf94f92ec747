package source

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestParseErrors(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1)
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'h'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 10), ","))
	}
	tests := map[string]struct{ name, text, want string }{
		"empty":                          {"f.json", " \n", `f.json:1:1: error: the document is empty [empty-document]`},
		"only a comment":                 {"f.yaml", "# x\n", `f.yaml:1:1: error: the document is empty [empty-document]`},
		"invalid UTF-8":                  {"f.json", "{\"a\":\n \"\xff\"}", `f.json:2:3: error: byte 0xff is not valid UTF-8 [invalid-utf8]`},
		"UTF-16":                         {"f.yaml", "\xff\xfea\x00", `f.yaml:1:1: error: byte 0xff is not valid UTF-8 [invalid-utf8]`},
		"truncated":                      {"f.json", "{\"a\": [1,\n2", `f.json:2:2: error: unexpected end of text [syntax]`},
		"text after the document":        {"f.json", "{}\n{}", `f.json:2:1: error: not JSON: invalid character '{' after top-level value [syntax]`},
		"single quotes":                  {"f.json", "{'a': 1}", `f.json:1:2: error: not JSON: invalid character '\'' looking for beginning of object key string [syntax]`},
		"a comment in JSON":              {"f.json", "{ // x\n}", `f.json:1:3: error: not JSON: invalid character '/' looking for beginning of object key string [syntax]`},
		"NaN":                            {"f.json", `{"a": NaN}`, `f.json:1:7: error: not JSON: invalid character 'N' looking for beginning of value [syntax]`},
		"a missing comma":                {"f.json", "{\"a\": 1\n \"b\": 2}", `f.json:2:2: error: not JSON: invalid character '"' after object key:value pair [syntax]`},
		"line break in a string":         {"f.json", "{\"a\": \"x\ny\"}", `f.json:1:9: error: not JSON: invalid character '\n' in string literal [syntax]`},
		"duplicate key, after a BOM":     {"f.json", "\ufeff{\"ä\": 1, \"ä\": 2}", `f.json:1:11: error: duplicate key "ä", first used at line 1 [duplicate-key]`},
		"duplicate key by escape":        {"f.json", "{\"a\": 1,\r\n \"\\u0061\": 2}", `f.json:2:2: error: duplicate key "a", first used at line 1 [duplicate-key]`},
		"duplicate key in YAML":          {"f.yml", "a: 1\nb: 2\na: 3\n", `f.yml:3:1: error: duplicate key "a", first used at line 1 [duplicate-key]`},
		"half a surrogate pair":          {"f.json", `["x", "\ud83d\u0041"]`, `f.json:1:8: error: the escape \ud83d is half of a surrogate pair [invalid-utf8]`},
		"deep JSON":                      {"f.json", deep, `f.json:1:201: error: arrays and objects are nested deeper than 200 [too-large]`},
		"deep, unclosed JSON":            {"f.json", strings.Repeat("[", 20_000), `f.json:1:10001: error: arrays and objects are nested deeper than 200 [too-large]`},
		"deep YAML":                      {"f.yaml", deep, `f.yaml:1:201: error: arrays and objects are nested deeper than 200 [too-large]`},
		"very deep YAML":                 {"f.yaml", "a: " + strings.Repeat("[", 20_000), `f.yaml:1:1: error: arrays and objects are nested deeper than 200 [too-large]`},
		"an alias bomb":                  {"f.yaml", bomb, `f.yaml:7:8: error: the document has more than 2000000 values or, with aliases expanded, 33554432 bytes of text [too-large]`},
		"an alias to itself":             {"f.yaml", "a: &a [*a]\n", `f.yaml:1:8: error: the alias *a contains itself or refers to an invalid value [unsupported-yaml]`},
		"an unknown alias":               {"f.yaml", "a: 1\nb: *x\n", `f.yaml:1:1: error: not YAML: unknown anchor 'x' referenced [syntax]`},
		"two documents":                  {"f.yaml", "a: 1\n---\nb: 2\n", `f.yaml:2:1: error: more than one document [unsupported-yaml]`},
		"tabs that indent YAML":          {"f.yaml", "a:\n\tb: 1\n", `f.yaml:2:1: error: not YAML: found character that cannot start any token [syntax]`},
		"detected JSON with an error":    {"flow", "[1,]", `flow:1:4: error: not JSON: invalid character ']' looking for beginning of value [syntax]`},
		"an infinite number in YAML":     {"f.yaml", "a: -.inf\n", `f.yaml:1:4: error: JSON has no number "-.inf" [unsupported-yaml]`},
		"a local tag":                    {"f.yaml", "a: !x {b: 1}\n", `f.yaml:1:4: error: unsupported tag "!x" [unsupported-yaml]`},
		"columns count bytes in YAML":    {"f.yaml", "a: {ü: !x 1}\n", `f.yaml:1:9: error: unsupported tag "!x" [unsupported-yaml]`},
		"lone carriage returns":          {"f.yaml", "a: 1\rb: !x 1\r", `f.yaml:1:9: error: unsupported tag "!x" [unsupported-yaml]`},
		"over the limit of YAML only":    {"f.yaml", strings.Repeat(" ", 5<<20) + "x", `f.yaml: error: the document has 5242881 bytes; the limit for YAML is 4194304 [too-large]`},
		"over the limit":                 {"f.json", strings.Repeat(" ", MaxBytes+1), `f.json: error: the document exceeds the limit of 16777216 bytes [too-large]`},
		"JSON5: infinity":                {"f.json5", "{a: 1,\n b: -Infinity}", `f.json5:2:5: error: not JSON5: JSON has no number "-Infinity" [syntax]`},
		"JSON5: not a number":            {"f.json5", "[NaN]", `f.json5:1:2: error: not JSON5: JSON has no number "NaN" [syntax]`},
		"JSON5: an open comment":         {"f.json5", "{} /* x", `f.json5:1:4: error: not JSON5: unterminated comment [syntax]`},
		"JSON5: an open string":          {"f.json5", "{a: 'x", `f.json5:1:5: error: not JSON5: unterminated string [syntax]`},
		"JSON5: line break in a string":  {"f.json5", "['x\ny']", `f.json5:1:4: error: not JSON5: line break in a string [syntax]`},
		"JSON5: a missing comma":         {"f.json5", "{a: 1\n b: 2}", `f.json5:2:2: error: not JSON5: unexpected 'b', expected a comma or '}' [syntax]`},
		"JSON5: two commas":              {"f.json5", "[1,,2]", `f.json5:1:4: error: not JSON5: unexpected ',', expected a value [syntax]`},
		"JSON5: truncated":               {"f.json5", "{a: [1,\n", `f.json5:2:1: error: not JSON5: unexpected end of text [syntax]`},
		"JSON5: a key without quotes":    {"f.json5", "{a-b: 1}", `f.json5:1:3: error: not JSON5: unexpected '-' after the key "a" [syntax]`},
		"JSON5: text behind the value":   {"f.json5", "{}\n{}", `f.json5:2:1: error: not JSON5: unexpected '{' after the value [syntax]`},
		"JSON5: a word":                  {"f.json5", "[yes]", `f.json5:1:2: error: not JSON5: unexpected "yes", expected a value [syntax]`},
		"JSON5: an octal number":         {"f.json5", "[017]", `f.json5:1:2: error: not JSON5: unexpected "017", expected a value [syntax]`},
		"JSON5: half a surrogate pair":   {"f.json5", `['\ud83d']`, `f.json5:1:3: error: the escape \ud83d is half of a surrogate pair [invalid-utf8]`},
		"JSON5: a bad escape":            {"f.json5", `['\xg1']`, `f.json5:1:3: error: not JSON5: invalid escape \x [syntax]`},
		"JSON5: duplicate key":           {"f.json5", "{a: 1, 'a': 2}", `f.json5:1:8: error: duplicate key "a", first used at line 1 [duplicate-key]`},
		"JSON5: deep":                    {"f.json5", deep, `f.json5:1:201: error: arrays and objects are nested deeper than 200 [too-large]`},
		"control characters in the name": {"a\x1b[2J\n.json", "", "a [2J .json:1:1: error: the document is empty [empty-document]"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			doc, diags := Parse(tc.name, []byte(tc.text))
			if doc != nil || len(diags) == 0 {
				t.Fatalf("Parse() = %v, %v, want nothing and a diagnostic", doc, diags)
			}
			if got, _, _ := strings.Cut(diags[0].String(), "\n"); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// TestPositions checks the position of every key and value in each format.
func TestPositions(t *testing.T) {
	tests := map[string]struct{ name, text, want string }{
		"JSON with tabs, CRLF and a BOM": {"f.json", "\ufeff{\r\n\t\"ü\":\t[ 1 ,\r\n\t\ttrue],\r\n\t\"b\" : {\"c\":null}}",
			`1:1 {} | 2:2 "ü" | 2:8 [] | 2:10 1 | 3:3 true | 4:2 "b" | 4:8 {} | 4:9 "c" | 4:13 null`},
		"JSON5": {"f.json5", "// c\n{ü: [+1, 'x',], /* y\n*/ 'b': {\n$c: null,},}",
			`2:1 {} | 2:2 "ü" | 2:6 [] | 2:7 1 | 2:11 "x" | 3:4 "b" | 3:9 {} | 4:1 "$c" | 4:5 null`},
		"YAML block": {"f.yaml", "\ufeffü: \n  - 1\n  - 'x'\nb:\n  c: ~\n",
			`1:1 {} | 1:1 "ü" | 2:3 [] | 2:5 1 | 3:5 "x" | 4:1 "b" | 5:3 {} | 5:3 "c" | 5:6 null`},
		"YAML flow": {"f.yml", "{ü: [ü, 2],\r\n b: 0x10}", `1:1 {} | 1:2 "ü" | 1:6 [] | 1:7 "ü" | 1:11 2 | 2:2 "b" | 2:5 16`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			doc, diags := Parse(tc.name, []byte(tc.text))
			if doc == nil {
				t.Fatal(diags)
			}
			if got := strings.Join(walk(doc.Root, nil), " | "); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func walk(v *Value, out []string) []string {
	text := v.Describe()
	switch v.Kind {
	case Array:
		text = "[]"
	case Object:
		text = "{}"
	}
	out = append(out, fmt.Sprintf("%d:%d %s", v.Pos.Line, v.Pos.Col, text))
	for _, item := range v.Items {
		out = walk(item, out)
	}
	for _, m := range v.Members {
		out = walk(m.Value, append(out, fmt.Sprintf("%d:%d %s", m.KeyPos.Line, m.KeyPos.Col, Quote(m.Key))))
	}
	return out
}

// TestJSON checks that equal values in JSON and YAML have one encoding, and that numbers keep their digits.
func TestJSON(t *testing.T) {
	tests := map[string]struct{ json, yaml, want string }{
		"order":                    {`{"b": 1, "a": [true, null, "x"]}`, "b: 1\na: [true, null, x]", `{"b":1,"a":[true,null,"x"]}`},
		"numbers":                  {`[1.50, 1E2, -0, 123456789012345678901234567890]`, "[1.50, 1E2, -0, 123456789012345678901234567890]", `[1.50,1E2,-0,123456789012345678901234567890]`},
		"string escapes":           {`["\u00e9<\/\ud83d\ude00\u0000\n"]`, "[\"é</\U0001F600\\0\\n\"]", `["é</` + "\U0001F600" + `\u0000\n"]`},
		"strings like other types": {`["yes", "2024-01-01", "~"]`, "[yes, 2024-01-01, '~']", `["yes","2024-01-01","~"]`},
		"non-string keys":          {`{"1": 1, "true": 2}`, "1: 1\ntrue: 2", `{"1":1,"true":2}`},
		"anchors":                  {`{"a": [1], "b": [1], "c": "k", "k": 2}`, "a: &a [1]\nb: *a\nc: &k k\n*k : 2", `{"a":[1],"b":[1],"c":"k","k":2}`},
		"other number forms":       {`[31, 8, 1000, 0.5, 1]`, "[0x1F, 0o10, 1_000, .5, +1]", `[31,8,1000,0.5,1]`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for file, text := range map[string]string{"f.json": tc.json, "f.yaml": tc.yaml} {
				doc, diags := Parse(file, []byte(text))
				if doc == nil {
					t.Fatal(diags)
				}
				if got := string(doc.Root.JSON()); got != tc.want {
					t.Errorf("%s: got %s, want %s", file, got, tc.want)
				}
			}
		})
	}
}

func TestInt(t *testing.T) {
	tests := map[string]int{"1": 1, "10.0": 10, "1e1": 10, "100e-1": 10, "2147483647": 2147483647, "0": 0, "-1": 0, "2.5": 0,
		"2147483648": 0, "1e999999999": 0, "10.000000000000000000000001": 0, "1e-999999999": 0}
	for text, want := range tests {
		got, ok := (&Value{Kind: Number, Text: text}).Int()
		if got != want || ok != (want > 0) {
			t.Errorf("Int(%s) = %d, %v, want %d", text, got, ok, want)
		}
	}
}

func TestSchemaBounds(t *testing.T) {
	refs := strings.TrimSuffix(strings.Repeat(`{"$ref":"#"},`, MaxSchemaRefs+1), ",")
	tests := map[string]struct{ schema, want string }{
		"fine":                      {`{"type": "object", "properties": {"$ref": {"type": "string"}, "a": {"$ref": "#/definitions/x"}}, "definitions": {"x": {"enum": [1]}}}`, ""},
		"recursive":                 {`{"properties": {"next": {"$ref": "#"}}}`, ""},
		"its own id":                {`{"$id": "http://x.example/s", "properties": {"a": {"$ref": "#/definitions/b"}}, "definitions": {"b": {}}}`, ""},
		"draft 2020-12 on demand":   {`{"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": {"b": {}}, "$ref": "#/$defs/b"}`, ""},
		"too deep":                  {strings.Repeat(`{"not":`, 80) + "{}" + strings.Repeat("}", 80), "1:456 the schema is nested deeper than 64"},
		"64 objects deep":           {strings.Repeat(`{"properties":{"p":`, 63) + "{}" + strings.Repeat("}}", 63), ""},
		"65 objects deep":           {strings.Repeat(`{"properties":{"p":`, 65) + "{}" + strings.Repeat("}}", 65), "1:1236 the schema is nested deeper than 64"},
		"too many references":       {`{"anyOf": [` + refs + `]}`, "1:1 the schema has 257 references, over the limit of 256"},
		"http reference":            {`{"$ref": "http://x.example/s.json"}`, `1:10 the reference "http://x.example/s.json" points outside the document`},
		"file reference":            {`{"items": {"$ref": "file:///etc/passwd"}}`, `1:20 the reference "file:///etc/passwd" points outside the document`},
		"relative reference":        {`{"$id": "http://x.example/", "items": {"$ref": "other.json"}}`, `1:48 the reference "http://x.example/other.json" points outside the document`},
		"unknown draft":             {`{"$schema": "http://x.example/meta"}`, `1:13 the reference "http://x.example/meta" points outside the document`},
		"in-place loop":             {`{"allOf": [{"$ref": "#"}]}`, "1:21 infinite loop"},
		"huge number":               {`{"maximum": 1e400}`, "1:13 the number 1e400 is out of range"},
		"a type in items":           {`{"items": {"type": "strin"}}`, `1:20 "items.type": value must be one of "array", "boolean", "integer", "null", "number", "object", "string"`},
		"a type in a list of items": {`{"items": [{}, {"type": "strin"}]}`, `1:25 "items.1.type": value must be one of "array", "boolean", "integer", "null", "number", "object", "string"`},
		"a type deep in items":      {`{"items": {"items": {"properties": {"k": {"required": 1}}}}}`, `1:55 "items.items.properties.k.required": expected array, but got number`},
		"invalid items":             {`{"items": 5}`, `1:11 "items": expected object or boolean, but got number`},
		"a type in types":           {`{"type": ["object", "strin"]}`, `1:21 "type.1": value must be one of "array", "boolean", "integer", "null", "number", "object", "string"`},
		"a type that is a number":   {`{"type": 5}`, `1:10 "type": value must be one of "array", "boolean", "integer", "null", "number", "object", "string"`},
		"no types":                  {`{"type": []}`, `1:10 "type": minimum 1 items required, but found 0 items`},
		"a dependency":              {`{"dependencies": {"a": ["b", 1], "c": {"type": "x"}}}`, `1:30 "dependencies.a.1": expected string, but got number; 1:48 "dependencies.c.type": value must be one of "array", "boolean", "integer", "null", "number", "object", "string"`},
		"items of 2020-12":          {`{"$schema": "https://json-schema.org/draft/2020-12/schema", "items": {"type": "strin"}}`, `1:79 "items.type": value must be one of "array", "boolean", "integer", "null", "number", "object", "string"`},
		"keyword of the wrong type": {`{"required": "a"}`, `1:14 "required": expected array, but got string`},
		"too large":                 {`{"title": "` + strings.Repeat("x", MaxSchemaBytes) + `"}`, "1:1 the schema has 262156 bytes, over the limit of 262144"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			doc, diags := Parse("s.json", []byte(tc.schema))
			if doc == nil {
				t.Fatal(diags)
			}
			var all []string
			for _, p := range CheckSchema(doc.Root) {
				all = append(all, fmt.Sprintf("%d:%d %s", p.Pos.Line, p.Pos.Col, p.Text))
			}
			got := strings.Join(all, "; ")
			if tc.want == "" && got != "" || !strings.HasPrefix(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestSchemaLadder checks that a ladder of references, which takes exponential time to evaluate, compiles fast.
func TestSchemaLadder(t *testing.T) {
	var steps []string
	for i := range 100 {
		ref := fmt.Sprintf(`{"$ref": "#/definitions/s%d"}`, i+1)
		steps = append(steps, fmt.Sprintf(`"s%d": {"allOf": [%s, %s]}`, i, ref, ref))
	}
	doc, _ := Parse("s.json", []byte(`{"$ref": "#/definitions/s0", "definitions": {"s100": {}, `+strings.Join(steps, ", ")+`}}`))
	start := time.Now()
	if p := CheckSchema(doc.Root); len(p) > 0 || time.Since(start) > 3*time.Minute {
		t.Errorf("%v after %v", p, time.Since(start))
	}
}

// TestSchemaReadsNoFile checks that a reference to a file is rejected, even if the file is a valid schema.
func TestSchemaReadsNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.json")
	if err := os.WriteFile(path, []byte(`{"type": "string"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"file://" + path, path, "../../../../../../../.." + path} {
		doc, _ := Parse("s.json", fmt.Appendf(nil, `{"$ref": %q}`, ref))
		if len(CheckSchema(doc.Root)) == 0 {
			t.Errorf("%s was followed", ref)
		}
	}
}

// TestLimitDiagnostics checks that a truncated list still contains an error if one was omitted.
func TestLimitDiagnostics(t *testing.T) {
	diags := make([]Diagnostic, MaxDiagnostics+5)
	for i := range diags {
		diags[i] = Diagnostic{Line: i + 1, Severity: Warning}
	}
	if got := LimitDiagnostics(diags[:MaxDiagnostics]); len(got) != MaxDiagnostics || got[MaxDiagnostics-1].Code == CodeMore {
		t.Error("a list that fits was cut")
	}
	diags[MaxDiagnostics+2].Severity = Error
	got := LimitDiagnostics(diags)
	last := got[len(got)-1]
	if len(got) != MaxDiagnostics || !HasErrors(got) || last.Text != "6 more diagnostics were omitted from here on" || last.Line != MaxDiagnostics {
		t.Errorf("%d diagnostics, the last is %v", len(got), last)
	}
}

func TestNearest(t *testing.T) {
	s := NewSuggester([]string{"START", "END", "validateInput", "report"})
	tests := map[string]string{"start": "START", "validate_input": "validateInput", "validteInput": "validateInput", "raport": "report", "x": "", "": "", "other": ""}
	for wrong, want := range tests {
		if got := s.Nearest(wrong); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", wrong, got, want)
		}
	}
}

// TestLongYAML checks that a long line or many aliases cost no more per byte than short lines.
func TestLongYAML(t *testing.T) {
	tests := map[string]string{
		"one line":  "[" + strings.Repeat("é,", 60_000) + "]",
		"aliases":   "[&a x" + strings.Repeat(",*a", 60_000) + "]",
		"anchors":   "[" + strings.Repeat("&a a,", 60_000) + "]",
		"key lines": strings.Repeat("? a\n", 60_000),
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			Parse("f.yaml", []byte(text))
			if took := time.Since(start); took > 3*time.Minute {
				t.Errorf("took %v", took)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{"a": [1, 2.5e3, "x\ud83d\ude00", null, true]}`, "a: &a [1]\nb: *a\n", "\ufeff{}", "- - x\n- {a: !!str 1}", "a: 1\n---\nb", "'\\ud800'", "{\"a\":1,\"a\":2}", "? [a]\n: b", "a: |\n  x\r\n  y\u2028z"} {
		f.Add("f.json", []byte(seed))
		f.Add("f.yaml", []byte(seed))
		f.Add("f", []byte(seed))
	}
	f.Add("f.json5", []byte("// x\n{a: +.5, 'b\\x41\\\n': [0xfF, 5., -0x0, \"\\u{\"], $_: null, /**/}"))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		doc, diags := Parse(name, data)
		if (doc == nil) != HasErrors(diags) {
			t.Fatalf("document %v with diagnostics %v", doc, diags)
		}
		if doc == nil {
			for _, d := range diags {
				if d.Text == "" || strings.Contains(strings.Replace(d.String(), "\n\t", "", 1), "\n") {
					t.Fatalf("diagnostic %q is not one line and a help", d.String())
				}
			}
			return
		}
		again, diags := Parse("again.json", doc.Root.JSON())
		if again == nil {
			t.Fatalf("%s does not parse: %v", doc.Root.JSON(), diags)
		}
		if string(again.Root.JSON()) != string(doc.Root.JSON()) {
			t.Fatalf("%s became %s", doc.Root.JSON(), again.Root.JSON())
		}
		if !json.Valid(doc.Root.JSON()) {
			t.Fatalf("%s is not valid JSON", doc.Root.JSON())
		}
	})
}

// TestPosInAnyOrder queries positions forwards, backwards and far apart.
func TestPosInAnyOrder(t *testing.T) {
	data := []byte("{\n\n\"a\":\n 1,\n\"b\": 2}\n")
	want := make([]Pos, len(data))
	for i := range data {
		before := data[:i]
		want[i] = Pos{Line: bytes.Count(before, []byte("\n")) + 1, Col: i - bytes.LastIndexByte(before, '\n')}
	}
	p := &parser{lines: lineStarts(data)}
	for i := range data {
		for k := range data {
			if got := p.pos(i); got != want[i] {
				t.Fatalf("offset %d is at %v, want %v", i, got, want[i])
			}
			if got := p.pos(k); got != want[k] {
				t.Fatalf("offset %d after %d is at %v, want %v", k, i, got, want[k])
			}
		}
	}
}
