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

func ofBytes(n int) *commonpb.Payloads {
	return &commonpb.Payloads{Payloads: []*commonpb.Payload{{Data: []byte(strings.Repeat("x", n))}}}
}

// TestBoundAnswers has answers of queries go with what a task holds besides, as far as there is room.
func TestBoundAnswers(t *testing.T) {
	tests := map[string]struct {
		commands, messages int
		answers            []int
		left               int // how many of the answers are sent
	}{
		"a long answer by itself":                    {answers: []int{1_900_000}, left: 1},
		"a long answer beside commands":              {commands: 1_900_000, answers: []int{1_900_000}, left: 1},
		"and beside refused Updates":                 {commands: 1_900_000, messages: 1_000_000, answers: []int{1_900_000}},
		"a short answer beside them":                 {commands: 1_900_000, messages: 1_000_000, answers: []int{1000}, left: 1},
		"long answers together":                      {answers: []int{1_900_000, 1_900_001, 1_900_002}, left: 2},
		"a short answer beside long ones":            {commands: 1_900_000, answers: []int{1_900_000, 1000, 1_900_000}, left: 2},
		"without a query everything goes as it came": {commands: 3_000_000, messages: 2_000_000},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			task := &workflowservice.RespondWorkflowTaskCompletedRequest{QueryResults: map[string]*querypb.WorkflowQueryResult{},
				Commands: []*commandpb.Command{{Attributes: &commandpb.Command_SignalExternalWorkflowExecutionCommandAttributes{
					SignalExternalWorkflowExecutionCommandAttributes: &commandpb.SignalExternalWorkflowExecutionCommandAttributes{Input: ofBytes(tc.commands)}}}}}
			body, err := anypb.New(ofBytes(tc.messages))
			if err != nil {
				t.Fatal(err)
			}
			task.Messages = []*protocolpb.Message{{Body: body}}
			for i, n := range tc.answers {
				task.QueryResults[strings.Repeat("q", i+1)] = &querypb.WorkflowQueryResult{ResultType: enumspb.QUERY_RESULT_TYPE_ANSWERED, Answer: ofBytes(n)}
			}
			commands, messages := proto.Size(task.Commands[0]), proto.Size(task.Messages[0])
			sent := false
			err = boundAnswers(t.Context(), "", task, nil, nil, func(_ context.Context, _ string, req, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
				sent = req == any(task)
				return nil
			})
			if err != nil || !sent {
				t.Fatalf("the task is not sent: %v", err)
			}
			left := 0
			for _, q := range task.QueryResults {
				switch {
				case q.GetResultType() == enumspb.QUERY_RESULT_TYPE_ANSWERED:
					left++
				case q.GetAnswer() != nil || !strings.Contains(q.GetErrorMessage(), "retry the query") || q.GetFailure().GetApplicationFailureInfo().GetType() != answerOmitted:
					t.Errorf("an omitted one has %v", q)
				}
			}
			if left != tc.left || proto.Size(task) > 4<<20 && len(tc.answers) > 0 {
				t.Errorf("%d answers go with a task of %d bytes, want %d", left, proto.Size(task), tc.left)
			}
			if proto.Size(task.Commands[0]) != commands || proto.Size(task.Messages[0]) != messages {
				t.Error("what is no query's is cut")
			}
		})
	}
}

