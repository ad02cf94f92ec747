package audit

import (
	"encoding/json"
	"testing"
	"time"

	"weft/activities/contract"
)

// The hash of a request is of a text that the trail has, so that others can compute it: these
// hashes were made with sha256sum.
func TestHashesOfTheTrailCanBeComputed(t *testing.T) {
	tests := map[string]struct {
		q            contract.Request
		hash, hashed string
	}{
		"a call": {q: contract.Request{ID: "mail#1/confirm/1.1-3343ee20", Kind: contract.RequestConfirm, Text: "may it?", Name: "send", Arguments: json.RawMessage("{\"to\": \"a\\u003cb\", \"n\": 1}")},
			hash: "3343ee201f0b89d8707d5149889f04613b83ec7312c234189d6e77436227c909", hashed: "send\n{\"to\":\"a<b\",\"n\":1}"},
		"a question": {q: contract.Request{ID: "ask#1/ask-c45ab1cc", Kind: contract.RequestMessage, Text: "Which month?"},
			hash: "c45ab1cc571563ff91f2bdc3b9b7d6e5418c35c1506ad0bd503e901b594a4bbc", hashed: "Which month?"},
		"a failure": {q: contract.Request{ID: "mail#2/model/1~1-c774e63a", Kind: contract.RequestRetry, Text: "it fails", Failure: &contract.Failure{Class: "denied", Text: "no key"}},
			hash: "c774e63a1ac67a6a7b3fbfc5eabaa027648f29d709fc55ce2898fd8027d29f5f", hashed: "deniedno key"},
		"something else": {q: contract.Request{ID: "ask#1/ask-c45ab1cc", Kind: contract.RequestMessage, Text: "Which year?"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := NewReader("r")
			l.announced(&tc.q, time.Now())
			if r := l.out.Requests[0]; r.Hash != tc.hash || r.Hashed != tc.hashed || r.Bound != (tc.hash != "") {
				t.Errorf("the request is %+v", r)
			}
		})
	}
}
