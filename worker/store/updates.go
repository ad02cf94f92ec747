package store

import (
	"context"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	protocolpb "go.temporal.io/api/protocol/v1"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"

	"weft/activities/contract"
)

// maxUpdates is how many bytes of Updates one workflow task may have: one of the largest answer that a
// run accepts.
const maxUpdates = 1<<20 + 64<<10

// boundUpdates replaces the arguments of Updates that are too much for one workflow task by a
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

// bound replaces what is too much of the Updates of one workflow task.
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
