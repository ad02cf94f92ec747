package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// ledger reads the histories of the run at the root of a tree, which owns the requests of the
// whole tree: every answer is an event there, and so is every request of a branch or of a
// sub-agent. What the root itself asked leaves no event; [ledger.explain] finds it by its hash.
type ledger struct {
	client client.Client
	out    audited
	byID   map[string]*auditRequest
	flow   *plan.Flow
	source plan.Source
	// said are the texts and calls of the root's own agents, failed its calls that failed.
	said   []saidOnce
	failed map[string]failedCall

	// run is the run that is read; unsettled are times that its next workflow task sets.
	run       string
	calls     map[int64]treeCall
	timers    map[int64]string
	unsettled []*time.Time
	// ended: nobody waits for what is open.
	ended bool
}

// saidOnce is a message of an agent: exec and turn say of which call. at is when the run had it.
type saidOnce struct {
	exec, turn string
	message    *contract.Message
	at         *time.Time
}

// failedCall is a call of the root's that failed.
type failedCall struct {
	failure *contract.Failure
	at      *time.Time
}

func newLedger(c client.Client, id string) *ledger {
	return &ledger{client: c, out: audited{Run: id, Requests: []*auditRequest{}}, byID: map[string]*auditRequest{}, failed: map[string]failedCall{}}
}

// read reads a run, and before it what it continued.
func (l *ledger) read(ctx context.Context, run string) error {
	var all []*historypb.HistoryEvent
	events := l.client.GetWorkflowHistory(ctx, l.out.Run, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return fmt.Errorf("read the history of the run %q: %w", l.out.Run, err)
		}
		all = append(all, e)
	}
	if len(all) == 0 {
		return nil
	}
	s := all[0].GetWorkflowExecutionStartedEventAttributes()
	if s.GetParentWorkflowExecution() != nil {
		root := s.GetRootWorkflowExecution().GetWorkflowId()
		return bad("%q is a part of another run, which has its requests; use: starter audit %s", l.out.Run, quoted(root))
	}
	if before := s.GetContinuedExecutionRunId(); before != "" {
		if err := l.read(ctx, before); err != nil {
			l.out.Incomplete = fmt.Sprintf("the history of the run's beginning is not kept any more: %v", err)
		}
	}
	l.run = run
	l.out.Runs = append(l.out.Runs, run)
	l.calls, l.timers, l.unsettled = map[int64]treeCall{}, map[int64]string{}, nil
	for _, e := range all {
		l.event(e)
	}
	return nil
}

// event takes what an event adds.
func (l *ledger) event(e *historypb.HistoryEvent) {
	at := e.GetEventTime().AsTime()
	if _, ended := closings[e.GetEventType()]; ended && e.GetEventType() != enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW {
		l.out.Ended = &at
	}
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
		l.began(e.GetWorkflowExecutionStartedEventAttributes(), at)
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED:
		for _, t := range l.unsettled {
			*t = at
		}
		l.unsettled = nil
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		s := e.GetActivityTaskScheduledEventAttributes()
		l.calls[e.GetEventId()] = treeCall{kind: s.GetActivityType().GetName(), exec: s.GetActivityId()}
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
		l.completed(e.GetActivityTaskCompletedEventAttributes())
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED:
		s := e.GetActivityTaskFailedEventAttributes()
		f := failureOfHistory(&visit{failure: s.GetFailure()})
		l.failed[l.calls[s.GetScheduledEventId()].exec] = failedCall{f, l.soon()}
	case enumspb.EVENT_TYPE_TIMER_STARTED:
		l.timers[e.GetEventId()] = summaryOf(e)
	case enumspb.EVENT_TYPE_TIMER_FIRED:
		if id, ok := strings.CutPrefix(l.timers[e.GetTimerFiredEventAttributes().GetStartedEventId()], limitSummary); ok {
			if r := l.request(id, ""); r.Outcome == auditOpen {
				r.Outcome, r.EndedAt = auditExpired, &at
			}
		}
	case enumspb.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED:
		l.replied(e.GetSignalExternalWorkflowExecutionInitiatedEventAttributes(), at)
	default:
		l.heard(e, at)
	}
}

// limitSummary begins the summary of the timer that ends a request.
const limitSummary = "limit · "

// summaryOf is what a workflow wrote on a timer.
func summaryOf(e *historypb.HistoryEvent) string { return text(e.GetUserMetadata().GetSummary()) }

// soon is a time that the next workflow task sets: when the run saw what an event brought.
func (l *ledger) soon() *time.Time {
	t := &time.Time{}
	l.unsettled = append(l.unsettled, t)
	return t
}

// began takes the flow, and what the run before had on its desk.
func (l *ledger) began(s *historypb.WorkflowExecutionStartedEventAttributes, at time.Time) {
	if l.out.Began.IsZero() {
		l.out.Began = at
	}
	memo := s.GetMemo().GetFields()
	l.out.Flow, l.out.FlowHash = text(memo[contract.MemoFlow]), text(memo[contract.MemoHash])
	var in contract.RunInput
	if !decode(s.GetInput(), &in) {
		return
	}
	switch {
	case in.Carry != nil && in.Carry.Plan != nil:
		l.flow, l.source = in.Carry.Plan, in.Carry.Source
	case in.Flow.Plan != nil:
		l.flow = in.Flow.Plan
		if hash, err := l.flow.Hash(); err == nil {
			l.out.FlowHash = hash
		}
		if in.Flow.Source != nil {
			l.source = *in.Flow.Source
		}
	}
	if in.Carry == nil || in.Carry.Desk == nil {
		return
	}
	for i := range in.Carry.Desk.Open {
		q := &in.Carry.Desk.Open[i]
		l.announced(q, q.OpenedAt)
	}
	for _, x := range in.Carry.Desk.Answered {
		r := l.request(x.ID, x.Kind)
		if r.Outcome != auditOpen {
			continue
		}
		when := x.At
		switch r.EndedAt = &when; {
		case x.By != "":
			r.Outcome = auditRemembered
		case x.Hash == "":
			r.Outcome = auditExpired
		default:
			r.Outcome = auditAnswered
		}
	}
}

