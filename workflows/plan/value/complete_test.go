package value

import "testing"

func TestComplete(t *testing.T) {
	const schema = `{"properties":{"a":{"default":1},"b":{},"c":{"default":{"x":[1.5,null]}},"d":{"default":null}}}`
	tests := map[string]struct{ schema, object, want string }{
		"empty object":             {schema, `{}`, `{"a":1,"c":{"x":[1.5,null]},"d":null}`},
		"empty object with spaces": {schema, " { } ", `{ "a":1,"c":{"x":[1.5,null]},"d":null}`},
		"some members":             {schema, `{"b":12345678901234567890, "c":null}`, `{"b":12345678901234567890, "c":null,"a":1,"d":null}`},
		"all members":              {schema, `{"a":2,"c":3,"d":4}`, `{"a":2,"c":3,"d":4}`},
		"no default":               {`{"properties":{"a":{}}}`, `{}`, `{}`},
		"no properties":            {`{}`, `{"a":1}`, `{"a":1}`},
		"no schema":                {``, `{"a":1}`, `{"a":1}`},
		"not an object":            {schema, `[1]`, `[1]`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := string(Complete([]byte(tc.schema), []byte(tc.object))); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
