package runs_test

import (
	"weft/starter/runs"
	"weft/starter/runs/runstest"

	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/mock"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/mocks"

	"weft/activities/contract"
	"weft/specadapter/drawing"
	"weft/worker/config"
)

// TestBranchesReportTheirProgress checks that a branch is drawn at its current node, not at its first.
func TestBranchesReportTheirProgress(t *testing.T) {
	c := &mocks.Client{}
	c.On("DescribeWorkflowExecution", mock.Anything, "root", "r").Return(&workflowservice.DescribeWorkflowExecutionResponse{
		PendingChildren: []*workflowpb.PendingChildExecutionInfo{
			{WorkflowId: "root/a#2", RunId: "ra"}, {WorkflowId: "root/d#2", RunId: "rd"}, {WorkflowId: "root/e#2", RunId: "re"}},
	}, nil)
	c.On("QueryWorkflow", mock.Anything, "root/a#2", "ra", contract.QueryStatus).Return(runstest.Answer(t, contract.Status{
		Running: []string{"b#3"}, Executions: []contract.Execution{{Node: "a", Step: 2}}}), nil).Once()
	c.On("QueryWorkflow", mock.Anything, "root/d#2", "rd", contract.QueryStatus).Return(nil, errors.New("nobody answers")).Once()
	st := &contract.Status{Status: "running", Executions: []contract.Execution{{Node: "start", Step: 1}}, Running: []string{"a#2", "c#2", "d#2", "e#2"}}
	(&runs.Run{Connection: &runs.Connection{Temporal: &config.Temporal{Client: c}}, ID: "root", RunID: "r", Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING}).AddBranches(t.Context(), st)
	running := drawing.Progress{State: drawing.Running, Runs: 1}
	done := drawing.Progress{State: drawing.Done, Runs: 1}
	want := drawing.States{"start": done, "a": done, "b": running, "c": running, "d": running, "e": running}
	if diff := cmp.Diff(want, runs.StatesOf(st, nil, "")); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	// A closed run is not queried.
	(&runs.Run{Status: enumspb.WORKFLOW_EXECUTION_STATUS_FAILED}).AddBranches(t.Context(), st)
}
