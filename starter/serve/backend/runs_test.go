package backend

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/mocks"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weft/activities/contract"
	"weft/starter/runs"
	"weft/starter/runs/runstest"
	"weft/starter/serve"
	"weft/worker/config"
	"weft/workflows/plan"
)

// problemName returns the name of a *serve.Problem, or the text of another error; "" for nil.
func problemName(err error) string {
	var p *serve.Problem
	if errors.As(err, &p) {
		return strings.TrimPrefix(p.Type, "urn:weft:problem:")
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestFind(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	described := func(workflow string) *workflowservice.DescribeWorkflowExecutionResponse {
		return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
			Execution: &commonpb.WorkflowExecution{WorkflowId: "r", RunId: "two"}, FirstRunId: "one", Type: &commonpb.WorkflowType{Name: workflow},
			Status: enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, StartTime: timestamppb.New(start), CloseTime: timestamppb.New(start), TaskQueue: "q"}}
	}
	tests := map[string]struct {
		answer *workflowservice.DescribeWorkflowExecutionResponse
		err    error
		want   string
	}{
		"flow":                 {answer: described(contract.WorkflowFlow)},
		"branch":               {answer: described(contract.WorkflowBranch), want: serve.UnknownRun.Name},
		"another workflow":     {answer: described("Payroll"), want: serve.UnknownRun.Name},
		"not found":            {err: serviceerror.NewNotFound("no"), want: serve.UnknownRun.Name},
		"invalid id":           {err: serviceerror.NewInvalidArgument("too long"), want: serve.UnknownRun.Name},
		"Temporal unavailable": {err: serviceerror.NewUnavailable("down"), want: serve.NoTemporal.Name},
		"timeout":              {err: context.DeadlineExceeded, want: serve.NoTemporal.Name},
		"other error":          {err: errors.New("strange"), want: `describe the run "r": strange`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := &mocks.Client{}
			c.On("DescribeWorkflowExecution", mock.Anything, "r", "").Return(tc.answer, tc.err)
			run, err := (&Backend{Connection: &runs.Connection{Temporal: &config.Temporal{Client: c}}}).Find(t.Context(), "r")
			if got := problemName(err); got != tc.want {
				t.Errorf("problem = %q, want %q", got, tc.want)
			}
			if tc.want == "" && (run.Current != "two" || run.First != "one" || run.Status != "terminated" || run.Closed == nil || run.Queue != "q") {
				t.Errorf("run = %+v", run)
			}
			if tc.want == "" && (&Backend{}).of(run).Status != enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED {
				t.Errorf("status = %v", (&Backend{}).of(run).Status)
			}
		})
	}
}

func TestStartErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"id of another workflow": {serviceerror.NewWorkflowExecutionAlreadyStarted("there", "", ""), serve.RunExists.Name},
		"id too long":            {serviceerror.NewInvalidArgument("too long"), serve.BadRequest.Name},
		"Temporal unavailable":   {serviceerror.NewUnavailable("down"), serve.NoTemporal.Name},
	} {
		t.Run(name, func(t *testing.T) {
			c := &mocks.Client{}
			c.On("ExecuteWorkflow", mock.Anything, mock.Anything, contract.WorkflowFlow, mock.Anything).Return(nil, tc.err)
			(&runstest.Operator{}).Serve(c)
			c.On("DescribeWorkflowExecution", mock.Anything, "r", "").Return(nil, serviceerror.NewNotFound("no"))
			s := &Backend{Connection: &runs.Connection{Temporal: &config.Temporal{Client: c}}}
			_, _, err := s.Start(t.Context(), &serve.Start{ID: "r", Input: &contract.RunInput{Flow: contract.FlowRef{Plan: &plan.Flow{Version: plan.Version, Name: "x"}}}})
			if got := problemName(err); got != tc.want {
				t.Errorf("problem = %q, want %q", got, tc.want)
			}
		})
	}
}

// TestListPages checks the page tokens of a list of three runs, without and with a filter.
func TestListPages(t *testing.T) {
	s := &Backend{Connection: &runs.Connection{Temporal: &config.Temporal{Client: runstest.Stored(t)}}}
	first, token, err := s.List(t.Context(), runs.Filter{Limit: 2, Closed: true}, "")
	if err != nil || len(first) != 2 || first[0].ID != "a" || token == "" {
		t.Fatalf("first page = %+v, %q, %v", first, token, err)
	}
	second, next, err := s.List(t.Context(), runs.Filter{Limit: 2, Closed: true}, token)
	if err != nil || len(second) != 1 || second[0].ID != "c" || next != "" {
		t.Errorf("second page = %+v, %q, %v", second, next, err)
	}
	// The filter matches nothing on the first page, so List must read on.
	terminated, next, err := s.List(t.Context(), runs.Filter{Limit: 2, Closed: true, Status: "terminated"}, "")
	if err != nil || len(terminated) != 1 || terminated[0].ID != "c" || next != "" {
		t.Errorf("terminated runs = %+v, %q, %v", terminated, next, err)
	}
	for _, token := range []string{"!", "dHdv", token[1:], writeToken(nil) + "A"} {
		if _, _, err := s.List(t.Context(), runs.Filter{Limit: 2, Closed: true}, token); problemName(err) != serve.BadRequest.Name {
			t.Errorf("List with the token %q: %v, want %s", token, err, serve.BadRequest.Name)
		}
	}
}

func TestAnswerErrors(t *testing.T) {
	failure := func(class string) error { return (&contract.Failure{Class: class, Text: "no"}).ApplicationError() }
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"schema": {failure(contract.ClassSchema), serve.InvalidAnswer.Name}, "unknown": {failure(contract.ClassUnknownRequest), serve.UnknownRequest.Name},
		"unavailable": {failure(contract.ClassUnavailable), serve.Busy.Name}, "state too large": {failure(contract.ClassStateTooLarge), serve.RunEnded.Name},
		"already answered": {failure(contract.ClassAlreadyAnswered), serve.AlreadyAnswered.Name}, "too large": {failure(contract.ClassTooLarge), serve.TooLarge.Name},
		"too large for Temporal": {serviceerror.NewInvalidArgument("blob"), serve.TooLarge.Name}, "not found": {serviceerror.NewNotFound("completed"), serve.RunEnded.Name},
		"Temporal unavailable": {serviceerror.NewUnavailable("down"), serve.NoTemporal.Name}, "no worker": {runs.ErrNoReceipt, serve.NoWorker.Name},
		"unknown class": {failure("odd"), `answer the run "r": no (type: odd, retryable: false)`},
	} {
		t.Run(name, func(t *testing.T) {
			c := &mocks.Client{}
			c.On("UpdateWorkflow", mock.Anything, mock.Anything).Return(nil, tc.err)
			_, err := (&Backend{Connection: &runs.Connection{Temporal: &config.Temporal{Client: c}}}).Answer(t.Context(), &serve.Run{Summary: runs.Summary{ID: "r"}}, contract.RequestRetry, contract.RetryAnswer{ID: "q"})
			if got := problemName(err); got != tc.want {
				t.Errorf("problem = %q, want %q", got, tc.want)
			}
		})
	}
}
