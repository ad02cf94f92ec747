// Package runstest provides fake responses of a server and a worker, for tests.
package runstest

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/mocks"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weft/activities/contract"
)

// Requests returns requests of every kind, opened a minute apart.
func Requests() []contract.Request {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	due := at.Add(time.Hour)
	return []contract.Request{
		{ID: "a#1/confirm/1.1-0000aaaa", Kind: contract.RequestConfirm, Node: "a", Step: 1, Execution: "a#1", At: "x.json:7", Text: "a wants to call pay", Tool: "pay",
			Connection: "crm", Arguments: json.RawMessage(`{"to": "A\u0026B"}`), OpenedAt: at, DueAt: &due},
		{ID: "a#1/client/1.2-1111aaaa", Kind: contract.RequestToolResult, Node: "a", Step: 1, Execution: "a#1", Text: "run look_up", Tool: "look_up",
			Call: &contract.ContentRef{SHA: "s"}, OpenedAt: at.Add(time.Minute)},
		{ID: "b#2/model/1~1-2222bbbb", Kind: contract.RequestRetry, Node: "b", Step: 2, Execution: "b#2", Text: "no\x1b[2J key", OpenedAt: at.Add(2 * time.Minute)},
		{ID: "it's/ask-3333bbbb", Kind: contract.RequestMessage, Text: "Which month?", OpenedAt: at.Add(3 * time.Minute)},
	}
}

// Answer returns v as the answer of a query.
func Answer(t testing.TB, v any) converter.EncodedValue {
	t.Helper()
	p, err := converter.GetDefaultDataConverter().ToPayloads(v)
	if err != nil {
		t.Fatal(err)
	}
	value := &mocks.Value{}
	value.On("Get", mock.Anything).Return(func(to any) error { return converter.GetDefaultDataConverter().FromPayloads(p, to) })
	return value
}

// Operator is a fake that lists the search attributes of a namespace without a visibility store in SQL.
type Operator struct {
	operatorservice.OperatorServiceClient
	workflowservice.WorkflowServiceClient
	Names []string
	Err   error
}

// Serve makes o the services of a client.
func (o *Operator) Serve(c *mocks.Client) {
	c.On("OperatorService").Return(o)
	c.On("WorkflowService").Return(o)
}

// DescribeNamespace returns a namespace that maps no attributes.
func (o *Operator) DescribeNamespace(context.Context, *workflowservice.DescribeNamespaceRequest, ...grpc.CallOption) (*workflowservice.DescribeNamespaceResponse, error) {
	return &workflowservice.DescribeNamespaceResponse{}, nil
}

// ListSearchAttributes lists Names as keywords.
func (o *Operator) ListSearchAttributes(context.Context, *operatorservice.ListSearchAttributesRequest, ...grpc.CallOption) (*operatorservice.ListSearchAttributesResponse, error) {
	kinds := map[string]enumspb.IndexedValueType{}
	for _, n := range o.Names {
		kinds[n] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	}
	return &operatorservice.ListSearchAttributesResponse{CustomAttributes: kinds}, o.Err
}

// Stored returns a client that lists three runs on two pages.
func Stored(t testing.TB) *mocks.Client {
	t.Helper()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	info := func(id string, status enumspb.WorkflowExecutionStatus, memo any) *workflowpb.WorkflowExecutionInfo {
		p, err := converter.GetDefaultDataConverter().ToPayload(memo)
		if err != nil {
			t.Fatal(err)
		}
		return &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: id}, Status: status,
			StartTime: timestamppb.New(start), CloseTime: timestamppb.New(start.Add(90 * time.Second)),
			Memo: &commonpb.Memo{Fields: map[string]*commonpb.Payload{contract.MemoFlow: p}}}
	}
	c := &mocks.Client{}
	page := func(token, next string, all ...*workflowpb.WorkflowExecutionInfo) {
		c.On("ListWorkflow", mock.Anything, mock.MatchedBy(func(r *workflowservice.ListWorkflowExecutionsRequest) bool {
			return string(r.GetNextPageToken()) == token && strings.HasPrefix(r.GetQuery(), `WorkflowType = "Flow" AND ParentWorkflowId IS NULL AND ExecutionStatus `)
		})).Return(&workflowservice.ListWorkflowExecutionsResponse{Executions: all, NextPageToken: []byte(next)}, nil)
	}
	page("", "two", info("a", enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, "Tri\x1b[2Jage"), info("b", enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, 7))
	page("two", "", info("c", enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, ""))
	return c
}
