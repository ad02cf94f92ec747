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

// TestAuditOpenRequests checks that open requests are taken from the history and from the status of an open run, that each is
// listed once, and that the status takes precedence.
func TestAuditOpenRequests(t *testing.T) {
	openedAt := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	open := func(id, kind, text string) contract.Request {
		return contract.Request{ID: id, Kind: kind, Text: text, OpenedAt: openedAt}
	}
	fromStatus, fromBoth := open("ask#2/ask-0000aaaa", contract.RequestMessage, "Which month?"), open("b#3/ask-1111bbbb", contract.RequestMessage, "And the year?")
	signalled := open("m#4/confirm/1.1-2222cccc", contract.RequestConfirm, "May it?")
	h := historytest.New(t)
	h.Begin("", contract.RunInput{})
	h.Signalled(contract.SignalRequest, fromBoth)
	h.Open(2, fromBoth)
	// The run did not accept this signal, so the request is still open.
	h.Signalled(contract.RequestConfirm, contract.ConfirmAnswer{ID: signalled.ID})
	tests := map[string]struct {
		status     enumspb.WorkflowExecutionStatus
		more       int
		want       []string
		incomplete string
	}{
		"open": {status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
			want: []string{fromStatus.ID + " open", fromBoth.ID + " open", signalled.ID + " open"}},
		"more than listed": {status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, more: 3,
			want: []string{fromStatus.ID + " open", fromBoth.ID + " open", signalled.ID + " open"}, incomplete: "waits for 3 more"},
		"ended": {status: enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED,
			want: []string{fromBoth.ID + " closed", signalled.ID + " answered"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := &mocks.Client{}
			c.On("QueryWorkflow", mock.Anything, "r", "", contract.QueryStatus).Return(
				runstest.Answer(t, contract.Status{Requests: []contract.Request{fromStatus, fromBoth, signalled}, MoreRequests: tc.more}), nil)
			reader := audit.NewReader("r")
			if err := reader.Read(t.Context(), historytest.Source(map[string]*historytest.History{"r": h}), "r"); err != nil {
				t.Fatal(err)
			}
			addOpen(t.Context(), &runs.Run{Connection: &runs.Connection{Temporal: &config.Temporal{Client: c}}, ID: "r", Status: tc.status}, reader)
			out := reader.Trail()
			var got []string
			for _, r := range out.Requests {
				got = append(got, r.ID+" "+r.Outcome)
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("requests = %q, want %q", got, tc.want)
			}
			if text := audit.Text(out); strings.Count(text, fromBoth.ID) != 1 || strings.Contains(text, "not in the history") != (name == "ended") {
				t.Errorf("text:\n%s", text)
			}
			if tc.incomplete == "" && out.Incomplete != "" || !strings.Contains(out.Incomplete, tc.incomplete) {
				t.Errorf("Incomplete = %q, want %q", out.Incomplete, tc.incomplete)
			}
		})
	}
}
