package wire

import (
	"encoding/json"
	"testing"
)

func TestAcceptedByClaude(t *testing.T) {
	for schema, want := range map[string]bool{
		`{"type":"object","properties":{"a":{"type":"string","enum":["x"]}},"required":["a"],"additionalProperties":false}`: true,
		`{"type":"object","properties":{"a":{"type":"string"}}}`:                                                            false,
		`{"type":"object","properties":{"a":{"type":"integer","minimum":3}},"additionalProperties":false}`:                  false,
		`{"type":"object","properties":{"a":{"anyOf":[{"type":"object"}]}},"additionalProperties":false}`:                   false,
		`{"type":"array","items":{"$ref":"#/x"}}`:                                                                           false, `{"type":"array","items":{"type":"number"}}`: true, `true`: false, `oops`: false,
	} {
		if got := acceptedByClaude(json.RawMessage(schema)); got != want {
			t.Errorf("%s: %v", schema, got)
		}
	}
}