// TestAnswersAreAskedForAgain has a client ask until the answer goes with a task, and no longer.
func TestAnswersAreAskedForAgain(t *testing.T) {
	task := &workflowservice.RespondWorkflowTaskCompletedRequest{QueryResults: map[string]*querypb.WorkflowQueryResult{"q": {Answer: ofBytes(5 << 20)}}}
	omitAnswers(task)
	q := task.QueryResults["q"]
	again := serviceerror.NewQueryFailedWithFailure(q.GetErrorMessage(), q.GetFailure())
	onWire := serviceerror.ToStatus(again).Err() // as an interceptor inside the SDK's own gets it
	other, sameText := errors.New("this run has no thread"), serviceerror.NewQueryFailed(q.GetErrorMessage())
	tests := map[string]struct {
		says  []error
		wants error
		gives bool // the client gives up before
	}{
		"an answer":            {says: []error{nil}},
		"another error":        {says: []error{other}, wants: other},
		"an answer later":      {says: []error{again, onWire, nil}},
		"only the same text":   {says: []error{sameText}, wants: sameText},
		"an error later":       {says: []error{again, other}, wants: other},
		"a client that leaves": {says: []error{again}, wants: again, gives: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			asked := 0
			err := RepeatRequests(ctx, "", &workflowservice.QueryWorkflowRequest{}, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
				if asked++; tc.gives {
					cancel()
				}
				return tc.says[asked-1]
			})
			if !errors.Is(err, tc.wants) || asked != len(tc.says) {
				t.Errorf("after %d questions: %v, want %v after %d", asked, err, tc.wants, len(tc.says))
			}
		})
	}
}

func TestQueriesThatCannotBeReplayedForAreRepeated(t *testing.T) {
	replay := &serviceerror.QueryFailed{Message: "[TMPRL1100] invalid state transition: attempt to handleInitiatedEvent, CommandType: Signal, ID: 16, state=Created"}
	other := &serviceerror.QueryFailed{Message: "unknown queryType turns"}
	for _, tc := range []struct {
		name string
		errs []error
		want error
		made int
	}{
		{"answered", nil, nil, 1},
		{"answered at the second attempt", []error{replay}, nil, 2},
		{"never replayed", []error{replay, replay, replay, replay}, replay, queryAttempts},
		{"another failure", []error{other}, other, 1},
		{"a failure of the connection", []error{replay, context.Canceled}, context.Canceled, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			made := 0
			err := RepeatRequests(t.Context(), "", &workflowservice.QueryWorkflowRequest{}, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
				if made++; made > len(tc.errs) {
					return nil
				}
				return tc.errs[made-1]
			})
			if !errors.Is(err, tc.want) || made != tc.made {
				t.Errorf("%v after %d attempts, want %v after %d", err, made, tc.want, tc.made)
			}
		})
	}
}

func TestUpdatesOfFailedTasksAreRepeated(t *testing.T) {
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
		{"a signal", &workflowservice.SignalWorkflowExecutionRequest{}, []error{failed}, failed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			made := 0
			err := RepeatRequests(t.Context(), "", tc.req, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
				made++
				return tc.errs[made-1]
			})
			if !errors.Is(err, tc.want) || made != len(tc.errs) {
				t.Errorf("%v after %d attempts, want %v after %d", err, made, tc.want, len(tc.errs))
			}
		})
	}
}

func TestHeartbeatsAreRepeated(t *testing.T) {
	down, gone := serviceerror.NewUnavailable("connection refused"), serviceerror.NewNotFound("activity not found")
	for _, tc := range []struct {
		name string
		errs []error
		want error
	}{
		{"recorded", []error{nil}, nil},
		{"the server is back", []error{down, serviceerror.ToStatus(down).Err(), serviceerror.NewDeadlineExceeded("late"), nil}, nil},
		{"the activity has timed out", []error{down, gone}, gone},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			made := 0
			env.RegisterActivityWithOptions(func(ctx context.Context) error {
				late, cancel := context.WithTimeout(ctx, time.Nanosecond) // the SDK's own bound
				defer cancel()
				err := RepeatRequests(late, "", &workflowservice.RecordActivityTaskHeartbeatRequest{}, nil, nil, func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
					if made++; ctx.Err() != nil {
						return ctx.Err()
					}
					return tc.errs[made-1]
				})
				if !errors.Is(err, tc.want) || made != len(tc.errs) {
					t.Errorf("%v after %d attempts, want %v after %d", err, made, tc.want, len(tc.errs))
				}
				return nil
			}, activity.RegisterOptions{Name: "beat"})
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				o := workflow.ActivityOptions{StartToCloseTimeout: time.Minute, HeartbeatTimeout: time.Minute}
				return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), "beat").Get(ctx, nil)
			})
			if err := env.GetWorkflowError(); err != nil || made == 0 {
				t.Fatal(err)
			}
		})
	}
}
