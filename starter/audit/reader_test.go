package audit

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/starter/history/historytest"
)

// TestRequestHashes checks that the hash of a request is that of a text in the audit trail, so that
// others can compute it. These hashes were made with sha256sum.
func TestRequestHashes(t *testing.T) {
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
			l.addAnnounced(&tc.q, time.Now())
			if r := l.out.Requests[0]; r.Hash != tc.hash || r.Hashed != tc.hashed || r.Bound != (tc.hash != "") {
				t.Errorf("request = %+v", r)
			}
		})
	}
}

// TestRootRequests checks that the requests of the root run are those in its memo, with defaults and placeholders filled in.
// A request that is no longer in the memo and was not answered is closed.
func TestRootRequests(t *testing.T) {
	asked := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	request := func(id, kind, text, args string) contract.Request {
		q := contract.Request{Kind: kind, Text: text, OpenedAt: asked, Execution: id[:strings.Index(id, "/")]}
		content := text
		if args != "" {
			q.Tool, q.Name, q.Arguments = "send", "send", json.RawMessage(args)
			content = "send\n" + args
		}
		q.Hash = contract.SHA([]byte(kind + "\n" + id + "\n" + contract.SHA([]byte(content))))
		q.ID = id + "-" + q.Hash[:8]
		return q
	}
	filled := request("mail#1/confirm/1.1", contract.RequestConfirm, "mail wants to call send", `{"to":"a","cc":"<none>"}`)
	question := request("ask#2/ask", contract.RequestMessage, "Which month, Ann?", "")
	withdrawn := request("ask#3/ask", contract.RequestMessage, "And the year?", "")
	h := historytest.New(t)
	h.Begin("", contract.RunInput{})
	h.Call("mail#1/model/1", contract.ActivityCallModel, contract.ModelInput{}, historytest.Answer(t, "", "send"))
	h.Open(0, filled, withdrawn)
	h.Open(0, filled)
	h.Signalled(contract.RequestConfirm, contract.ConfirmAnswer{ID: filled.ID})
	h.Open(0, question)
	h.Add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED, &historypb.WorkflowExecutionCanceledEventAttributes{})
	l := NewReader("r")
	if err := l.Read(t.Context(), historytest.Source(map[string]*historytest.History{"r": h}), "r"); err != nil {
		t.Fatal(err)
	}
	l.Ended = true
	var got []string
	for _, r := range l.Trail().Requests {
		if !r.Bound || r.AskedAt == nil || r.AskedAt.Before(asked) || r.Execution == "" {
			t.Errorf("request = %+v", r)
		}
		got = append(got, r.ID[:strings.LastIndex(r.ID, "-")]+" "+r.Outcome+" "+r.Asked+string(textutil.Unescape(r.Arguments)))
	}
	want := []string{`mail#1/confirm/1.1 answered mail wants to call send{"to":"a","cc":"<none>"}`, "ask#3/ask closed And the year?", "ask#2/ask closed Which month, Ann?"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
