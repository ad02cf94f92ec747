package history

import (
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	"weft/activities/contract"
	"weft/starter/plaintext"
)

type decoder struct {
	run      Run
	branch   bool
	calls    map[int64]*Call
	children map[int64]*Child
	// updates are keyed by the event that accepted them; timers are the summaries of timers, by the event that started them.
	updates map[int64]*Message
	timers  map[int64]string
}

func newDecoder(run Run) *decoder {
	return &decoder{run: run, calls: map[int64]*Call{}, children: map[int64]*Child{}, updates: map[int64]*Message{}, timers: map[int64]string{}}
}

// decode decodes an event. A local activity is one history event, and yields the start and the end of its call.
func (d *decoder) decode(e *historypb.HistoryEvent) []Event {
	if begins, ends := d.localCall(e); begins != nil {
		out := Event{ID: e.GetEventId(), Time: e.GetEventTime().AsTime(), Run: begins.Run, Data: begins}
		ended := out
		ended.Data = ends
		return []Event{out, ended}
	}
	out := Event{ID: e.GetEventId(), Time: e.GetEventTime().AsTime(), Run: d.run}
	for _, part := range []func(*historypb.HistoryEvent) any{d.task, d.call, d.child, d.message, d.end} {
		if out.Data = part(e); out.Data != nil {
			if c, ok := out.Data.(interface{ madeIn() Run }); ok {
				out.Run = c.madeIn()
			}
			break
		}
	}
	return []Event{out}
}

// localActivity is the SDK's marker name for local activities; localResult and localData are the details with the result and the time.
const (
	localActivity = "LocalActivity"
	localResult   = "result"
	localData     = "data"
)

func (d *decoder) localCall(e *historypb.HistoryEvent) (*CallScheduled, *CallCompleted) {
	m := e.GetMarkerRecordedEventAttributes()
	if m.GetMarkerName() != localActivity {
		return nil, nil
	}
	out := decodedAs[contract.LocalResult](m.GetDetails()[localResult])
	if out == nil || len(out.Result) == 0 {
		return nil, nil // the call follows as an activity
	}
	argument, err := converter.GetDefaultDataConverter().ToPayloads(out.Argument)
	if err != nil {
		return nil, nil
	}
	result, err := converter.GetDefaultDataConverter().ToPayloads(out.Result)
	if err != nil {
		return nil, nil
	}
	c := d.newCall(e, out.Activity, out.ID, argument)
	done := &CallCompleted{Call: c, Result: c.resultOf(result), result: result}
	if data := decodedAs[struct{ ReplayTime time.Time }](m.GetDetails()[localData]); data != nil {
		done.Clock = data.ReplayTime
	}
	return &CallScheduled{c}, done
}

func (d *decoder) newCall(e *historypb.HistoryEvent, kind, id string, input *commonpb.Payloads) *Call {
	c := &Call{Scheduled: e.GetEventId(), Time: e.GetEventTime().AsTime(), Run: d.run, Kind: kind, input: input}
	c.Input = inputs.decode(c.Kind, c.input)
	if c.Place, c.ID = contract.SplitPlace(id); c.Place != "" {
		c.Run.Workflow = d.run.element(c.Place)
		if in, ok := c.Input.(*contract.ModelInput); ok {
			in.Base.Thread = strings.TrimPrefix(in.Base.Thread, c.Place)
		}
	}
	return c
}

func (d *decoder) task(e *historypb.HistoryEvent) any {
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
		return d.started(e.GetWorkflowExecutionStartedEventAttributes())
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED:
		return &TaskStarted{}
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
		return &TaskCompleted{}
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED:
		s := e.GetWorkflowTaskFailedEventAttributes()
		return &TaskFailed{s.GetCause(), s.GetFailure()}
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
		return &CancelRequested{}
	case enumspb.EVENT_TYPE_MARKER_RECORDED:
		if r := decodedAs[contract.ThreadRecord](e.GetMarkerRecordedEventAttributes().GetDetails()["data"]); r != nil && r.Thread != "" {
			s := &MessagesRecorded{ThreadRecord: *r, Run: d.run}
			if s.Place, s.Thread = contract.SplitPlace(r.Thread); s.Place != "" {
				s.Run.Workflow = d.run.element(s.Place)
			}
			if s.Aside != nil {
				_, s.Aside.Thread = contract.SplitPlace(s.Aside.Thread)
			}
			return s
		}
	case enumspb.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED:
		return listed(e.GetWorkflowPropertiesModifiedEventAttributes().GetUpsertedMemo())
	case enumspb.EVENT_TYPE_TIMER_STARTED:
		d.timers[e.GetEventId()] = Text(e.GetUserMetadata().GetSummary())
	case enumspb.EVENT_TYPE_TIMER_FIRED:
		if id, ok := strings.CutPrefix(d.timers[e.GetTimerFiredEventAttributes().GetStartedEventId()], limitSummary); ok {
			return &RequestExpired{id}
		}
	}
	return nil
}

