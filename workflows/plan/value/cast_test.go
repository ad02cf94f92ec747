package value

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestCast(t *testing.T) {
	const pair = `{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":false}`
	tests := map[string]struct{ schema, in, want string }{
		"no type":                        {``, `{"a":1}`, `{"a":1}`},
		"any type":                       {`{}`, `[1]`, `[1]`},
		"a number as text":               {`{"type":"string"}`, `1.50`, `"1.5"`},
		"a list as text":                 {`{"type":"string"}`, `[1,{"b":"ü <x>"}]`, `"[1, {\"b\": \"ü <x>\"}]"`},
		"null as text":                   {`{"type":"string"}`, `null`, `"null"`},
		"a text as integer":              {`{"type":"integer"}`, `" 42 "`, `42`},
		"a fraction as integer":          {`{"type":"integer"}`, `-2.9`, `-2`},
		"true as integer":                {`{"type":"integer"}`, `true`, `1`},
		"no number as integer":           {`{"type":"integer"}`, `"many"`, `error: "many" is a string, expected a number`},
		"too large an integer":           {`{"type":"integer"}`, `1e300`, `error: 1e+300 is not a 64-bit integer`},
		"an integer as number":           {`{"type":"number"}`, `3`, `3`},
		"a text as number":               {`{"type":"number"}`, `"0.5"`, `0.5`},
		"no text is infinite":            {`{"type":"number"}`, `"Infinity"`, `error: "Infinity" is a string`},
		"a word as boolean":              {`{"type":"boolean"}`, `"False"`, `false`},
		"a number as boolean":            {`{"type":"boolean"}`, `0.0`, `false`},
		"no word as boolean":             {`{"type":"boolean"}`, `"no"`, `error: "no" is a string, expected a boolean`},
		"items":                          {`{"type":"array","items":{"type":"string"}}`, `[1,"a"]`, `["1","a"]`},
		"an item that cannot":            {`{"type":"array","items":{"type":"integer"}}`, `[1,"a"]`, `error: item 2: "a"`},
		"no list":                        {`{"type":"array","items":{}}`, `"a"`, `error: "a" is a string, expected an array`},
		"members, others left out":       {pair, `{"a":"1","b":2}`, `{"a":1}`},
		"members, others kept":           {`{"type":"object","properties":{},"additionalProperties":{"type":"string"}}`, `{"b":2}`, `{"b":"2"}`},
		"a member that cannot":           {pair, `{"a":"x"}`, `error: member "a": "x"`},
		"a union keeps what fits":        {`{"anyOf":[{"type":"string"},{"type":"null"}]}`, `null`, `null`},
		"a union casts what does not":    {`{"anyOf":[{"type":"integer"},{"type":"null"}]}`, `"7"`, `7`},
		"a union of nothing that fits":   {`{"anyOf":[{"type":"integer"},{"type":"null"}]}`, `[]`, `error: [] has none of the allowed types`},
		"a value that an enum lists":     {`{"type":"integer","enum":[1,2]}`, `"2"`, `2`},
		"a value that an enum does not":  {`{"enum":["a"]}`, `"b"`, `error: "b" is not one of the allowed values`},
		"a union that is listed":         {`{"anyOf":[{"type":"string"},{"type":"null"}],"enum":["a",null]}`, `"a"`, `"a"`},
		"a union that is not listed":     {`{"anyOf":[{"type":"string"},{"type":"null"}],"enum":["a",null]}`, `"b"`, `error: "b" is not one of the allowed values`},
		"a type that is none":            {`{"type":"thing"}`, `1`, `error: 1 is an integer, expected thing`},
		"a schema that is none":          {`[]`, `1`, `error: invalid type []`},
		"null where something is wanted": {`{"type":"object","properties":{},"additionalProperties":{}}`, `null`, `error: null is null, expected an object`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			in, err := Parse([]byte(tc.in))
			if err != nil {
				t.Fatal(err)
			}
			out, err := Cast(json.RawMessage(tc.schema), in)
			got := string(out.JSON())
			if err != nil {
				got = "error: " + err.Error()
			}
			if got != tc.want && (err == nil || !strings.HasPrefix(got, tc.want)) {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
