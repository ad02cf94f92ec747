package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	protocolpb "go.temporal.io/api/protocol/v1"
	querypb "go.temporal.io/api/query/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

func payloadsOfSize(n int) *commonpb.Payloads {
	return &commonpb.Payloads{Payloads: []*commonpb.Payload{{Data: []byte(strings.Repeat("x", n))}}}
}

// TestBoundAnswers checks that a completed task includes as many query answers as its size limit leaves room for.
func TestBoundAnswers(t *testing.T) {
	tests := map[string]struct {
		commands, messages int
		answers            []int
		kept               int // number of answers that are sent
	}{
		"long answer alone":                           {answers: []int{1_900_000}, kept: 1},
		"long answer and commands":                    {commands: 1_900_000, answers: []int{1_900_000}, kept: 1},
		"long answer, commands and rejected Updates":  {commands: 1_900_000, messages: 1_000_000, answers: []int{1_900_000}},
		"short answer, commands and rejected Updates": {commands: 1_900_000, messages: 1_000_000, answers: []int{1000}, kept: 1},
		"several long answers":                        {answers: []int{1_900_000, 1_900_001, 1_900_002}, kept: 2},
		"short answer among long ones":                {commands: 1_900_000, answers: []int{1_900_000, 1000, 1_900_000}, kept: 2},
		"no queries":                                  {commands: 3_000_000, messages: 2_000_000},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			task := &workflowservice.RespondWorkflowTaskCompletedRequest{QueryResults: map[string]*querypb.WorkflowQueryResult{},
				Commands: []*commandpb.Command{{Attributes: &commandpb.Command_SignalExternalWorkflowExecutionCommandAttributes{
					SignalExternalWorkflowExecutionCommandAttributes: &commandpb.SignalExternalWorkflowExecutionCommandAttributes{Input: payloadsOfSize(tc.commands)}}}}}
			body, err := anypb.New(payloadsOfSize(tc.messages))
			if err != nil {
				t.Fatal(err)
			}
			task.Messages = []*protocolpb.Message{{Body: body}}
			for i, n := range tc.answers {
				task.QueryResults[strings.Repeat("q", i+1)] = &querypb.WorkflowQueryResult{ResultType: enumspb.QUERY_RESULT_TYPE_ANSWERED, Answer: payloadsOfSize(n)}
			}
			commands, messages := proto.Size(task.Commands[0]), proto.Size(task.Messages[0])
			sent := false
			err = boundAnswers(t.Context(), "", task, nil, nil, func(_ context.Context, _ string, req, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
				sent = req == any(task)
				return nil
			})
			if err != nil || !sent {
				t.Fatalf("the task was not sent: %v", err)
			}
			kept := 0
			for _, q := range task.QueryResults {
				switch {
				case q.GetResultType() == enumspb.QUERY_RESULT_TYPE_ANSWERED:
					kept++
				case q.GetAnswer() != nil || !strings.Contains(q.GetErrorMessage(), "retry the query") || q.GetFailure().GetApplicationFailureInfo().GetType() != answerOmitted:
					t.Errorf("result of an omitted answer = %v", q)
				}
			}
			if kept != tc.kept || proto.Size(task) > 4<<20 && len(tc.answers) > 0 {
				t.Errorf("the task of %d bytes has %d answers, want %d", proto.Size(task), kept, tc.kept)
			}
			if proto.Size(task.Commands[0]) != commands || proto.Size(task.Messages[0]) != messages {
				t.Error("commands or messages were truncated")
			}
		})
	}
}

// TestOmittedAnswersAreRetried checks that a client repeats a query until its answer is included, and that other errors are not retried.
func TestOmittedAnswersAreRetried(t *testing.T) {
	task := &workflowservice.RespondWorkflowTaskCompletedRequest{QueryResults: map[string]*querypb.WorkflowQueryResult{"q": {Answer: payloadsOfSize(5 << 20)}}}
	omitAnswers(task)
	q := task.QueryResults["q"]
	omitted := serviceerror.NewQueryFailedWithFailure(q.GetErrorMessage(), q.GetFailure())
	onWire := serviceerror.ToStatus(omitted).Err() // as an interceptor inside the SDK's own receives it
	other, sameText := errors.New("this run has no thread"), serviceerror.NewQueryFailed(q.GetErrorMessage())
	tests := map[string]struct {
		errs   []error
		want   error
		cancel bool // the client gives up during the first request
	}{
		"answered":                         {errs: []error{nil}},
		"another error":                    {errs: []error{other}, want: other},
		"answered later":                   {errs: []error{omitted, onWire, nil}},
		"another error with the same text": {errs: []error{sameText}, want: sameText},
		"another error later":              {errs: []error{omitted, other}, want: other},
		"client gives up":                  {errs: []error{omitted}, want: omitted, cancel: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			attempts := 0
			err := RepeatRequests(ctx, "", &workflowservice.QueryWorkflowRequest{}, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
				if attempts++; tc.cancel {
					cancel()
				}
				return tc.errs[attempts-1]
			})
			if !errors.Is(err, tc.want) || attempts != len(tc.errs) {
				t.Errorf("%v after %d attempts, want %v after %d", err, attempts, tc.want, len(tc.errs))
			}
		})
	}
}