func listed(memo *commonpb.Memo) any {
	p := memo.GetFields()[contract.MemoRequests]
	if p == nil {
		return nil
	}
	if open := decodedAs[contract.OpenRequests](&commonpb.Payloads{Payloads: []*commonpb.Payload{p}}); open != nil {
		return &Listed{*open}
	}
	return nil
}

const limitSummary = "limit · "

func (d *decoder) started(s *historypb.WorkflowExecutionStartedEventAttributes) *Started {
	memo := s.GetMemo().GetFields()
	out := &Started{Type: s.GetWorkflowType().GetName(), ContinuedFrom: s.GetContinuedExecutionRunId(),
		Flow: Text(memo[contract.MemoFlow]), Hash: Text(memo[contract.MemoHash])}
	if s.GetParentWorkflowExecution() != nil {
		out.Parent = s.GetRootWorkflowExecution().GetWorkflowId()
	}
	if d.branch = out.Type == contract.WorkflowBranch; d.branch {
		out.Branch = decodedAs[contract.BranchInput](s.GetInput())
	} else {
		out.Input = decodedAs[contract.RunInput](s.GetInput())
	}
	return out
}

func (d *decoder) call(e *historypb.HistoryEvent) any {
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		s := e.GetActivityTaskScheduledEventAttributes()
		c := d.newCall(e, s.GetActivityType().GetName(), s.GetActivityId(), s.GetInput())
		c.TaskQueue = s.GetTaskQueue().GetName()
		d.calls[c.Scheduled] = c
		return &CallScheduled{c}
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED:
		s := e.GetActivityTaskStartedEventAttributes()
		if c := d.calls[s.GetScheduledEventId()]; c != nil {
			return &CallStarted{c, s.GetAttempt(), s.GetLastFailure()}
		}
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
		s := e.GetActivityTaskCompletedEventAttributes()
		if c := d.take(s.GetScheduledEventId()); c != nil {
			return &CallCompleted{Call: c, Result: c.resultOf(s.GetResult()), result: s.GetResult()}
		}
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED:
		s := e.GetActivityTaskFailedEventAttributes()
		if c := d.take(s.GetScheduledEventId()); c != nil {
			return &CallFailed{Call: c, Failure: s.GetFailure()}
		}
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
		s := e.GetActivityTaskTimedOutEventAttributes()
		if c := d.take(s.GetScheduledEventId()); c != nil {
			return &CallFailed{Call: c, Failure: s.GetFailure(), TimedOut: true}
		}
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCELED:
		if c := d.take(e.GetActivityTaskCanceledEventAttributes().GetScheduledEventId()); c != nil {
			return &CallCancelled{c}
		}
	}
	return nil
}

func (d *decoder) take(scheduled int64) *Call {
	c := d.calls[scheduled]
	delete(d.calls, scheduled)
	return c
}

func (d *decoder) child(e *historypb.HistoryEvent) any {
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
		return &ChildRequested{d.childOf(e.GetEventId())}
	case enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_FAILED:
		s := e.GetStartChildWorkflowExecutionFailedEventAttributes()
		return &ChildNotStarted{s.GetWorkflowId(), s.GetCause().String()}
	case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED:
		s := e.GetChildWorkflowExecutionStartedEventAttributes()
		c := d.childOf(s.GetInitiatedEventId())
		c.ID, c.RunID, c.Type = s.GetWorkflowExecution().GetWorkflowId(), s.GetWorkflowExecution().GetRunId(), s.GetWorkflowType().GetName()
		if c.Type == contract.WorkflowFlow {
			c.Call = plaintext.Line(Unescape(c.ID[strings.LastIndex(c.ID, "/")+1:]), 100) // node#step:call
		}
		return &ChildStarted{c}
	case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED:
		s := e.GetChildWorkflowExecutionCompletedEventAttributes()
		out := &ChildEnded{Child: d.childOf(s.GetInitiatedEventId()), Status: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED}
		if s.GetWorkflowType().GetName() == contract.WorkflowBranch {
			out.Branch = decodedAs[contract.BranchResult](s.GetResult())
		} else {
			out.Result = decodedAs[contract.RunResult](s.GetResult())
		}
		return out
	case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_FAILED:
		s := e.GetChildWorkflowExecutionFailedEventAttributes()
		return d.childEnded(s, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, FailureOf(s.GetFailure()))
	case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_CANCELED:
		s := e.GetChildWorkflowExecutionCanceledEventAttributes()
		return d.childEnded(s, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED, decodedAs[contract.Failure](s.GetDetails()))
	case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TERMINATED:
		return d.childEnded(e.GetChildWorkflowExecutionTerminatedEventAttributes(), enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, nil)
	case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TIMED_OUT:
		return d.childEnded(e.GetChildWorkflowExecutionTimedOutEventAttributes(), enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT, nil)
	}
	return nil
}