// completed takes what a call of the root's own gave.
func (l *ledger) completed(s *historypb.ActivityTaskCompletedEventAttributes) {
	call := l.calls[s.GetScheduledEventId()]
	exec, turn, model := cutLast(call.exec, "/model/")
	var prepared contract.PrepareResult
	var out contract.ModelResult
	switch {
	case model && decode(s.GetResult(), &out):
		if m, err := contract.DecodeMessage(out.Message); err == nil {
			l.said = append(l.said, saidOnce{exec, digits(turn), m, l.soon()})
		}
	case call.kind == contract.ActivityPrepare && decode(s.GetResult(), &prepared) && prepared.Plan != nil:
		l.flow, l.out.FlowHash = prepared.Plan, orElse(prepared.Hash, l.out.FlowHash)
		l.source = prepared.Source
	}
}

func orElse(one, other string) string {
	if one == "" {
		return other
	}
	return one
}

// digits are those that a text begins with.
func digits(s string) string {
	return s[:len(s)-len(strings.TrimLeft(s, "0123456789"))]
}

// replied takes an answer that the root passed on without anybody's having sent one.
func (l *ledger) replied(s *historypb.SignalExternalWorkflowExecutionInitiatedEventAttributes, at time.Time) {
	var reply contract.Reply
	if s.GetSignalName() != contract.SignalReply || !decode(s.GetInput(), &reply) {
		return
	}
	r := l.request(reply.ID, "")
	for i := range r.Answers {
		if x := &r.Answers[i]; r.Outcome == auditOpen && x.Via == "signal" && x.Status == answerUnconfirmed && !reply.Expired {
			l.settled(r, x, true, at)
		}
	}
	switch {
	case r.Outcome != auditOpen || len(r.Answers) > 0:
	case reply.Expired:
		r.Outcome, r.EndedAt = auditExpired, &at
	case reply.Confirm != nil:
		r.Outcome, r.EndedAt = auditRemembered, &at
	}
}

// heard takes what somebody sent: an answer, or what runs below say.
func (l *ledger) heard(e *historypb.HistoryEvent, at time.Time) {
	if s := e.GetWorkflowExecutionSignaledEventAttributes(); s != nil {
		l.signalled(e.GetEventId(), s, at)
		return
	}
	request := e.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest()
	if request == nil {
		request = e.GetWorkflowExecutionUpdateAdmittedEventAttributes().GetRequest()
	}
	if request != nil {
		l.sent(request.GetInput().GetName(), request.GetInput().GetArgs().GetPayloads(), &auditAnswer{
			Identity: request.GetMeta().GetIdentity(), Via: "update", Event: e.GetEventId(), Time: at, update: request.GetMeta().GetUpdateId()})
		return
	}
	if s := e.GetWorkflowExecutionUpdateCompletedEventAttributes(); s != nil {
		l.updated(s, at)
	}
}

// signalled takes an answer by signal, or a request of a run below.
func (l *ledger) signalled(event int64, s *historypb.WorkflowExecutionSignaledEventAttributes, at time.Time) {
	switch kind := s.GetSignalName(); {
	case slices.Contains(contract.Requests, kind):
		l.sent(kind, s.GetInput().GetPayloads(), &auditAnswer{Identity: s.GetIdentity(), Via: "signal", Event: event, Time: at})
	case kind == contract.SignalRequest:
		var q contract.Request
		if decode(s.GetInput(), &q) && q.ID != "" {
			l.announced(&q, at)
		}
	case kind == contract.SignalClose:
		var q contract.RequestID
		if !decode(s.GetInput(), &q) {
			return
		}
		if r := l.byID[q.ID]; r != nil && r.Outcome == auditOpen && len(r.Answers) == 0 {
			r.Outcome, r.EndedAt = auditClosed, &at
		}
	}
}

// updated takes what became of an Update.
func (l *ledger) updated(s *historypb.WorkflowExecutionUpdateCompletedEventAttributes, at time.Time) {
	failure := s.GetOutcome().GetFailure()
	for _, r := range l.out.Requests {
		for i := range r.Answers {
			x := &r.Answers[i]
			if x.update != s.GetMeta().GetUpdateId() || x.update == "" || x.Status != answerPending {
				continue
			}
			if l.settled(r, x, failure == nil, at); failure != nil {
				x.Refusal = failureText(failure)
			}
		}
	}
}

// settled says what became of an answer.
func (l *ledger) settled(r *auditRequest, x *auditAnswer, taken bool, at time.Time) {
	switch {
	case !taken:
		x.Status = answerRefused
	case slices.ContainsFunc(r.Answers, func(o auditAnswer) bool { return o.Status == answerTaken }):
		x.Status = answerRepeated
	default:
		x.Status = answerTaken
		if r.Outcome != auditSent {
			r.Outcome = auditAnswered
		}
		r.EndedAt = &at
	}
}

// compact is JSON without what does not count for its hash.
func compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}
