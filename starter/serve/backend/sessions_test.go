package backend

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/mocks"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weft/activities/contract"
	"weft/starter/runs"
	"weft/starter/serve"
	"weft/worker/config"
)

// newSession returns a backend with the session "r". Its query for turns returns turns, or queryErr if that is set; without a result, the session has failed.
func newSession(t *testing.T, status enumspb.WorkflowExecutionStatus, turns []contract.Turn, queryErr error, result *contract.RunResult) *Backend {
	c := &mocks.Client{}
	payload, err := converter.GetDefaultDataConverter().ToPayload(true)
	if err != nil {
		t.Fatal(err)
	}
	c.On("DescribeWorkflowExecution", mock.Anything, "r", "").Return(&workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: "r", RunId: "one"}, Status: status,
			Type: &commonpb.WorkflowType{Name: contract.WorkflowFlow}, TaskQueue: "q", Memo: &commonpb.Memo{Fields: map[string]*commonpb.Payload{contract.MemoSession: payload}}}}, nil)
	ended := &mocks.WorkflowRun{}
	ended.On("Get", mock.Anything, mock.Anything).Return(func(_ context.Context, to any) error {
		if result == nil {
			return errors.New("it failed")
		}
		*to.(*contract.RunResult) = *result
		return nil
	})
	c.On("GetWorkflow", mock.Anything, "r", "").Return(func(context.Context, string, string) client.WorkflowRun { return ended })
	raw, err := json.Marshal(turns)
	if err != nil {
		t.Fatal(err)
	}
	value := &mocks.Value{}
	value.On("Get", mock.Anything).Return(func(to any) error { return json.Unmarshal(raw, to) })
	if queryErr != nil {
		c.On("QueryWorkflow", mock.Anything, "r", "", contract.QueryTurns).Return(nil, queryErr)
	} else {
		c.On("QueryWorkflow", mock.Anything, "r", "", contract.QueryTurns).Return(value, nil)
	}
	return &Backend{Connection: &runs.Connection{Temporal: &config.Temporal{Client: c}}}
}

const running, completed = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED

// TestTurnsWithoutWorker checks the errors of an open session that has no worker, and that the
// turns of a closed session are read from its result.
func TestTurnsWithoutWorker(t *testing.T) {
	stopped := &contract.RunResult{Turns: []contract.Turn{{N: 1, Status: contract.TurnCompleted}}}
	for name, tc := range map[string]struct {
		status enumspb.WorkflowExecutionStatus
		err    error
		result *contract.RunResult
		want   string
		turns  int
	}{
		"no poller":            {status: running, err: serviceerror.NewFailedPrecondition("no poller seen for task queue recently"), want: serve.NoWorker.Name},
		"query timeout":        {status: running, err: serviceerror.NewDeadlineExceeded("query timed out before a worker could process it"), want: serve.NoWorker.Name},
		"Temporal unavailable": {status: running, err: serviceerror.NewUnavailable("down"), want: serve.NoTemporal.Name},
		"completed":            {status: completed, err: serviceerror.NewFailedPrecondition("no poller"), result: stopped, turns: 1},
		"failed":               {status: enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, err: serviceerror.NewFailedPrecondition("no poller")},
	} {
		t.Run(name, func(t *testing.T) {
			turns, open, err := newSession(t, tc.status, nil, tc.err, tc.result).Turns(t.Context(), &serve.Run{Summary: runs.Summary{ID: "r"}})
			if got := problemName(err); got != tc.want || len(turns) != tc.turns {
				t.Errorf("problem = %q with %d turns, want %q with %d", got, len(turns), tc.want, tc.turns)
			}
			if err == nil && open {
				t.Error("open = true, want false")
			}
		})
	}
}

// polledQueue is a service whose task queues were last polled at the given time.
type polledQueue struct {
	workflowservice.WorkflowServiceClient
	polled time.Time
}

func (q polledQueue) DescribeTaskQueue(context.Context, *workflowservice.DescribeTaskQueueRequest, ...grpc.CallOption) (*workflowservice.DescribeTaskQueueResponse, error) {
	return &workflowservice.DescribeTaskQueueResponse{Pollers: []*taskqueuepb.PollerInfo{{LastAccessTime: timestamppb.New(q.polled)}}}, nil
}

// TestUnresponsiveSession checks that, if a query times out, it is repeated and Updates are sent only
// if a worker has polled since, because that worker may have been busy.
func TestUnresponsiveSession(t *testing.T) {
	for name, tc := range map[string]struct {
		polled  time.Time
		queries int
	}{
		"no worker":   {time.Now().Add(-time.Minute), 1},
		"busy worker": {time.Now().Add(time.Hour), 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSession(t, running, nil, serviceerror.NewDeadlineExceeded("query timed out before a worker could process it"), nil)
			c := s.Client.(*mocks.Client)
			c.On("WorkflowService").Return(polledQueue{polled: tc.polled})
			c.On("UpdateWorkflow", mock.Anything, mock.Anything).Return(nil, serviceerror.NewNotFound("ended"))
			run, err := s.Find(t.Context(), "r")
			if err != nil || !run.IsTurn {
				t.Fatalf("session = %+v, %v", run, err)
			}
			_, _, err = s.Turns(t.Context(), run)
			if got := problemName(err); got != serve.NoWorker.Name {
				t.Errorf("Turns: %v, want %s", err, serve.NoWorker.Name)
			}
			c.AssertNumberOfCalls(t, "QueryWorkflow", tc.queries)
			want, sent := serve.NoWorker.Name, 0
			if tc.queries > 1 {
				want, sent = serve.RunEnded.Name, 2
			}
			for method, err := range map[string]error{"Resume": s.Resume(t.Context(), run, contract.PromptInput{ID: "t", Prompt: "go"}), "Stop": s.Stop(t.Context(), run, "me")} {
				var p *serve.Problem
				if problemName(err) != want || !errors.As(err, &p) || p.Remedy == "" {
					t.Errorf("%s: %v, want %s with a remedy", method, err, want)
				}
			}
			c.AssertNumberOfCalls(t, "UpdateWorkflow", sent)
		})
	}
}

// TestFindTurns checks that each turn of a session can be found as a run, even while its prompt is queued.
func TestFindTurns(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	turns := []contract.Turn{{N: 1, Status: contract.TurnCompleted, StartedAt: &at, EndedAt: &at}, {ID: "next", Status: contract.TurnQueued},
		{ID: "never", Status: contract.TurnStopped, EndedAt: &at}}
	s := newSession(t, running, turns, nil, nil)
	for id, want := range map[string]string{"r": "completed", serve.TurnID("r", "next"): "running", serve.TurnID("r", "never"): "cancelled"} {
		run, err := s.Find(t.Context(), id)
		if err != nil || run.Status != want || (run.Closed == nil) != (want == "running") {
			t.Errorf("Find(%q) = %+v, %v, want status %s", id, run, err, want)
		}
	}
	if _, err := s.Find(t.Context(), serve.TurnID("r", "other")); problemName(err) != serve.UnknownRun.Name {
		t.Errorf("Find of an unknown turn: %v, want %s", err, serve.UnknownRun.Name)
	}
}
