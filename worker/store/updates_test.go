package store

import (
	"context"
	"fmt"
	"strings"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	protocolpb "go.temporal.io/api/protocol/v1"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"

	"weft/activities/contract"
)

// TestBoundUpdates checks that Updates beyond the size limit are rejected, in a polled workflow task and in one
// that the server returns with the completion of the previous task.
func TestBoundUpdates(t *testing.T) {
	tests := map[string]struct {
		sizes   []int
		classes []string
	}{
		"one of maximum size":           {[]int{1 << 20}, []string{""}},
		"one too large":                 {[]int{1 << 21}, []string{contract.ClassTooLarge}},
		"several small ones":            {[]int{1000, 1000, 1000, 1000}, []string{"", "", "", ""}},
		"several large ones":            {[]int{900_000, 900_000, 900_000}, []string{"", contract.ClassUnavailable, contract.ClassUnavailable}},
		"small one after large ones":    {[]int{900_000, 900_000, 1000}, []string{"", contract.ClassUnavailable, ""}},
		"valid one after one too large": {[]int{1 << 21, 900_000}, []string{contract.ClassTooLarge, ""}},
	}
	conv := &payloads{DataConverter: converter.GetDefaultDataConverter()}
	for name, tc := range tests {
		for _, completed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, after a completed task: %t", name, completed), func(t *testing.T) {
				var messages []*protocolpb.Message
				for _, n := range tc.sizes {
					args, err := conv.ToPayloads(strings.Repeat("x", n))
					if err != nil {
						t.Fatal(err)
					}
					body, err := anypb.New(&updatepb.Request{Input: &updatepb.Input{Name: "message", Args: args, Header: &commonpb.Header{}}})
					if err != nil {
						t.Fatal(err)
					}
					messages = append(messages, &protocolpb.Message{Body: body})
				}
				polled := &workflowservice.PollWorkflowTaskQueueResponse{Messages: messages}
				next := &workflowservice.RespondWorkflowTaskCompletedResponse{WorkflowTask: polled}
				answer := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }
				var task any = polled
				if completed {
					task = next
				}
				if err := boundUpdates(t.Context(), "", nil, task, nil, answer); err != nil {
					t.Fatal(err)
				}
				for i, m := range messages {
					var request updatepb.Request
					if err := m.Body.UnmarshalTo(&request); err != nil {
						t.Fatal(err)
					}
					var got string
					class := ""
					if err := conv.FromPayloads(request.Input.Args, &got); err != nil {
						class = contract.FailureOf(err).Class
					}
					if class != tc.classes[i] || class == "" && len(got) != tc.sizes[i] {
						t.Errorf("Update of %d bytes: error class %q and %d bytes, want %q", tc.sizes[i], class, len(got), tc.classes[i])
					}
				}
			})
		}
	}
}
