// Package historytest builds event histories for tests.
package historytest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weft/activities/contract"
)

// History builds events, a tenth of a second apart.
type History struct {
	T testing.TB
	// Start is the time of the first event; zero means a fixed default.
	Start  time.Time
	Events []*historypb.HistoryEvent
}

// New returns an empty history.
func New(t testing.TB) *History { return &History{T: t} }

// Add adds an event with attributes, if any, and returns its id.
func (h *History) Add(kind enumspb.EventType, attributes proto.Message) int64 {
	if h.Start.IsZero() {
		h.Start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	}
	e := &historypb.HistoryEvent{EventId: int64(len(h.Events) + 1), EventType: kind}
	e.EventTime = timestamppb.New(h.Start.Add(time.Duration(len(h.Events)) * 100 * time.Millisecond))
	if attributes != nil {
		m := e.ProtoReflect()
		fields := m.Descriptor().Oneofs().ByName("attributes").Fields()
		for i := range fields.Len() {
			if f := fields.Get(i); f.Message() == attributes.ProtoReflect().Descriptor() {
				m.Set(f, protoreflect.ValueOfMessage(attributes.ProtoReflect()))
			}
		}
	}
	h.Events = append(h.Events, e)
	return e.EventId
}

// Payload encodes a value.
func (h *History) Payload(v any) *commonpb.Payloads {
	h.T.Helper()
	p, err := converter.GetDefaultDataConverter().ToPayloads(v)
	if err != nil {
		h.T.Fatal(err)
	}
	return p
}

// Begin adds the start of a flow. If before is not "", it continues that run.
func (h *History) Begin(before string, in contract.RunInput) {
	h.Add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, &historypb.WorkflowExecutionStartedEventAttributes{
		WorkflowType: &commonpb.WorkflowType{Name: contract.WorkflowFlow}, ContinuedExecutionRunId: before, Input: h.Payload(in)})
}

// Signalled adds a signal.
func (h *History) Signalled(name string, arg any) {
	h.Add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED, &historypb.WorkflowExecutionSignaledEventAttributes{
		SignalName: name, Input: h.Payload(arg)})
}

// Open adds the open requests in the memo of a root run; more is the number of further requests.
func (h *History) Open(more int, open ...contract.Request) {
	h.Add(enumspb.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED, &historypb.WorkflowPropertiesModifiedEventAttributes{UpsertedMemo: &commonpb.Memo{
		Fields: map[string]*commonpb.Payload{contract.MemoRequests: h.Payload(contract.OpenRequests{Requests: open, More: more}).Payloads[0]}}})
}

// Scheduled adds the scheduling of an activity.
func (h *History) Scheduled(id, kind string, in any) int64 {
	return h.Add(enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, &historypb.ActivityTaskScheduledEventAttributes{
		ActivityId: id, ActivityType: &commonpb.ActivityType{Name: kind}, Input: h.Payload(in)})
}

// Started adds the start of an activity.
func (h *History) Started(scheduled int64, attempt int32, last *failurepb.Failure) {
	h.Add(enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED, &historypb.ActivityTaskStartedEventAttributes{
		ScheduledEventId: scheduled, Attempt: attempt, LastFailure: last})
}

// Completed adds the result of an activity.
func (h *History) Completed(scheduled int64, out any) {
	h.Add(enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED, &historypb.ActivityTaskCompletedEventAttributes{
		ScheduledEventId: scheduled, Result: h.Payload(out)})
}

// Call adds an activity from its scheduling to its result.
func (h *History) Call(id, kind string, in, out any) {
	s := h.Scheduled(id, kind, in)
	h.Started(s, 1, nil)
	h.Completed(s, out)
}

// Child adds the start of a child workflow.
func (h *History) Child(id, workflow string) int64 {
	init := h.Add(enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED, nil)
	h.Add(enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED, &historypb.ChildWorkflowExecutionStartedEventAttributes{
		InitiatedEventId: init, WorkflowType: &commonpb.WorkflowType{Name: workflow},
		WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: "run of " + id}})
	return init
}

