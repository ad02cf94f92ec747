package runs

import (
	"context"
	"strings"
	"testing"
	"time"

	failurepb "go.temporal.io/api/failure/v1"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/mock"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/mocks"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weft/activities/contract"
	"weft/starter/history/historytest"
	"weft/worker/config"
)

const turn = "waiting 3s for its turn (providers.p.requests_per_minute)"

func TestPendingCalls(t *testing.T) {
	h := historytest.New(t)
	later := timestamppb.New(time.Now().Add(time.Hour))
	root := &workflowservice.DescribeWorkflowExecutionResponse{
		PendingActivities: []*workflowpb.PendingActivityInfo{
			{ActivityId: "a#1/model/1", State: enumspb.PENDING_ACTIVITY_STATE_STARTED, Attempt: 1, HeartbeatDetails: h.Payload(contract.Heartbeat{Attempt: 1, Waiting: turn})},
			{ActivityId: "b#1/model/1", State: enumspb.PENDING_ACTIVITY_STATE_STARTED, Attempt: 1, HeartbeatDetails: h.Payload(contract.Heartbeat{Attempt: 1, Text: "Once"})},
			{ActivityId: "c#1/model/1", State: enumspb.PENDING_ACTIVITY_STATE_STARTED, Attempt: 2, LastFailure: rateLimited, HeartbeatDetails: h.Payload(contract.Heartbeat{Attempt: 1, Waiting: turn})},
			{ActivityId: "d#1/model/1", State: enumspb.PENDING_ACTIVITY_STATE_SCHEDULED, Attempt: 1, ScheduledTime: later},
			{ActivityId: "f#1/model/1", State: enumspb.PENDING_ACTIVITY_STATE_SCHEDULED, Attempt: 2, ScheduledTime: &timestamppb.Timestamp{Seconds: 4102444800},
				LastFailure: &failurepb.Failure{FailureInfo: &failurepb.Failure_ApplicationFailureInfo{ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{
					Type: contract.ClassRateLimited, Details: h.Payload(contract.Failure{Class: contract.ClassRateLimited, Text: "waiting for its turn", Limit: &contract.LimitWait{Millis: 9}})}}}},
			{ActivityId: "g#1/model/1", State: enumspb.PENDING_ACTIVITY_STATE_PAUSED, Attempt: 2, LastFailure: rateLimited, ScheduledTime: later, Paused: true, PauseInfo: &workflowpb.PendingActivityInfo_PauseInfo{
				PausedBy: &workflowpb.PendingActivityInfo_PauseInfo_Manual_{Manual: &workflowpb.PendingActivityInfo_PauseInfo_Manual{Identity: "kim", Reason: "too dear"}}}},
		},
		PendingChildren: []*workflowpb.PendingChildExecutionInfo{{WorkflowId: "root/e#2", RunId: "re"}, {WorkflowId: "root/f#2", RunId: "rf"}},
	}
	branch := &workflowservice.DescribeWorkflowExecutionResponse{PendingActivities: []*workflowpb.PendingActivityInfo{
		{ActivityId: "e#2/model/1", State: enumspb.PENDING_ACTIVITY_STATE_SCHEDULED, Attempt: 3, LastFailure: rateLimited, ScheduledTime: later},
	}}
	c := &mocks.Client{}
	c.On("DescribeWorkflowExecution", mock.Anything, "root", "r").Return(root, nil)
	c.On("DescribeWorkflowExecution", mock.Anything, "root/e#2", "re").Return(branch, nil)
	c.On("DescribeWorkflowExecution", mock.Anything, "root/f#2", "rf").Return((*workflowservice.DescribeWorkflowExecutionResponse)(nil), context.DeadlineExceeded)
	run := &Run{Connection: &Connection{Temporal: &config.Temporal{Client: c}}, ID: "root", RunID: "r", Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING}
	got := run.PendingCalls(t.Context())
	if len(got) == 4 {
		got[3], _, _ = strings.Cut(got[3], " in 3") // some seconds
	}
	const paused = "g#1/model/1: it is paused in Temporal by kim: too dear; resume it with: temporal activity unpause --workflow-id root --activity-id 'g#1/model/1'"
	if diff := cmp.Diff([]string{"a#1/model/1: " + turn, "f#1/model/1: waiting for its turn until 2100-01-01T00:00:00Z", paused, "e#2/model/1: attempt 3"}, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if got := (&Run{Status: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED}).PendingCalls(t.Context()); got != nil {
		t.Errorf("pending calls of a closed run: %q", got)
	}
}

// rateLimited is a failed attempt as Temporal records it.
var rateLimited = &failurepb.Failure{Message: "slow down", FailureInfo: &failurepb.Failure_ApplicationFailureInfo{
	ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: contract.ClassRateLimited}}}
