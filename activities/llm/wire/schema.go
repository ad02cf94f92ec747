package wire

import (
	"encoding/json"
	"maps"
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
	return root.Type == "object" && root.AnyOf == nil && onlySupported(raw, strictKeywords, 5, true)
}

// onlySupported reports whether a schema has only these keywords, nests no deeper, and has only closed objects, which
// require all their properties if that is wanted.
func onlySupported(raw json.RawMessage, words map[string]bool, depth int, allRequired bool) bool {
	var schema any
	return json.Unmarshal(raw, &schema) == nil && supports(schema, words, depth, allRequired)
}

func supports(schema any, words map[string]bool, depth int, allRequired bool) bool {
	s, ok := schema.(map[string]any)
	if !ok || depth < 0 {
		return false
	}
	for key := range s {
		if !words[key] {
			return false
		}
	}
	properties, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	if s["type"] == "object" || s["properties"] != nil {
		if s["additionalProperties"] != false {
			return false
		}
		for name := range properties {
			if allRequired && !slices.Contains(required, any(name)) {
				return false
			}
		}
	}
	anyOf, _ := s["anyOf"].([]any)
	allOf, _ := s["allOf"].([]any)
	parts := slices.Concat(slices.Collect(maps.Values(properties)), anyOf, allOf)
	if items := s["items"]; items != nil {
		parts = append(parts, items)
	}
	return !slices.ContainsFunc(parts, func(part any) bool { return !supports(part, words, depth-1, allRequired) })
}
