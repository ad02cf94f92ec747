package argument

import (
	"encoding/json"
	"testing"
	"weft/activities/contract"
)

// TestNoObject refuses what is no JSON object and takes an empty object.
func TestNoObject(t *testing.T) {
	for raw, want := range map[string]string{
		"": "there is no argument", " \n": "there is no argument",
		"null": "want a JSON object, not null", " null": "want a JSON object, not null", "[]": "want a JSON object, not []",
		"7": "want a JSON object, not 7", `"yes"`: `want a JSON object, not "yes"`, "true": "want a JSON object, not true",
		`{} {}`: "invalid character '{' after top-level value",
	} {
		err := Strictly(json.RawMessage(raw), &contract.CloseSessionInput{})
		if err == nil || err.Error() != want {
			t.Errorf("%q gives %v, want %s", raw, err, want)
		}
	}
	if err := Strictly(json.RawMessage(" {} "), &contract.CloseSessionInput{}); err != nil {
		t.Error(err)
	}
}
