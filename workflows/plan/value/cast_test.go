package value

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestCast(t *testing.T) {
	const pair = `{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":false}`
	tests := map[string]struct{ schema, in, want string }{
		"no type":                           {``, `{"a":1}`, `{"a":1}`},
		"any type":                          {`{}`, `[1]`, `[1]`},
		"number as string":                  {`{"type":"string"}`, `1.50`, `"1.5"`},
		"array as string":                   {`{"type":"string"}`, `[1,{"b":"ü <x>"}]`, `"[1, {\"b\": \"ü <x>\"}]"`},
		"null as string":                    {`{"type":"string"}`, `null`, `"null"`},
		"string as integer":                 {`{"type":"integer"}`, `" 42 "`, `42`},
		"fraction as integer":               {`{"type":"integer"}`, `-2.9`, `-2`},
		"true as integer":                   {`{"type":"integer"}`, `true`, `1`},
		"non-numeric string as integer":     {`{"type":"integer"}`, `"many"`, `error: "many" is a string, expected a number`},
		"integer out of range":              {`{"type":"integer"}`, `1e300`, `error: 1e+300 is not a 64-bit integer`},
		"integer as number":                 {`{"type":"number"}`, `3`, `3`},
		"string as number":                  {`{"type":"number"}`, `"0.5"`, `0.5`},
		"infinity as string":                {`{"type":"number"}`, `"Infinity"`, `error: "Infinity" is a string`},
		"string as boolean":                 {`{"type":"boolean"}`, `"False"`, `false`},
		"number as boolean":                 {`{"type":"boolean"}`, `0.0`, `false`},
		"invalid string as boolean":         {`{"type":"boolean"}`, `"no"`, `error: "no" is a string, expected a boolean`},
		"items":                             {`{"type":"array","items":{"type":"string"}}`, `[1,"a"]`, `["1","a"]`},
		"invalid item":                      {`{"type":"array","items":{"type":"integer"}}`, `[1,"a"]`, `error: item 2: "a"`},
		"string as array":                   {`{"type":"array","items":{}}`, `"a"`, `error: "a" is a string, expected an array`},
		"members, additional ones removed":  {pair, `{"a":"1","b":2}`, `{"a":1}`},
		"additional members":                {`{"type":"object","properties":{},"additionalProperties":{"type":"string"}}`, `{"b":2}`, `{"b":"2"}`},
		"invalid member":                    {pair, `{"a":"x"}`, `error: member "a": "x"`},
		"union, value matches":              {`{"anyOf":[{"type":"string"},{"type":"null"}]}`, `null`, `null`},
		"union, value is cast":              {`{"anyOf":[{"type":"integer"},{"type":"null"}]}`, `"7"`, `7`},
		"union, no type matches":            {`{"anyOf":[{"type":"integer"},{"type":"null"}]}`, `[]`, `error: [] has none of the allowed types`},
		"enum value":                        {`{"type":"integer","enum":[1,2]}`, `"2"`, `2`},
		"value not in the enum":             {`{"enum":["a"]}`, `"b"`, `error: "b" is not one of the allowed values`},
		"union with enum, value listed":     {`{"anyOf":[{"type":"string"},{"type":"null"}],"enum":["a",null]}`, `"a"`, `"a"`},
		"union with enum, value not listed": {`{"anyOf":[{"type":"string"},{"type":"null"}],"enum":["a",null]}`, `"b"`, `error: "b" is not one of the allowed values`},
		"unknown type":                      {`{"type":"thing"}`, `1`, `error: 1 is an integer, expected thing`},
		"invalid schema":                    {`[]`, `1`, `error: invalid type []`},
		"null as object":                    {`{"type":"object","properties":{},"additionalProperties":{}}`, `null`, `error: null is null, expected an object`},
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
