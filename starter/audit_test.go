package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/mocks"

	"weft/activities/contract"
	"weft/worker/config"
)

// TestAuditOfWhatWaits has what history tells of a run, and what its worker says is open: each
// request is there once, and what the worker says counts.
func TestAuditOfWhatWaits(t *testing.T) {
	asked := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	open := func(id, kind, text string) contract.Request {
		return contract.Request{ID: id, Kind: kind, Text: text, OpenedAt: asked}
	}
	fromMemory, fromBoth := open("ask#2/ask-0000aaaa", contract.RequestMessage, "Which month?"), open("b#3/ask-1111bbbb", contract.RequestMessage, "And the year?")
	signalled := open("m#4/confirm/1.1-2222cccc", contract.RequestConfirm, "May it?")
	tests := map[string]struct {
		status enumspb.WorkflowExecutionStatus
		more   int
		want   []string
		lacks  string
	}{
		"open": {status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
			want: []string{fromMemory.ID + " open", fromBoth.ID + " open", signalled.ID + " open"}},
		"more than are listed": {status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, more: 3,
			want: []string{fromMemory.ID + " open", fromBoth.ID + " open", signalled.ID + " open"}, lacks: "waits for 3 more"},
		"ended": {status: enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED,
			want: []string{fromBoth.ID + " closed", signalled.ID + " answered"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := &mocks.Client{}
			c.On("QueryWorkflow", mock.Anything, "r", "", contract.QueryStatus).Return(
				answered(t, contract.Status{Requests: []contract.Request{fromMemory, fromBoth, signalled}, MoreRequests: tc.more}), nil)
			l := newLedger(c, "r")
			l.announced(&fromBoth, asked)
			// A signal that the run did not take: it is unconfirmed, and the request is still open.
			l.request(signalled.ID, signalled.Kind).Answers = []auditAnswer{{Status: answerUnconfirmed, Via: "signal", Time: asked, Answer: json.RawMessage(`7`)}}
			(&app{}).stillOpen(context.Background(), &config.Temporal{Client: c}, about{status: tc.status}, l)
			out := l.trail()
			var got []string
			for _, r := range out.Requests {
				got = append(got, r.ID+" "+r.Outcome)
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("requests are %q, want %q", got, tc.want)
			}
			if text := auditText(out); strings.Count(text, fromBoth.ID) != 1 || strings.Contains(text, "history does not tell what") != (name == "ended") {
				t.Errorf("the text is\n%s", text)
			}
			if tc.lacks == "" && out.Incomplete != "" || !strings.Contains(out.Incomplete, tc.lacks) {
				t.Errorf("what it lacks is %q, want %q", out.Incomplete, tc.lacks)
			}
		})
	}
}

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
			l := newLedger(nil, "r")
			l.announced(&tc.q, time.Now())
			if r := l.out.Requests[0]; r.Hash != tc.hash || r.Hashed != tc.hashed || r.Bound != (tc.hash != "") {
				t.Errorf("the request is %+v", r)
			}
		})
	}
}
