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

// sessionThat is a Temporal with one session, which answers a question with turns or an error.
func sessionThat(t *testing.T, status enumspb.WorkflowExecutionStatus, answer []contract.Turn, silent error, result *contract.RunResult) *Backend {
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
	raw, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	value := &mocks.Value{}
	value.On("Get", mock.Anything).Return(func(to any) error { return json.Unmarshal(raw, to) })
	if silent != nil {
		c.On("QueryWorkflow", mock.Anything, "r", "", contract.QueryTurns).Return(nil, silent)
	} else {
		c.On("QueryWorkflow", mock.Anything, "r", "", contract.QueryTurns).Return(value, nil)
	}
	return &Backend{Connection: &runs.Connection{Temporal: &config.Temporal{Client: c}}}
}

const running, completed = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED

// A session without a worker is no fault of the door's or of Temporal's, in whatever words the
// server says so; one that was stopped is read from its result.
func TestTurnsWithoutAWorker(t *testing.T) {
	stopped := &contract.RunResult{Turns: []contract.Turn{{N: 1, Status: contract.TurnCompleted}}}
	for name, tc := range map[string]struct {
		status enumspb.WorkflowExecutionStatus
		err    error
		result *contract.RunResult
		want   string
		turns  int
	}{
		"it is known that none is there": {status: running, err: serviceerror.NewFailedPrecondition("no poller seen for task queue recently"), want: serve.NoWorker.Name},
		"the server has waited":          {status: running, err: serviceerror.NewDeadlineExceeded("query timed out before a worker could process it"), want: serve.NoWorker.Name},
		"Temporal is away":               {status: running, err: serviceerror.NewUnavailable("down"), want: serve.NoTemporal.Name},
		"it has ended":                   {status: completed, err: serviceerror.NewFailedPrecondition("no poller"), result: stopped, turns: 1},
		"it has failed":                  {status: enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, err: serviceerror.NewFailedPrecondition("no poller")},
	} {
		t.Run(name, func(t *testing.T) {
			turns, open, err := sessionThat(t, tc.status, nil, tc.err, tc.result).Turns(t.Context(), &serve.Run{Summary: runs.Summary{ID: "r"}})
			if got := kind(err); got != tc.want || len(turns) != tc.turns {
				t.Errorf("the problem is %q with %d turns, want %q with %d", got, len(turns), tc.want, tc.turns)
			}
			if err == nil && open {
				t.Error("it is open")
			}
		})
	}
}

// queueThat is a task queue that a worker has asked for work at a time.
type queueThat struct {
	workflowservice.WorkflowServiceClient
	polled time.Time
}

func (q queueThat) DescribeTaskQueue(context.Context, *workflowservice.DescribeTaskQueueRequest, ...grpc.CallOption) (*workflowservice.DescribeTaskQueueResponse, error) {
	return &workflowservice.DescribeTaskQueueResponse{Pollers: []*taskqueuepb.PollerInfo{{LastAccessTime: timestamppb.New(q.polled)}}}, nil
}

// A session's worker that does not answer is asked once for a request, and a prompt is not sent
// into the void: only a worker that still takes work may have been too busy.
func TestSilentSessionIsAskedOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		polled time.Time
		asked  int
	}{
		"no worker since":  {time.Now().Add(-time.Minute), 1},
		"a worker is busy": {time.Now().Add(time.Hour), 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := sessionThat(t, running, nil, serviceerror.NewDeadlineExceeded("query timed out before a worker could process it"), nil)
			c := s.Client.(*mocks.Client)
			c.On("WorkflowService").Return(queueThat{polled: tc.polled})
			c.On("UpdateWorkflow", mock.Anything, mock.Anything).Return(nil, serviceerror.NewNotFound("ended"))
			run, err := s.Find(t.Context(), "r")
			if err != nil || !run.IsTurn {
				t.Fatalf("the session is %+v, %v", run, err)
			}
			_, _, err = s.Turns(t.Context(), run)
			if got := kind(err); got != serve.NoWorker.Name {
				t.Errorf("its turns: %v", err)
			}
			c.AssertNumberOfCalls(t, "QueryWorkflow", tc.asked)
			want, sent := serve.NoWorker.Name, 0
			if tc.asked > 1 {
				want, sent = serve.RunEnded.Name, 2
			}
			for what, err := range map[string]error{"a prompt": s.Resume(t.Context(), run, contract.PromptInput{ID: "t", Prompt: "go"}), "a stop": s.Stop(t.Context(), run, "me")} {
				var p *serve.Problem
				if kind(err) != want || !errors.As(err, &p) || p.Remedy == "" {
					t.Errorf("%s: %v, want %s", what, err, want)
				}
			}
			c.AssertNumberOfCalls(t, "UpdateWorkflow", sent)
		})
	}
}

// A turn is a run while its prompt is queued, too; one that nobody asked for is none.
func TestTurnsAreRuns(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	turns := []contract.Turn{{N: 1, Status: contract.TurnCompleted, StartedAt: &at, EndedAt: &at}, {ID: "next", Status: contract.TurnQueued},
		{ID: "never", Status: contract.TurnStopped, EndedAt: &at}}
	s := sessionThat(t, running, turns, nil, nil)
	for id, want := range map[string]string{"r": "completed", serve.TurnID("r", "next"): "running", serve.TurnID("r", "never"): "cancelled"} {
		run, err := s.Find(t.Context(), id)
		if err != nil || run.Status != want || (run.Closed == nil) != (want == "running") {
			t.Errorf("%s is %+v, %v, want %s", id, run, err, want)
		}
	}
	if _, err := s.Find(t.Context(), serve.TurnID("r", "other")); kind(err) != serve.UnknownRun.Name {
		t.Errorf("a turn that nobody asked for: %v", err)
	}
}
