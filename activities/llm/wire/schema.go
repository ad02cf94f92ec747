package wire

import (
	"encoding/json"
	"maps"
	"slices"
)

// schemaRoot holds the keywords of a schema that determine the type of its values.
type schemaRoot struct {
	Type       any
	Properties json.RawMessage
	AnyOf      json.RawMessage
}

func rootOf(schema json.RawMessage) (root schemaRoot) {
	_ = json.Unmarshal(schema, &root) // anything but an object has none of them
	return root
}

// wantsObject reports whether JSON mode, which only produces objects, suits the request.
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

// onlySupported reports whether a schema has only these keywords, is nested no deeper than depth, and has only closed
// objects, which require all their properties if allRequired is set.
func onlySupported(raw json.RawMessage, keywords map[string]bool, depth int, allRequired bool) bool {
	var schema any
	return json.Unmarshal(raw, &schema) == nil && supports(schema, keywords, depth, allRequired)
}

func supports(schema any, keywords map[string]bool, depth int, allRequired bool) bool {
	s, ok := schema.(map[string]any)
	if !ok || depth < 0 {
		return false
	}
	for key := range s {
		if !keywords[key] {
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
	return !slices.ContainsFunc(parts, func(part any) bool { return !supports(part, keywords, depth-1, allRequired) })
}