// ChildDone adds the end of a child workflow.
func (h *History) ChildDone(init int64) {
	h.Add(enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED, &historypb.ChildWorkflowExecutionCompletedEventAttributes{InitiatedEventId: init})
}

// ContinuedAsNew adds the end of a run that another one continues.
func (h *History) ContinuedAsNew(run string) {
	h.Add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW, &historypb.WorkflowExecutionContinuedAsNewEventAttributes{NewExecutionRunId: run})
}

// Message encodes a message as in a history.
func (h *History) Message(m contract.Message) json.RawMessage {
	h.T.Helper()
	return encode(h.T, &m)
}

func encode(t testing.TB, m *contract.Message) json.RawMessage {
	t.Helper()
	raw, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Answer returns a model's result; names are the tools that it calls.
func Answer(t testing.TB, text string, names ...string) *contract.ModelResult {
	t.Helper()
	m := contract.Message{Role: contract.RoleAssistant, Text: text}
	for i, n := range names {
		m.Calls = append(m.Calls, contract.ToolCall{ID: fmt.Sprint(i), Name: n})
	}
	return &contract.ModelResult{Message: encode(t, &m), Model: "acme/m", Usage: contract.Usage{Calls: 1, Input: 12, Output: 3}}
}

// ToolMessage returns a tool's result.
func ToolMessage(t testing.TB, text string, failed bool) *contract.ToolResult {
	t.Helper()
	return &contract.ToolResult{Message: encode(t, &contract.Message{Role: contract.RoleTool, Text: text, Error: failed}), Error: failed}
}

// Recorded reads a history of the replay tests. dir is the folder tests.
func Recorded(t testing.TB, dir, name string) *History {
	t.Helper()
	raw, err := os.ReadFile(dir + "/testdata/history/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var h historypb.History
	if err := (temporalproto.CustomJSONUnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, &h); err != nil {
		t.Fatal(err)
	}
	return &History{T: t, Events: h.GetEvents()}
}

// RecordedTree returns the source of a recorded run and the named children; other children are missing.
func RecordedTree(t testing.TB, dir, root string, children ...string) func(ctx context.Context, id, run string) ([]*historypb.HistoryEvent, error) {
	t.Helper()
	all := map[string]*History{"": Recorded(t, dir, root)}
	for _, child := range children {
		all[child] = Recorded(t, dir, root+"@"+child)
	}
	return func(_ context.Context, id, _ string) ([]*historypb.HistoryEvent, error) {
		_, place, _ := strings.Cut(id, "/")
		if h := all[strings.ReplaceAll(place, ":", "_")]; h != nil {
			return h.Events, nil
		}
		return nil, serviceerror.NewNotFound("gone")
	}
}

// Source returns a source of histories by run id; a nil history is no longer retained.
func Source(runs map[string]*History) func(ctx context.Context, id, run string) ([]*historypb.HistoryEvent, error) {
	return func(_ context.Context, _, run string) ([]*historypb.HistoryEvent, error) {
		if h := runs[run]; h != nil {
			return h.Events, nil
		}
		return nil, serviceerror.NewNotFound("gone")
	}
}

// Iterator is a client's history iterator, with an error at its end unless err is nil.
type Iterator struct {
	events []*historypb.HistoryEvent
	err    error
}

// NewIterator returns an iterator over the events of h.
func NewIterator(h *History, err error) *Iterator { return &Iterator{h.Events, err} }

// HasNext implements the client's iterator.
func (f *Iterator) HasNext() bool { return len(f.events) > 0 || f.err != nil }

// Next implements the client's iterator.
func (f *Iterator) Next() (e *historypb.HistoryEvent, err error) {
	if len(f.events) == 0 {
		err, f.err = f.err, nil
		return nil, err
	}
	e, f.events = f.events[0], f.events[1:]
	return e, nil
}
