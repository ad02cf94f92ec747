package inbox

import (
	"encoding/json"
	"strings"
	"testing"

	"weft/activities/contract"
)

// TestArgumentsWithoutApproval checks that an answer that rejects a call cannot set arguments.
func TestArgumentsWithoutApproval(t *testing.T) {
	for answer, want := range map[string]string{
		`{"id": "a", "approve": false, "arguments": {"to": "bob"}}`: `arguments {"to": "bob"} are set, but approve is false; set approve to true or remove arguments`,
		`{"id": "a", "approve": false, "reason": "no"}`:             "",
		`{"id": "a", "approve": true, "arguments": {"to": "bob"}}`:  "",
	} {
		got := ""
		if _, err := readAnswer(contract.RequestConfirm, json.RawMessage(answer)); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("readAnswer(%s) error = %q, want %q", answer, got, want)
		}
	}
}

// TestAnswerHash checks that equal answers have the same hash however their JSON is written: a
// client that retries may order the fields differently.
func TestAnswerHash(t *testing.T) {
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
		if (one.Hash == other.Hash) != same {
			t.Errorf("%s has the same hash: %v, want %v", again, !same, same)
		}
	}
}

// TestDuplicateNames checks that duplicate names are rejected in every kind of answer: decoders that use
// the first value would act differently from those that use the last.
func TestDuplicateNames(t *testing.T) {
	for raw, want := range map[string]string{
		`{"id": "a", "approve": false, "approve": true}`:                            `"approve" appears twice, again at byte 31: "approve": true}; remove one of them`,
		`{"id": "a", "approve": false, "APPROVE": true}`:                            `"APPROVE" appears twice, again at byte 31`,
		`{"id": "a", "\u0061pprove": false, "approve": true}`:                       `"approve" appears twice`,
		`{"id": "a", "approve": true, "arguments": {"to": "ann", "to": "bob"}}`:     `"arguments.to" appears twice, again at byte 57: "to": "bob"}}`,
		`{"id": "a", "approve": true, "arguments": {"to": [{"n": 1, "n": 2}]}}`:     `"arguments.to[0].n" appears twice`,
		`{"id": "a", "approve": true, "arguments": {"to": "ann", "To": {"to": 1}}}`: "",
	} {
		got := ""
		if _, err := readAnswer(contract.RequestConfirm, json.RawMessage(raw)); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("readAnswer(%s) error = %q, want %q", raw, got, want)
		}
	}
	for kind, raw := range map[string]string{
		contract.RequestMessage:    `{"text": "yes", "text": "no"}`,
		contract.RequestToolResult: `{"id": "a", "result": {"n": 1, "n": 2}}`,
		contract.RequestRetry:      `{"id": "a", "give_up": true, "give_up": false}`,
	} {
		_, err := readAnswer(kind, json.RawMessage(raw))
		if f := contract.FailureOf(err); f == nil || f.Class != contract.ClassBadRequest || !strings.Contains(f.Text, "appears twice, again at byte ") || !strings.HasPrefix(f.Remedy, "send ") {
			t.Errorf("readAnswer(%s) error = %v", raw, err)
		}
	}
}

// TestAnswerIsNotObject checks that anything but a JSON object is rejected for every kind of answer.
func TestAnswerIsNotObject(t *testing.T) {
	for _, raw := range []string{"", "null", "[]", "7", `"yes"`, "true", `{} {}`} {
		for _, kind := range contract.Requests {
			if _, err := readAnswer(kind, json.RawMessage(raw)); err == nil || contract.FailureOf(err).Class != contract.ClassBadRequest {
				t.Errorf("readAnswer(%s, %q) error = %v", kind, raw, err)
			}
		}
	}
}

// TestExampleIsValid checks that the example answer that the Web UI shows for each kind is accepted unchanged.
func TestExampleIsValid(t *testing.T) {
	for _, kind := range contract.Requests {
		q := &contract.Request{ID: "a|`b\"\x01<é>\\#1", Kind: kind}
		a, err := readAnswer(kind, json.RawMessage(Example(q)))
		if err != nil || a.Reply.ID != q.ID {
			t.Errorf("%s: readAnswer(%s) = %+v, %v", kind, Example(q), a, err)
		}
	}
}

func TestExampleEscapesMarkdownTable(t *testing.T) {
	q := &contract.Request{ID: "a|`b\"\x01#1", Kind: contract.RequestConfirm}
	text := Example(q)
	var back struct {
		ID      string `json:"id"`
		Approve bool   `json:"approve"`
	}
	if err := json.Unmarshal([]byte(text), &back); err != nil || back.ID != q.ID || !back.Approve || strings.ContainsAny(text, "|`") {
		t.Errorf("%s: %+v, %v", text, back, err)
	}
}
