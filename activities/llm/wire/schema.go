package wire

import (
	"encoding/json"
	"slices"
)

// Servers support different parts of JSON Schema. The prompt contains the schema too, and the caller checks
// the answer.

// schemaRoot is what of a schema says which values it means.
type schemaRoot struct {
	Type       any
	Properties json.RawMessage
	AnyOf      json.RawMessage
}

func rootOf(schema json.RawMessage) (root schemaRoot) {
	_ = json.Unmarshal(schema, &root) // what is no object has neither
	return root
}

// wantsObject reports whether a JSON mode, which writes objects alone, may be asked for.
func (q *Request) wantsObject() bool {
	root := rootOf(q.Schema)
	return len(q.Schema) == 0 && q.JSON || root.Type == "object" || root.Type == nil && root.Properties != nil
}

// strictKeywords are the keywords that OpenAI's strict mode enforces.
var strictKeywords = map[string]bool{
	"type": true, "properties": true, "required": true, "additionalProperties": true, "items": true, "enum": true, "const": true,
	"anyOf": true, "title": true, "description": true, "$schema": true, "minimum": true, "maximum": true, "minItems": true, "maxItems": true,
}

// acceptedByStrict reports whether OpenAI's strict mode accepts a schema: its root is an object, and all its
// objects are closed and require all their properties.
func acceptedByStrict(raw json.RawMessage) bool {
	root := rootOf(raw)
	var schema any
	return root.Type == "object" && root.AnyOf == nil && json.Unmarshal(raw, &schema) == nil &&
		onlySupported(schema, strictKeywords, 5, requiresAll)
}

// requiresAll reports whether an object's schema requires all its properties.
func requiresAll(s map[string]any) bool {
	properties, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	for name := range properties {
		if !slices.Contains(required, any(name)) {
			return false
		}
	}
	return true
}

// onlySupported reports whether a schema has only these keywords, nests no deeper, and has only closed objects
// that are as wanted.
func onlySupported(schema any, words map[string]bool, depth int, wanted func(object map[string]any) bool) bool {
	s, ok := schema.(map[string]any)
	if !ok || depth < 0 {
		return false
	}
	for key := range s {
		if !words[key] {
			return false
		}
	}
	if s["type"] == "object" || s["properties"] != nil {
		if closed, isBool := s["additionalProperties"].(bool); !isBool || closed || !wanted(s) {
			return false
		}
	}
	for _, part := range subschemas(s) {
		if !onlySupported(part, words, depth-1, wanted) {
			return false
		}
	}
	return true
}

// subschemas are the schemas in a schema.
func subschemas(s map[string]any) []any {
	var out []any
	properties, _ := s["properties"].(map[string]any)
	for _, p := range properties {
		out = append(out, p)
	}
	for _, word := range []string{"anyOf", "allOf"} {
		list, _ := s[word].([]any)
		out = append(out, list...)
	}
	if items := s["items"]; items != nil {
		out = append(out, items)
	}
	return out
}
