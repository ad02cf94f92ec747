package wire

import (
	"encoding/json"
	"strings"
)

// claudeModel says what a family of Anthropic's models does differently.
type claudeModel struct {
	prefix string
	// maxTokens is the bound of an answer where nobody sets one: the API requires it.
	maxTokens int
	// sampling: it takes temperature, top_p and top_k. Newer ones refuse them.
	sampling bool
	// adaptive: it takes an effort; budget: it takes a number of tokens for thoughts.
	adaptive, budget bool
	// schema: it takes a JSON Schema of its answer.
	schema bool
}

// claudeModels are the known families; the first matching prefix wins. The last row is for newer models.
var claudeModels = []claudeModel{
	{prefix: "claude-2", maxTokens: 4_096, sampling: true},
	{prefix: "claude-3-7", maxTokens: 32_000, sampling: true, budget: true},
	{prefix: "claude-3-5", maxTokens: 8_192, sampling: true},
	{prefix: "claude-3", maxTokens: 4_096, sampling: true},
	{prefix: "claude-opus-4-5", maxTokens: 32_000, sampling: true, budget: true, schema: true},
	{prefix: "claude-opus-4-6", maxTokens: 32_000, sampling: true, adaptive: true, schema: true},
	{prefix: "claude-opus-4-7", maxTokens: 32_000, adaptive: true, schema: true},
	{prefix: "claude-opus-4-8", maxTokens: 32_000, adaptive: true, schema: true},
	{prefix: "claude-opus-4", maxTokens: 32_000, sampling: true, budget: true},
	{prefix: "claude-sonnet-4-5", maxTokens: 32_000, sampling: true, budget: true, schema: true},
	{prefix: "claude-sonnet-4-6", maxTokens: 32_000, sampling: true, adaptive: true, schema: true},
	{prefix: "claude-sonnet-4", maxTokens: 32_000, sampling: true, budget: true},
	{prefix: "claude-haiku-4", maxTokens: 32_000, sampling: true, budget: true, schema: true},
	{prefix: "", maxTokens: 32_000, adaptive: true},
}

// claudeBudgets are efforts as tokens, for models that know no effort.
var claudeBudgets = map[string]int{"minimal": 1_024, "low": 2_048, "medium": 8_192, "high": 16_384, "xhigh": 24_576, "max": 30_000}

// claudeTraits finds a model's family. Gateways put words before the name.
func claudeTraits(model string) claudeModel {
	if i := strings.Index(model, "claude-"); i > 0 {
		model = model[i:]
	}
	for _, m := range claudeModels {
		if strings.HasPrefix(model, m.prefix) {
			return m
		}
	}
	return claudeModels[len(claudeModels)-1]
}

// acceptedByClaude reports whether the API enforces a schema; it refuses others.
func acceptedByClaude(raw json.RawMessage) bool {
	return onlySupported(raw, claudeKeywords, 16, false)
}

// claudeKeywords are the keywords that the API enforces or ignores.
var claudeKeywords = map[string]bool{
	"type": true, "properties": true, "required": true, "additionalProperties": true, "items": true, "enum": true, "const": true,
	"anyOf": true, "allOf": true, "title": true, "description": true, "$schema": true, "default": true,
}
