package inbox

import (
	"encoding/json"
	"strings"
	"testing"

	"weft/activities/contract"
)

// TestUselessArguments refuses arguments of a call that is not made.
func TestUselessArguments(t *testing.T) {
	for answer, want := range map[string]string{
		`{"id": "a", "approve": false, "arguments": {"to": "bob"}}`: `arguments {"to": "bob"} are those of a call that is allowed, but approve is false; leave out one of them`,
		`{"id": "a", "approve": false, "reason": "no"}`:             "",
		`{"id": "a", "approve": true, "arguments": {"to": "bob"}}`:  "",
	} {
		got := ""
		if _, err := readAnswer(contract.RequestConfirm, json.RawMessage(answer)); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%s gives %q, want %q", answer, got, want)
		}
	}
}

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
