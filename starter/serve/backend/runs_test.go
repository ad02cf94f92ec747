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

// kind is the kind of a problem, or the error's text.
func kind(err error) string {
	var p *serve.Problem
	if errors.As(err, &p) {
		return strings.TrimPrefix(p.Type, "urn:weft:problem:")
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestRunsThatAreLookedFor(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	described := func(workflow string) *workflowservice.DescribeWorkflowExecutionResponse {
		return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
			Execution: &commonpb.WorkflowExecution{WorkflowId: "r", RunId: "two"}, FirstRunId: "one", Type: &commonpb.WorkflowType{Name: workflow},
			Status: enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, StartTime: timestamppb.New(begin), CloseTime: timestamppb.New(begin), TaskQueue: "q"}}
	}
	tests := map[string]struct {
		answer *workflowservice.DescribeWorkflowExecutionResponse
		err    error
		want   string
	}{
		"a run":                {answer: described(contract.WorkflowFlow)},
		"a branch":             {answer: described(contract.WorkflowBranch), want: serve.UnknownRun.Name},
		"another workflow":     {answer: described("Payroll"), want: serve.UnknownRun.Name},
		"nothing":              {err: serviceerror.NewNotFound("no"), want: serve.UnknownRun.Name},
		"an id that is none":   {err: serviceerror.NewInvalidArgument("too long"), want: serve.UnknownRun.Name},
		"Temporal is away":     {err: serviceerror.NewUnavailable("down"), want: serve.NoTemporal.Name},
		"Temporal is late":     {err: context.DeadlineExceeded, want: serve.NoTemporal.Name},
		"something is strange": {err: errors.New("strange"), want: `describe the run "r": strange`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := &mocks.Client{}
			c.On("DescribeWorkflowExecution", mock.Anything, "r", "").Return(tc.answer, tc.err)
			run, err := (&Backend{Connection: &runs.Connection{Temporal: &config.Temporal{Client: c}}}).Find(t.Context(), "r")
			if got := kind(err); got != tc.want {
				t.Errorf("the problem is %q, want %q", got, tc.want)
			}
			if tc.want == "" && (run.Current != "two" || run.First != "one" || run.Status != "terminated" || run.Closed == nil || run.Queue != "q") {
				t.Errorf("the run is %+v", run)
			}
			if tc.want == "" && (&Backend{}).of(run).Status != enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED {
				t.Errorf("its status is %v", (&Backend{}).of(run).Status)
			}
		})
	}
}

func TestStartsThatTemporalRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"an id of another workflow": {serviceerror.NewWorkflowExecutionAlreadyStarted("there", "", ""), serve.RunExists.Name},
		"an id that is too long":    {serviceerror.NewInvalidArgument("too long"), serve.BadRequest.Name},
		"Temporal is away":          {serviceerror.NewUnavailable("down"), serve.NoTemporal.Name},
	} {
		t.Run(name, func(t *testing.T) {
			c := &mocks.Client{}
			c.On("ExecuteWorkflow", mock.Anything, mock.Anything, contract.WorkflowFlow, mock.Anything).Return(nil, tc.err)
			c.On("OperatorService").Return(&runstest.Operator{})
			c.On("DescribeWorkflowExecution", mock.Anything, "r", "").Return(nil, serviceerror.NewNotFound("no"))
			s := &Backend{Connection: &runs.Connection{Temporal: &config.Temporal{Client: c}}}
			_, _, err := s.Start(t.Context(), &serve.Start{ID: "r", Input: &contract.RunInput{Flow: contract.FlowRef{Plan: &plan.Flow{Version: plan.Version, Name: "x"}}}})
			if got := kind(err); got != tc.want {
				t.Errorf("the problem is %q, want %q", got, tc.want)
			}
		})
	}
}

// TestListsOverHTTPArePaged reads three runs on two pages, of which a filter leaves some out.
func TestListsOverHTTPArePaged(t *testing.T) {
	s := &Backend{Connection: &runs.Connection{Temporal: &config.Temporal{Client: runstest.Stored(t)}}}
	first, token, err := s.List(t.Context(), runs.Filter{Limit: 2, Closed: true}, "")
	if err != nil || len(first) != 2 || first[0].ID != "a" || token == "" {
		t.Fatalf("the first page is %+v, %q, %v", first, token, err)
	}
	second, none, err := s.List(t.Context(), runs.Filter{Limit: 2, Closed: true}, token)
	if err != nil || len(second) != 1 || second[0].ID != "c" || none != "" {
		t.Errorf("the second page is %+v, %q, %v", second, none, err)
	}
	// The first page has none that is wanted: it is not shown as the end.
	ended, none, err := s.List(t.Context(), runs.Filter{Limit: 2, Closed: true, Status: "terminated"}, "")
	if err != nil || len(ended) != 1 || ended[0].ID != "c" || none != "" {
		t.Errorf("the terminated runs are %+v, %q, %v", ended, none, err)
	}
	for _, token := range []string{"!", "dHdv", token[1:], writeToken(nil) + "A"} {
		if _, _, err := s.List(t.Context(), runs.Filter{Limit: 2, Closed: true}, token); kind(err) != serve.BadRequest.Name {
			t.Errorf("the token %q gives %v", token, err)
		}
	}
}

func TestAnswersThatRunsRefuse(t *testing.T) {
	wire := func(class string) error { return (&contract.Failure{Class: class, Text: "no"}).ApplicationError() }
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"schema": {wire(contract.ClassSchema), serve.InvalidAnswer.Name}, "unknown": {wire(contract.ClassUnknownRequest), serve.UnknownRequest.Name},
		"at another moment": {wire(contract.ClassUnavailable), serve.Busy.Name}, "no room for it": {wire(contract.ClassStateTooLarge), serve.RunEnded.Name},
		"another": {wire(contract.ClassAlreadyAnswered), serve.AlreadyAnswered.Name}, "too large": {wire(contract.ClassTooLarge), serve.TooLarge.Name},
		"too large for Temporal": {serviceerror.NewInvalidArgument("blob"), serve.TooLarge.Name}, "over": {serviceerror.NewNotFound("completed"), serve.RunEnded.Name},
		"Temporal is away": {serviceerror.NewUnavailable("down"), serve.NoTemporal.Name}, "no worker": {runs.ErrNoReceipt, serve.NoWorker.Name},
		"strange": {wire("odd"), `answer the run "r": no (type: odd, retryable: false)`},
	} {
		t.Run(name, func(t *testing.T) {
			c := &mocks.Client{}
			c.On("UpdateWorkflow", mock.Anything, mock.Anything).Return(nil, tc.err)
			_, err := (&Backend{Connection: &runs.Connection{Temporal: &config.Temporal{Client: c}}}).Answer(t.Context(), &serve.Run{Summary: runs.Summary{ID: "r"}}, contract.RequestRetry, contract.RetryAnswer{ID: "q"})
			if got := kind(err); got != tc.want {
				t.Errorf("the problem is %q, want %q", got, tc.want)
			}
		})
	}
}
