package llm

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"weft/activities/schema"
)

// nested returns a schema of objects nested to a depth.
func nested(depth int) string {
	return strings.Repeat(`{"type":"object","required":["p"],"properties":{"p":`, depth) + `{"type":"integer"}` + strings.Repeat(`}}`, depth)
}

// TestSample checks that samples conform to their schemas.
func TestSample(t *testing.T) {
	for name, rules := range map[string]string{
		"scalar":                  `{"type":"string","minLength":300,"maxLength":310}`,
		"nine objects":            nested(9),
		"64 objects":              nested(64),
		"lists in lists":          strings.Repeat(`{"type":"array","minItems":1,"items":`, 40) + `{"type":"boolean"}` + strings.Repeat(`}`, 40),
		"a tree":                  `{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","required":["v","sub"],"properties":{"v":{"type":"string"},"sub":{"type":"array","items":{"$ref":"#/$defs/n"}}}}}}`,
		"linked list":             `{"$ref":"#/$defs/l","$defs":{"l":{"type":"object","required":["next"],"properties":{"next":{"anyOf":[{"$ref":"#/$defs/l"},{"type":"null"}]}}}}}`,
		"optional recursion":      `{"type":"object","required":["a"],"properties":{"a":{"type":"integer"},"b":{"$ref":"#"}}}`,
		"mutual recursion":        `{"$ref":"#/$defs/a","$defs":{"a":{"type":"object","required":["b"],"properties":{"b":{"$ref":"#/$defs/b"}}},"b":{"type":"array","maxItems":3,"items":{"$ref":"#/$defs/a"}}}}`,
		"branches":                `{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{` + strings.Join(branching(12), ",") + `}}}}`,
		"alternatives":            `{"type":"object","required":["a"],"properties":{"a":{"type":"integer"},"b":{"type":"string"}},"oneOf":[{"required":["b"]}]}`,
		"parts":                   `{"allOf":[{"$ref":"#/$defs/a"},{"type":"object","required":["y"],"properties":{"y":{"type":"boolean"}}}],"$defs":{"a":{"type":"object","required":["x"],"properties":{"x":{"type":"integer"}}}}}`,
		"required, not described": `{"type":"object","required":["x","y"],"additionalProperties":{"type":"integer"}}`,
		"numbers":                 `{"type":"array","minItems":7,"items":[{"type":"integer","minimum":7,"multipleOf":5},{"type":"integer","exclusiveMinimum":2},{"type":"number","minimum":0.2,"exclusiveMaximum":0.8},{"type":"integer","maximum":-3},{"type":"integer","minimum":5000000000},{"type":"integer","minimum":-4},{"type":"integer","exclusiveMaximum":-2}]}`,
		"different elements":      `{"type":"array","minItems":3,"uniqueItems":true,"items":{"type":"object","properties":{"a":{"enum":["x","y","z"]},"b":{"type":"string"},"c":{"type":"integer","minimum":3}}}}`,
		"a pattern and a length":  `{"type":"string","pattern":"^[a-z]+-[0-9]{3}$","minLength":12}`,
		"many elements":           `{"type":"array","minItems":40,"items":{"type":"integer"}}`,
		"nullable type":           `{"type":["null","object"],"properties":{"a":{"const":3}},"required":["a"]}`,
		"many texts":              `{"type":"array","minItems":2000,"items":{"type":"string"}}`,
		"formats":                 `{"type":"object","properties":{"d":{"type":"string","format":"date"},"t":{"type":"string","format":"date-time"},"e":{"type":"string","format":"email"},"u":{"type":"string","format":"uri"},"id":{"type":"string","format":"uuid"},"h":{"type":"string","format":"time"}}}`,
		"any value":               `{}`,
	} {
		var parsed any
		if err := json.Unmarshal([]byte(rules), &parsed); err != nil {
			t.Fatal(name, err)
		}
		value, ok := sample(parsed, strings.Repeat("label ", 40))
		raw, err := json.Marshal(value)
		if !ok || err != nil {
			t.Errorf("%s: no sample: %v", name, err)
			continue
		}
		if again, _ := sample(parsed, strings.Repeat("label ", 40)); fmt.Sprint(again) != fmt.Sprint(value) {
			t.Errorf("%s: the second sample differs", name)
		}
		errs, err := schema.Check(t.Context(), json.RawMessage(rules), raw, schema.Options{Formats: true})
		if err != nil || len(errs) > 0 || len(raw) > 2*maxSample {
			t.Errorf("%s: sample of %d bytes, %.300s, does not match the schema: %v %v", name, len(raw), raw, errs, err)
		}
	}
}

// branching returns properties that refer to their enclosing schema.
func branching(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(`"p%d":{"$ref":"#/$defs/n"}`, i))
	}
	return out
}

// TestNoSample checks schemas without a valid value, or only with values that are too large.
func TestNoSample(t *testing.T) {
	for name, rules := range map[string]string{
		"self-reference":     `{"$ref":"#"}`,
		"required recursion": `{"type":"object","required":["a"],"properties":{"a":{"$ref":"#"}}}`,
		"no target":          `{"$ref":"#/$defs/none"}`,
		"external reference": `{"$ref":"https://example.com/s"}`,
		"a large text":       `{"type":"string","minLength":2000000000}`,
		"a large list":       `{"type":"array","minItems":2000000000}`,
		"nested large lists": strings.Repeat(`{"type":"array","minItems":1000,"items":`, 10) + `{}` + strings.Repeat(`}`, 10),
		"no value":           `{"type":"object","required":["a"],"properties":{"a":false}}`,
	} {
		var parsed any
		if err := json.Unmarshal([]byte(rules), &parsed); err != nil {
			t.Fatal(name, err)
		}
		if value, ok := sample(parsed, "label"); ok {
			t.Errorf("%s: %.100v", name, value)
		}
	}
}
