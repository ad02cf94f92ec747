package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	protocolpb "go.temporal.io/api/protocol/v1"
	querypb "go.temporal.io/api/query/v1"
	"go.temporal.io/api/serviceerror"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"weft/activities/contract"
)

// maxTask is the maximum size in bytes of a workflow task's completion. The server terminates
// a run whose task is completed with more than 4 MiB.
const maxTask = 4<<20 - 64<<10

// answerOmitted is the failure type of a query whose answer did not fit into the completion of
// its workflow task. The server passes the failure on to the caller.
const answerOmitted = "answer_omitted"

// boundAnswers omits query answers that do not fit into the completion of a workflow task, besides its
// commands and the rejected Updates that the SDK sends back. [RepeatRequests] repeats such a query.
func boundAnswers(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if task, ok := req.(*workflowservice.RespondWorkflowTaskCompletedRequest); ok {
		omitAnswers(task)
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

// omitAnswers replaces answers with failures, the longest first, until the completion fits.
func omitAnswers(task *workflowservice.RespondWorkflowTaskCompletedRequest) {
	for proto.Size(task) > maxTask {
		longest, bytes := "", 0
		for id, q := range task.GetQueryResults() {
			if n := proto.Size(q.GetAnswer()); n > bytes {
				longest, bytes = id, n
			}
		}
		if longest == "" {
			return // the interpreter keeps everything else within bounds
		}
		text := fmt.Sprintf("the answer has %d bytes and does not fit into the workflow task with its commands; retry the query", bytes)
		task.QueryResults[longest] = &querypb.WorkflowQueryResult{ResultType: enumspb.QUERY_RESULT_TYPE_FAILED, ErrorMessage: text,
			Failure: &failurepb.Failure{Message: text, FailureInfo: &failurepb.Failure_ApplicationFailureInfo{
				ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: answerOmitted},
			}}}
	}
}

// queryAttempts is the maximum number of attempts of a query for which the SDK fails to replay the history.
const queryAttempts = 3

// RepeatRequests is a gRPC interceptor that repeats requests that failed without an effect. Until ctx is done, it repeats a query
// whose answer was omitted, and an Update whose workflow task failed before the run accepted it, as happens if a signal arrives
// while the run continues as new. It repeats a query a few times if the SDK could not replay the history: a query that reaches a
// worker without the run in its cache, while the run makes progress, can fail with "[TMPRL1100] invalid state transition"
// for no reason (go.temporal.io/sdk, issue 755). Heartbeats are repeated by [repeatHeartbeat].
func RepeatRequests(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if _, ok := req.(*workflowservice.RecordActivityTaskHeartbeatRequest); ok && activity.IsActivity(ctx) {
		return repeatHeartbeat(ctx, func(ctx context.Context) error { return invoke(ctx, method, req, reply, cc, opts...) })
	}
	for attempt, pause := 1, 50*time.Millisecond; ; attempt++ {
		err := invoke(ctx, method, req, reply, cc, opts...)
		if err == nil {
			return nil
		}
		// The order of interceptors determines whether the error is a gRPC status or already an API error.
		typed := serviceerror.FromStatus(serviceerror.ToStatus(err))
		repeated := false
		switch req.(type) {
		case *workflowservice.UpdateWorkflowExecutionRequest:
			_, repeated = errors.AsType[*serviceerror.WorkflowNotReady](typed)
		case *workflowservice.QueryWorkflowRequest:
			failed, ok := errors.AsType[*serviceerror.QueryFailed](typed)
			if ok && attempt < queryAttempts && strings.Contains(failed.Message, "[TMPRL1100]") {
				continue
			}
			repeated = ok && failed.Failure.GetApplicationFailureInfo().GetType() == answerOmitted
		}
		if !repeated {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
			pause = min(2*pause, time.Second)
		}
	}
}

// repeatHeartbeat retries a heartbeat for up to the activity's heartbeat timeout. The SDK limits a heartbeat to its throttle
// interval or a second, and then cancels the activity although the server still considers it alive.
func repeatHeartbeat(ctx context.Context, record func(context.Context) error) error {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), activity.GetInfo(ctx).HeartbeatTimeout)
	defer cancel()
	for {
		err := record(limited)
		switch serviceerror.ToStatus(err).Code() {
		case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Aborted, codes.Internal:
		default:
			return err
		}
		select {
		case <-limited.Done():
			return err
		case <-time.After(100 * time.Millisecond):
			if errors.Is(ctx.Err(), context.Canceled) {
				return err // the activity has ended
			}
		}
	}
}

// maxUpdates is the maximum total size in bytes of the Updates of one workflow task: it fits one Update
// with the largest answer that a run accepts.
const maxUpdates = 1<<20 + 64<<10

// boundUpdates replaces the arguments of Updates that exceed the limit of one workflow task with a
// failure. The SDK sends Updates back with its acceptance or rejection, the server writes accepted
// ones into history, and it terminates a run whose task has more than 4 MiB.
func boundUpdates(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if err := invoke(ctx, method, req, reply, cc, opts...); err != nil {
		return err
	}
	switch reply := reply.(type) {
	case *workflowservice.PollWorkflowTaskQueueResponse:
		return bound(reply.GetMessages())
	case *workflowservice.RespondWorkflowTaskCompletedResponse:
		return bound(reply.GetWorkflowTask().GetMessages()) // the next task may come with it
	}
	return nil
}

// bound replaces the Updates that exceed the limit of one workflow task.
func bound(messages []*protocolpb.Message) error {
	total := 0
	for _, m := range messages {
		n := len(m.GetBody().GetValue())
		var why *contract.Failure
		switch {
		case n > maxUpdates:
			why = &contract.Failure{Class: contract.ClassTooLarge,
				Text:   fmt.Sprintf("the answer has %d bytes; a run accepts at most %d", n, maxUpdates),
				Remedy: "store the data elsewhere and pass a reference to it"}
		case total+n > maxUpdates:
			why = &contract.Failure{Class: contract.ClassUnavailable,
				Text:   fmt.Sprintf("%d bytes of Updates arrived together; a run accepts %d at a time", total+n, maxUpdates),
				Remedy: "send it again"}
		default:
			total += n
			continue
		}
		if err := replace(m, why); err != nil {
			return err
		}
	}
	return nil
}

func replace(m *protocolpb.Message, why *contract.Failure) error {
	var request updatepb.Request
	if !m.GetBody().MessageIs(&request) {
		return nil
	}
	if err := m.GetBody().UnmarshalTo(&request); err != nil {
		return fmt.Errorf("read an update: %w", err)
	}
	p, err := contract.Unreadable(why)
	if err != nil {
		return err
	}
	request.Input.Args = &commonpb.Payloads{Payloads: []*commonpb.Payload{p}}
	request.Input.Header = nil
	return m.Body.MarshalFrom(&request)
}

// plainHeaders drops headers that gRPC cannot send. The SDK puts the run's id into one, as a hint
// for routers. Clients may choose ids with non-ASCII characters, and no worker could ever complete
// a workflow task of such a run.
func plainHeaders(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	headers, _ := metadata.FromOutgoingContext(ctx) // a copy
	all := len(headers)
	maps.DeleteFunc(headers, func(key string, values []string) bool {
		return !strings.HasSuffix(key, "-bin") && strings.ContainsFunc(strings.Join(values, ""), func(r rune) bool { return r < ' ' || r > '~' })
	})
	if len(headers) < all {
		ctx = metadata.NewOutgoingContext(ctx, headers)
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}