func TestQueriesAreRetriedAfterReplayErrors(t *testing.T) {
	replay := &serviceerror.QueryFailed{Message: "[TMPRL1100] invalid state transition: attempt to handleInitiatedEvent, CommandType: Signal, ID: 16, state=Created"}
	other := &serviceerror.QueryFailed{Message: "unknown queryType turns"}
	for _, tc := range []struct {
		name     string
		errs     []error
		want     error
		attempts int
	}{
		{"answered", nil, nil, 1},
		{"answered at the second attempt", []error{replay}, nil, 2},
		{"replay error at every attempt", []error{replay, replay, replay, replay}, replay, queryAttempts},
		{"another error", []error{other}, other, 1},
		{"canceled", []error{replay, context.Canceled}, context.Canceled, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			attempts := 0
			err := RepeatRequests(t.Context(), "", &workflowservice.QueryWorkflowRequest{}, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
				if attempts++; attempts > len(tc.errs) {
					return nil
				}
				return tc.errs[attempts-1]
			})
			if !errors.Is(err, tc.want) || attempts != tc.attempts {
				t.Errorf("%v after %d attempts, want %v after %d", err, attempts, tc.want, tc.attempts)
			}
		})
	}
}

func TestUpdatesAreRetriedAfterFailedTasks(t *testing.T) {
	failed := serviceerror.NewWorkflowNotReady("unexpected workflow task failure")
	onWire := serviceerror.ToStatus(failed).Err()
	done := serviceerror.NewNotFound("workflow execution already completed")
	for _, tc := range []struct {
		name string
		req  any
		errs []error
		want error
	}{
		{"accepted later", &workflowservice.UpdateWorkflowExecutionRequest{}, []error{failed, onWire, nil}, nil},
		{"the run ends", &workflowservice.UpdateWorkflowExecutionRequest{}, []error{failed, done}, done},
		{"a signal is not retried", &workflowservice.SignalWorkflowExecutionRequest{}, []error{failed}, failed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			attempts := 0
			err := RepeatRequests(t.Context(), "", tc.req, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
				attempts++
				return tc.errs[attempts-1]
			})
			if !errors.Is(err, tc.want) || attempts != len(tc.errs) {
				t.Errorf("%v after %d attempts, want %v after %d", err, attempts, tc.want, len(tc.errs))
			}
		})
	}
}

func TestHeartbeatsAreRetried(t *testing.T) {
	down, notFound := serviceerror.NewUnavailable("connection refused"), serviceerror.NewNotFound("activity not found")
	for _, tc := range []struct {
		name string
		errs []error
		want error
	}{
		{"recorded", []error{nil}, nil},
		{"server available again", []error{down, serviceerror.ToStatus(down).Err(), serviceerror.NewDeadlineExceeded("late"), nil}, nil},
		{"activity timed out", []error{down, notFound}, notFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			attempts := 0
			env.RegisterActivityWithOptions(func(ctx context.Context) error {
				expired, cancel := context.WithTimeout(ctx, time.Nanosecond) // as the SDK limits a heartbeat
				defer cancel()
				err := RepeatRequests(expired, "", &workflowservice.RecordActivityTaskHeartbeatRequest{}, nil, nil, func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
					if attempts++; ctx.Err() != nil {
						return ctx.Err()
					}
					return tc.errs[attempts-1]
				})
				if !errors.Is(err, tc.want) || attempts != len(tc.errs) {
					t.Errorf("%v after %d attempts, want %v after %d", err, attempts, tc.want, len(tc.errs))
				}
				return nil
			}, activity.RegisterOptions{Name: "beat"})
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				o := workflow.ActivityOptions{StartToCloseTimeout: time.Minute, HeartbeatTimeout: time.Minute}
				return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), "beat").Get(ctx, nil)
			})
			if err := env.GetWorkflowError(); err != nil || attempts == 0 {
				t.Fatal(err)
			}
		})
	}
}
