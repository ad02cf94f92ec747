package argument

import (
	"encoding/json"
	"testing"
	"weft/activities/contract"
)

// TestDecodeStrict checks that anything but a JSON object is rejected, and that an empty object is accepted.
func TestDecodeStrict(t *testing.T) {
	for raw, want := range map[string]string{
		"": "missing argument", " \n": "missing argument",
		"null": "expected a JSON object, got null", " null": "expected a JSON object, got null", "[]": "expected a JSON object, got []",
		"7": "expected a JSON object, got 7", `"yes"`: `expected a JSON object, got "yes"`, "true": "expected a JSON object, got true",
		`{} {}`: "invalid character '{' after top-level value",
	} {
		err := DecodeStrict(json.RawMessage(raw), &contract.CloseSessionInput{})
		if err == nil || err.Error() != want {
			t.Errorf("DecodeStrict(%q) = %v, want %s", raw, err, want)
		}
	}
	if err := DecodeStrict(json.RawMessage(" {} "), &contract.CloseSessionInput{}); err != nil {
		t.Error(err)
	}
}
