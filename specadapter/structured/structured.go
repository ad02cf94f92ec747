// Package structured writes the part of a system prompt that asks a model for JSON.
//
// Dialects with structured answers share its exact texts, which are those of the
// Agent Orchestrator Framework. It only produces text: it neither calls a model
// nor reads an answer.
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

// Enrich appends the demand for JSON of a schema to a system prompt. The schema is JSON in
// the author's key order. Without one (empty, null or {}) the prompt is returned as it is.
func Enrich(prompt string, schema json.RawMessage) string {
	v, err := pytext.Parse(schema)
	if err != nil || v.Kind == pytext.Null || v.Kind == pytext.Object && len(v.Members) == 0 {
		return prompt
	}
	return prompt + head + v.Indented() + tail
}

// EnrichAny appends the demand for JSON of any shape.
func EnrichAny(prompt string) string { return prompt + anyJSON }

// Rules appends the author's own rules for the output, if there are any.
func Rules(prompt, rules string) string {
	if strings.TrimSpace(rules) == "" {
		return prompt
	}
	return prompt + rulesHead + rules
}
