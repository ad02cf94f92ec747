package workflows

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

// TestNoObject refuses what is no JSON object for every kind of answer, and to stop a session,
// for which an empty object is enough.
func TestNoObject(t *testing.T) {
	for raw, want := range map[string]string{
		"": "there is no argument", " \n": "there is no argument",
		"null": "want a JSON object, not null", " null": "want a JSON object, not null", "[]": "want a JSON object, not []",
		"7": "want a JSON object, not 7", `"yes"`: `want a JSON object, not "yes"`, "true": "want a JSON object, not true",
		`{} {}`: "there is text behind the object",
	} {
		err := strictly(json.RawMessage(raw), &contract.CloseSessionInput{})
		if err == nil || err.Error() != want {
			t.Errorf("%q gives %v, want %s", raw, err, want)
		}
		for _, kind := range contract.Requests {
			if _, err := readAnswer(kind, json.RawMessage(raw)); err == nil || contract.FailureOf(err).Class != contract.ClassBadRequest {
				t.Errorf("%s of %q gives %v", kind, raw, err)
			}
		}
	}
	if err := strictly(json.RawMessage(" {} "), &contract.CloseSessionInput{}); err != nil {
		t.Error(err)
	}
}

// TestNamesTwice refuses what says something twice, for every kind of answer, and in a prompt and a stop: whoever reads
// the first of the two would do another thing than who reads the last.
func TestNamesTwice(t *testing.T) {
	for raw, want := range map[string]string{
		`{"id": "a", "approve": false, "approve": true}`:                            `"approve" is there twice, again at byte 31: "approve": true}; leave out one of the two`,
		`{"id": "a", "approve": false, "APPROVE": true}`:                            `"APPROVE" is there twice, again at byte 31`,
		`{"id": "a", "\u0061pprove": false, "approve": true}`:                       `"approve" is there twice`,
		`{"id": "a", "approve": true, "arguments": {"to": "ann", "to": "bob"}}`:     `"arguments.to" is there twice, again at byte 57: "to": "bob"}}`,
		`{"id": "a", "approve": true, "arguments": {"to": [{"n": 1, "n": 2}]}}`:     `"arguments.to[0].n" is there twice`,
		`{"id": "a", "approve": true, "arguments": {"to": "ann", "To": {"to": 1}}}`: "",
	} {
		got := ""
		if _, err := readAnswer(contract.RequestConfirm, json.RawMessage(raw)); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%s gives %q, want %q", raw, got, want)
		}
	}
	for kind, raw := range map[string]string{
		contract.RequestMessage:    `{"text": "yes", "text": "no"}`,
		contract.RequestToolResult: `{"id": "a", "result": {"n": 1, "n": 2}}`,
		contract.RequestRetry:      `{"id": "a", "give_up": true, "give_up": false}`,
	} {
		_, err := readAnswer(kind, json.RawMessage(raw))
		if f := contract.FailureOf(err); f == nil || f.Class != contract.ClassBadRequest || !strings.Contains(f.Text, "is there twice, again at byte ") || !strings.HasPrefix(f.Remedy, "send ") {
			t.Errorf("%s gives %v", raw, err)
		}
	}
	s := &session{stays: true}
	if _, err := s.admit(json.RawMessage(`{"prompt": "on", "prompt": "off"}`)); err == nil || !strings.Contains(err.Error(), `"prompt" is there twice`) {
		t.Errorf("a prompt gives %v", err)
	}
	if err := s.admitStop(json.RawMessage(`{"reason": "a", "reason": "b"}`)); err == nil || !strings.Contains(err.Error(), `"reason" is there twice`) {
		t.Errorf("a stop gives %v", err)
	}
}
