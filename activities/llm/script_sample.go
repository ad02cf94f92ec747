package llm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// sampleAction is the answer without a script, labelled as such.
func sampleAction(call *Call, t *conversation) *Action {
	if call.Kind == KindJudge {
		yes := true
		return &Action{Yes: &yes, Reason: "[script] without a script every condition holds"}
	}
	label := fmt.Sprintf("[script] %s answered turn %d", cmp.Or(call.Node, "a node"), t.turn)
	if t.user != "" {
		label += fmt.Sprintf("; the last message was: %s", firstRunes(t.user, 200))
	}
	if len(call.Schema) == 0 && !call.JSON {
		return &Action{Say: &label}
	}
	var schema any
	if json.Unmarshal(call.Schema, &schema) != nil {
		schema = nil
	}
	value := sample(schema, label, 0)
	if value == nil {
		value = map[string]any{"script": label}
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return &Action{Say: &label}
	}
	return &Action{JSON: raw}
}

// firstRunes is s, or its first n characters and three dots.
func firstRunes(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i] + "..."
		}
	}
	return s
}

// maxSample bounds how deep a sample goes: schemas can be recursive.
const maxSample = 8

// sample makes a value of the shape of a JSON Schema. It follows no references.
func sample(schema any, label string, depth int) any {
	s, ok := schema.(map[string]any)
	if !ok || depth > maxSample {
		return nil
	}
	if v, ok := s["const"]; ok {
		return v
	}
	for _, list := range []string{"enum", "examples"} {
		if l, ok := s[list].([]any); ok && len(l) > 0 {
			return l[0]
		}
	}
	for _, list := range []string{"anyOf", "oneOf", "allOf"} {
		if l, ok := s[list].([]any); ok && len(l) > 0 {
			return sample(l[0], label, depth+1)
		}
	}
	switch typeOf(s) {
	case "object":
		return sampleObject(s, label, depth)
	case "array":
		n := min(max(1, number(s["minItems"])), 10)
		return slices.Repeat([]any{sample(s["items"], label, depth+1)}, n)
	case "string":
		return label
	case "integer", "number":
		return number(s["minimum"])
	case "boolean":
		return true
	}
	return nil
}

// typeOf is a schema's type, the first one where it lists several.
func typeOf(s map[string]any) string {
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		if len(t) > 0 {
			first, _ := t[0].(string)
			return first
		}
	}
	if s["properties"] != nil {
		return "object"
	}
	return ""
}

func sampleObject(s map[string]any, label string, depth int) map[string]any {
	out := map[string]any{}
	properties, _ := s["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		out[name] = sample(properties[name], label, depth+1)
	}
	return out
}

func number(v any) int {
	n, _ := integer(v)
	return n
}
