package workflows

import (
	"encoding/json"
	"testing"

	"weft/activities/contract"
)

// TestSameAnswers reads answers that say the same in other words, and some that do not: a
// program that sends one again may write its fields in another order.
func TestSameAnswers(t *testing.T) {
	const first = `{"id": "a", "approve": true, "arguments": {"to": "ann", "n": 12345678901234567890}, "by": "kim"}`
	for again, same := range map[string]bool{
		`{"by":"kim","arguments":{"n":12345678901234567890,"to":"\u0061nn"},"approve":true,"id":"a"}`: true,
		`{"by":"kim","arguments":{"n":12345678901234567891,"to":"ann"},"approve":true,"id":"a"}`:      false,
		`{"arguments":{"n":12345678901234567890,"to":"ann"},"approve":true,"id":"a"}`:                 false,
	} {
		one, err := readAnswer(contract.RequestConfirm, json.RawMessage(first))
		if err != nil {
			t.Fatal(err)
		}
		other, err := readAnswer(contract.RequestConfirm, json.RawMessage(again))
		if err != nil {
			t.Fatal(err)
		}
		if (one.hash == other.hash) != same {
			t.Errorf("%s is the same: %v, want %v", again, !same, same)
		}
	}
}
