package store

import (
	"context"
	"encoding/json"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	protocolpb "go.temporal.io/api/protocol/v1"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"weft/activities/contract"
)

// refuseLargeUpdates puts a failure in the place of arguments of Updates that Temporal takes
// from a client and not from a worker: the SDK sends what a run refuses back with the refusal,
// and a workflow task that sends too much fails, and with it every answer that comes meanwhile.
// No run takes an answer of that size.
func refuseLargeUpdates(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if err := invoke(ctx, method, req, reply, cc, opts...); err != nil {
		return err
	}
	task, ok := reply.(*workflowservice.PollWorkflowTaskQueueResponse)
	if !ok {
		return nil
	}
	for _, m := range task.GetMessages() {
		if err := shrink(m); err != nil {
			return err
		}
	}
	return nil
}

// shrink replaces an Update's arguments where they are too large to be sent back.
func shrink(m *protocolpb.Message) error {
	var request updatepb.Request
	if len(m.GetBody().GetValue()) < Inline || !m.GetBody().MessageIs(&request) {
		return nil
	}
	if err := m.GetBody().UnmarshalTo(&request); err != nil {
		return fmt.Errorf("read an update: %w", err)
	}
	raw, err := json.Marshal(contract.Failure{Class: contract.ClassTooLarge,
		Text:   fmt.Sprintf("the answer is %d bytes, which is more than a run takes", proto.Size(request.GetInput().GetArgs())),
		Remedy: "keep the data elsewhere and pass a reference to it"})
	if err != nil {
		return err
	}
	request.Input.Args = &commonpb.Payloads{Payloads: []*commonpb.Payload{
		{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encodingLost)}, Data: raw}}}
	request.Input.Header = nil
	return m.Body.MarshalFrom(&request)
}