func (d *decoder) childOf(requested int64) *Child {
	c := d.children[requested]
	if c == nil {
		c = &Child{Requested: requested}
		d.children[requested] = c
	}
	return c
}

func (d *decoder) childEnded(s interface{ GetInitiatedEventId() int64 }, status enumspb.WorkflowExecutionStatus, f *contract.Failure) any {
	return &ChildEnded{Child: d.childOf(s.GetInitiatedEventId()), Status: status, Failure: f}
}

func (d *decoder) message(e *historypb.HistoryEvent) any {
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
		s := e.GetWorkflowExecutionSignaledEventAttributes()
		m := newMessage(s.GetSignalName(), s.GetInput())
		m.Identity, m.FromWorkflow = s.GetIdentity(), s.GetExternalWorkflowExecution() != nil
		return m
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ADMITTED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED:
		request := e.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest()
		if request == nil {
			request = e.GetWorkflowExecutionUpdateAdmittedEventAttributes().GetRequest()
		}
		if request == nil {
			return nil
		}
		m := newMessage(request.GetInput().GetName(), request.GetInput().GetArgs())
		m.Update, m.Identity, m.UpdateID = true, request.GetMeta().GetIdentity(), request.GetMeta().GetUpdateId()
		d.updates[e.GetEventId()] = m
		return m
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED:
		s := e.GetWorkflowExecutionUpdateCompletedEventAttributes()
		out := &UpdateCompleted{UpdateID: s.GetMeta().GetUpdateId(), Message: d.updates[s.GetAcceptedEventId()], Failure: s.GetOutcome().GetFailure()}
		if m := out.Message; m != nil {
			m.Outcome = out
			if m.Name == contract.UpdatePrompt && out.Failure == nil {
				out.Turn = decodedAs[contract.Turn](s.GetOutcome().GetSuccess())
			}
		}
		return out
	case enumspb.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED:
		s := e.GetSignalExternalWorkflowExecutionInitiatedEventAttributes()
		if s.GetSignalName() == contract.SignalReply {
			if r := decodedAs[contract.Reply](s.GetInput()); r != nil {
				return &ReplySent{*r}
			}
		}
	}
	return nil
}

func newMessage(name string, args *commonpb.Payloads) *Message {
	return &Message{Name: name, Body: bodies.decode(name, args), args: args}
}

// ends are the statuses of closed runs by the events that close them.
var ends = map[enumspb.EventType]enumspb.WorkflowExecutionStatus{
	enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:        enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED,
	enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:           enumspb.WORKFLOW_EXECUTION_STATUS_FAILED,
	enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:         enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED,
	enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:       enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED,
	enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:        enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT,
	enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW: enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW,
}

func (d *decoder) end(e *historypb.HistoryEvent) any {
	status, ok := ends[e.GetEventType()]
	if !ok {
		return nil
	}
	out := &Ended{Status: status, Failure: e.GetWorkflowExecutionFailedEventAttributes().GetFailure(), Reason: e.GetWorkflowExecutionTerminatedEventAttributes().GetReason(),
		ContinuedAs: e.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()}
	if status == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED && !d.branch {
		out.Result = decodedAs[contract.RunResult](e.GetWorkflowExecutionCompletedEventAttributes().GetResult())
	}
	return out
}

// Text decodes a string. It returns "" on failure.
func Text(p *commonpb.Payload) string {
	var s string
	if p != nil && converter.GetDefaultDataConverter().FromPayload(p, &s) != nil {
		return ""
	}
	return s
}
