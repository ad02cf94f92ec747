// Package structured formats the part of a system prompt that requests JSON from a model.
//
// Dialects with structured output share these exact texts, which are those of the
// Agent Orchestrator Framework. The package only formats text: it neither calls a model
// nor parses an answer.
//
// Start at [Enrich].
package structured

import (
	"encoding/json"
	"strings"

	"weft/workflows/plan/pytext"
)

const (
	head = "\n\n## Required Output Format\n\nYou MUST provide structured output as JSON conforming to this schema:\n\n```json\n"
	tail = "\n```\n\nYour final response MUST be valid JSON that matches this schema exactly. Output ONLY the JSON, no additional text."

	anyJSON = "\n\n## Required Output Format\n\nYou MUST provide structured output as JSON.\n\n" +
		"Your final response MUST be valid JSON. Output ONLY the JSON, no additional text."
	rulesHead = "\n\n## Additional Rules\n\n"
)

// Enrich appends a request for JSON that conforms to a schema to a system prompt. The schema is JSON in
// the author's key order. Without a schema (empty, null or {}) the prompt is returned unchanged.
func Enrich(prompt string, schema json.RawMessage) string {
	v, err := pytext.Parse(schema)
	if err != nil || v.Kind == pytext.Null || v.Kind == pytext.Object && len(v.Members) == 0 {
		return prompt
	}
	return prompt + head + v.Indented() + tail
}

// EnrichAny appends a request for JSON without a schema.
func EnrichAny(prompt string) string { return prompt + anyJSON }

// Rules appends the author's output rules, if any.
func Rules(prompt, rules string) string {
	if strings.TrimSpace(rules) == "" {
		return prompt
	}
	return prompt + rulesHead + rules
}
