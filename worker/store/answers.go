package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	querypb "go.temporal.io/api/query/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// maxTask is how many bytes the completion of one workflow task may have. The server terminates
// a run whose task is completed with more than 4 MiB.
const maxTask = 4<<20 - 64<<10

// answerOmitted is the type of the failure of a query whose answer did not fit into the completion of
// its workflow task. The server passes the failure on to the caller.
const answerOmitted = "answer_omitted"

// boundAnswers omits the answers of queries that are too long to go with the commands of a workflow
// task and with the Updates that it rejects, which the SDK sends back. A client with the store's
// options repeats such a query by itself.
func boundAnswers(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	switch req := req.(type) {
	case *workflowservice.RespondWorkflowTaskCompletedRequest:
		omitAnswers(req)
	case *workflowservice.QueryWorkflowRequest:
		return repeatQuery(ctx, func() error { return invoke(ctx, method, req, reply, cc, opts...) })
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

// omitAnswers replaces answers by failures, the longest first, until the rest fits.
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

// repeatQuery queries until the answer is not omitted, or ctx is done.
func repeatQuery(ctx context.Context, query func() error) error {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := query()
		if !isOmitted(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// isOmitted reports whether a query failed because its answer was omitted. Whether the error is a gRPC
// status or already one of the API's depends on the order of interceptors.
func isOmitted(err error) bool {
	failed, ok := errors.AsType[*serviceerror.QueryFailed](serviceerror.FromStatus(serviceerror.ToStatus(err)))
	return ok && failed.Failure.GetApplicationFailureInfo().GetType() == answerOmitted
}
