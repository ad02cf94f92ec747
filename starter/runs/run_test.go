package runs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/mock"
	commonpb "go.temporal.io/api/common/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/mocks"

	"weft/activities/contract"
	"weft/worker/config"
)

// TestOtherWorkflowsAreNotRuns checks that workflows of other programs in the namespace are rejected.
func TestOtherWorkflowsAreNotRuns(t *testing.T) {
	for kind, want := range map[string]string{
		contract.WorkflowFlow: "", contract.WorkflowBranch: "", contract.WorkflowWebhookDelivery: "",
		"Payroll": `"pay-1" is not a run of Weft: its workflow type is "Payroll"; list runs with: starter list -all`,
	} {
		c := &mocks.Client{}
		c.On("DescribeWorkflowExecution", mock.Anything, "pay-1", "").Return(&workflowservice.DescribeWorkflowExecutionResponse{
			WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Type: &commonpb.WorkflowType{Name: kind}, Execution: &commonpb.WorkflowExecution{RunId: "r"}}}, nil)
		_, err := (&Connection{Temporal: &config.Temporal{Client: c}, Starter: "starter "}).Find(t.Context(), "pay-1")
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", kind, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %s", kind, err, want)
		}
	}
}
