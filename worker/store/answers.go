package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	querypb "go.temporal.io/api/query/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// maxTask is how many bytes what a worker says to one workflow task may have. The server terminates
// a run whose task is answered with more than 4 MiB.
const maxTask = 4<<20 - 64<<10

// askAgain ends the error of a query whose answer did not go with its task.
const askAgain = "of a workflow task: ask again"

// boundAnswers leaves out the answers of queries that are too long to go with what a run does and
// with the Updates that it refuses, which the SDK sends back. Whoever asks through a client of the
// store's asks again by itself.
func boundAnswers(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	switch req := req.(type) {
	case *workflowservice.RespondWorkflowTaskCompletedRequest:
		leaveOut(req)
	case *workflowservice.QueryWorkflowRequest:
		return insist(ctx, func() error { return invoke(ctx, method, req, reply, cc, opts...) })
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

// leaveOut puts errors in the place of answers, the longest first, until the rest fits.
func leaveOut(task *workflowservice.RespondWorkflowTaskCompletedRequest) {
	for proto.Size(task) > maxTask {
		longest, bytes := "", 0
		for id, q := range task.GetQueryResults() {
			if n := proto.Size(q.GetAnswer()); n > bytes {
				longest, bytes = id, n
			}
		}
		if longest == "" {
			return // the interpreter keeps all else within bounds
		}
		task.QueryResults[longest] = &querypb.WorkflowQueryResult{ResultType: enumspb.QUERY_RESULT_TYPE_FAILED,
			ErrorMessage: fmt.Sprintf("the answer has %d bytes, too many to go with all else %s", bytes, askAgain)}
	}
}

// insist asks until an answer comes.
func insist(ctx context.Context, ask func() error) error {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := ask()
		if err == nil || !strings.Contains(err.Error(), askAgain) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}
