package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/mocks"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weft/activities/contract"
	"weft/worker/config"
)

// storedRuns is a visibility store of three runs on two pages.
func storedRuns(t *testing.T) *mocks.Client {
	t.Helper()
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	info := func(id string, status enumspb.WorkflowExecutionStatus, memo any) *workflowpb.WorkflowExecutionInfo {
		p, err := converter.GetDefaultDataConverter().ToPayload(memo)
		if err != nil {
			t.Fatal(err)
		}
		return &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: id}, Status: status,
			StartTime: timestamppb.New(begin), CloseTime: timestamppb.New(begin.Add(90 * time.Second)),
			Memo: &commonpb.Memo{Fields: map[string]*commonpb.Payload{contract.MemoFlow: p}}}
	}
	c := &mocks.Client{}
	page := func(token, next string, runs ...*workflowpb.WorkflowExecutionInfo) {
		c.On("ListWorkflow", mock.Anything, mock.MatchedBy(func(r *workflowservice.ListWorkflowExecutionsRequest) bool {
			return string(r.GetNextPageToken()) == token && strings.HasPrefix(r.GetQuery(), `WorkflowType = "Flow" AND ParentWorkflowId IS NULL AND ExecutionStatus `)
		})).Return(&workflowservice.ListWorkflowExecutionsResponse{Executions: runs, NextPageToken: []byte(next)}, nil)
	}
	page("", "two", info("a", enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, "Tri\x1b[2Jage"), info("b", enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, 7))
	page("two", "", info("c", enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, ""))
	return c
}

func TestListsArePaged(t *testing.T) {
	tests := map[string]struct {
		limit int
		want  string
		more  bool
	}{
		"all":                       {limit: 0, want: "a b c"},
		"as many as there are":      {limit: 3, want: "a b c"},
		"fewer, on the first page":  {limit: 1, want: "a", more: true},
		"fewer, at the page's end":  {limit: 2, want: "a b", more: true},
		"more than there ever were": {limit: 50, want: "a b c"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			runs, more, err := findRuns(context.Background(), &config.Temporal{Client: storedRuns(t)}, &filter{query: `ExecutionStatus != "ContinuedAsNew"`, limit: tc.limit})
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, r := range runs {
				ids = append(ids, r.ID)
			}
			if got := strings.Join(ids, " "); got != tc.want || more != tc.more {
				t.Errorf("runs are %q, more: %v; want %q, %v", got, more, tc.want, tc.more)
			}
		})
	}
}

// TestListOfABusyServer asks for a page again, as often as there are pauses, and no other error.
func TestListOfABusyServer(t *testing.T) {
	busy := func() error { return serviceerror.NewDeadlineExceeded("context deadline exceeded") }
	tests := map[string]struct {
		errs  []error
		calls int
		want  string
	}{
		"once":         {errs: []error{busy()}, calls: 2},
		"exhausted":    {errs: []error{serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "too many")}, calls: 2},
		"away":         {errs: []error{serviceerror.NewUnavailable("no route")}, calls: 2},
		"all the time": {errs: []error{busy(), busy(), busy(), busy()}, calls: 3, want: "7 runs were read, then Temporal at here:1 did not answer in time"},
		"wrong":        {errs: []error{serviceerror.NewInvalidArgument("no such field")}, calls: 1, want: "no such field"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := &mocks.Client{}
			for _, err := range tc.errs {
				c.On("ListWorkflow", mock.Anything, mock.Anything).Return(nil, err).Once()
			}
			c.On("ListWorkflow", mock.Anything, mock.Anything).Return(&workflowservice.ListWorkflowExecutionsResponse{}, nil)
			at := &config.Temporal{Client: c, Address: "here:1"}
			_, err := patientPage(context.Background(), at, &workflowservice.ListWorkflowExecutionsRequest{}, []time.Duration{0, 0})
			c.AssertNumberOfCalls(t, "ListWorkflow", tc.calls)
			if err != nil {
				err = tooBusy(err, at, 7)
			}
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("the error is %v, want %q", err, tc.want)
			}
			if remedy := err != nil && strings.Contains(err.Error(), "ask for less: starter list -limit 50"); remedy != (name == "all the time") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestListAsTable(t *testing.T) {
	runs, _, err := findRuns(context.Background(), &config.Temporal{Client: storedRuns(t)}, &filter{query: `ExecutionStatus != "ContinuedAsNew"`})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	(&app{stdout: &out}).table(runs)
	lines := strings.Split(out.String(), "\n")
	for i, want := range []string{"ID FLOW STATUS STARTED TOOK", "a Tri[2Jage completed * 1m30s", "b - failed * 1m30s", "c - terminated * 1m30s"} {
		begin, end, _ := strings.Cut(want, "*")
		if got := strings.Join(strings.Fields(lines[i]), " "); !strings.HasPrefix(got, begin) || !strings.HasSuffix(got, end) {
			t.Errorf("line %d is %q, want %q", i, got, want)
		}
	}
}
