package main

import (
	"weft/starter/runs"
	"weft/starter/runs/runstest"

	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/mocks"

	"weft/activities/contract"
	"weft/starter/audit"
	"weft/starter/history/historytest"
	"weft/worker/config"
)

// TestAuditOfWhatWaits has what history tells of a run, and what its worker says is open, which the memo has no room for: each
// request is there once, and what the worker says counts.
func TestAuditOfWhatWaits(t *testing.T) {
	asked := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	open := func(id, kind, text string) contract.Request {
		return contract.Request{ID: id, Kind: kind, Text: text, OpenedAt: asked}
	}
	fromMemory, fromBoth := open("ask#2/ask-0000aaaa", contract.RequestMessage, "Which month?"), open("b#3/ask-1111bbbb", contract.RequestMessage, "And the year?")
	signalled := open("m#4/confirm/1.1-2222cccc", contract.RequestConfirm, "May it?")
	h := historytest.New(t)
	h.Begin("", contract.RunInput{})
	h.Signalled(contract.SignalRequest, fromBoth)
	h.Open(2, fromBoth)
	// A signal that the run did not accept: it is unconfirmed, and the request is still open.
	h.Signalled(contract.RequestConfirm, contract.ConfirmAnswer{ID: signalled.ID})
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
				runstest.Answer(t, contract.Status{Requests: []contract.Request{fromMemory, fromBoth, signalled}, MoreRequests: tc.more}), nil)
			l := audit.NewReader("r")
			if err := l.Read(t.Context(), historytest.Source(map[string]*historytest.History{"r": h}), "r"); err != nil {
				t.Fatal(err)
			}
			addOpen(t.Context(), &runs.Run{Connection: &runs.Connection{Temporal: &config.Temporal{Client: c}}, ID: "r", Status: tc.status}, l)
			out := l.Trail()
			var got []string
			for _, r := range out.Requests {
				got = append(got, r.ID+" "+r.Outcome)
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("requests are %q, want %q", got, tc.want)
			}
			if text := audit.Text(out); strings.Count(text, fromBoth.ID) != 1 || strings.Contains(text, "not in the history") != (name == "ended") {
				t.Errorf("the text is\n%s", text)
			}
			if tc.lacks == "" && out.Incomplete != "" || !strings.Contains(out.Incomplete, tc.lacks) {
				t.Errorf("what it lacks is %q, want %q", out.Incomplete, tc.lacks)
			}
		})
	}
}
