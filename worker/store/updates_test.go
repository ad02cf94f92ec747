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

// TestBoundUpdates takes a workflow task with Updates of so many bytes from the server, by itself
// and with the answer to the task before.
func TestBoundUpdates(t *testing.T) {
	tests := map[string]struct {
		sizes   []int
		classes []string
	}{
		"one of the largest":             {[]int{1 << 20}, []string{""}},
		"one that is too large":          {[]int{1 << 21}, []string{contract.ClassTooLarge}},
		"many small ones":                {[]int{1000, 1000, 1000, 1000}, []string{"", "", "", ""}},
		"large ones together":            {[]int{900_000, 900_000, 900_000}, []string{"", contract.ClassUnavailable, contract.ClassUnavailable}},
		"a small one behind large ones":  {[]int{900_000, 900_000, 1000}, []string{"", contract.ClassUnavailable, ""}},
		"a good one behind one too much": {[]int{1 << 21, 900_000}, []string{contract.ClassTooLarge, ""}},
	}
	own := &payloads{DataConverter: converter.GetDefaultDataConverter()}
	for name, tc := range tests {
		for _, behind := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, behind another task: %t", name, behind), func(t *testing.T) {
				var messages []*protocolpb.Message
				for _, n := range tc.sizes {
					args, err := own.ToPayloads(strings.Repeat("x", n))
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
				if behind {
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
					if err := own.FromPayloads(request.Input.Args, &got); err != nil {
						class = contract.FailureOf(err).Class
					}
					if class != tc.classes[i] || class == "" && len(got) != tc.sizes[i] {
						t.Errorf("the Update of %d bytes gives %q and %d bytes, want %q", tc.sizes[i], class, len(got), tc.classes[i])
					}
				}
			})
		}
	}
}
