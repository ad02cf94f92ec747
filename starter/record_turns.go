package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	updatepb "go.temporal.io/api/update/v1"

	"weft/activities/contract"
	"weft/worker/rehearse"
)

// mailbox collects what came to a run that takes turns: what one workflow task was given, came at
// once.
type mailbox struct {
	r *recorder
	// run is the place of the run.
	run string
	// off says that the run takes no turns.
	off bool
	// waiting is what has come since the last task began, given what the one under way was given.
	waiting, given rehearse.Delivery
	// last is the place of the last task's in the recording's inbox.
	last int
}

// turns looks whether a run takes turns, and takes those that it was given with what it goes on with.
func (c *recordedRun) turns(s *historypb.WorkflowExecutionStartedEventAttributes) {
	var in contract.RunInput
	c.inbox.off = s.GetWorkflowType().GetName() != contract.WorkflowFlow || !decode(s.GetInput(), &in) ||
		!in.Session && (in.Carry == nil || in.Carry.Session == nil) && (in.Flow.Plan == nil || !in.Flow.Plan.StartsSessions())
	if in.Carry == nil || in.Carry.Session == nil {
		return
	}
	for i := range in.Carry.Session.Turns {
		c.gave(&in.Carry.Session.Turns[i])
	}
}

// prompted takes what a session said of a prompt's turn to whoever sent it by Update.
func (c *recordedRun) prompted(s *historypb.WorkflowExecutionUpdateCompletedEventAttributes) {
	var t contract.Turn
	if c.resumed[s.GetAcceptedEventId()] && decode(s.GetOutcome().GetSuccess(), &t) {
		c.gave(&t)
	}
}

// gave notes what a turn of the run itself gave, once: later it may have been left out. Where the run
// comes to its own end, its result tells more.
func (c *recordedRun) gave(t *contract.Turn) {
	if _, ok := c.took[t.N]; !ok && c.id == c.root && t.N > 0 && t.Done() {
		c.took[t.N] = rehearse.NewTurnOf("", t)
	}
}

// turnsBefore are the turns of a run that has no result, in their order.
func (r *recorder) turnsBefore() []rehearse.TurnOf {
	return slices.SortedFunc(maps.Values(r.took), func(x, y rehearse.TurnOf) int { return cmp.Compare(x.N, y.N) })
}

// takesPrompts says whether a run is a session.
func takesPrompts(s *historypb.WorkflowExecutionStartedEventAttributes) bool {
	var in contract.RunInput
	return decode(s.GetInput(), &in) && (in.Session || in.Carry != nil && in.Carry.Session != nil && in.Carry.Session.Stays)
}

func newMailbox(r *recorder, id string) *mailbox {
	return &mailbox{r: r, run: r.below(id), last: -1}
}

// below is the place of a run.
func (r *recorder) below(id string) string {
	if id == r.root {
		return ""
	}
	return strings.TrimPrefix(id, r.root+"/")
}

// begin notes that a workflow task begins. One that failed before had no effect: what it was given
// is given to this one.
func (b *mailbox) begin() {
	w := &b.waiting
	b.given.Ended = append(b.given.Ended, w.Ended...)
	b.given.Closed = append(b.given.Closed, w.Closed...)
	b.given.Turns = append(b.given.Turns, w.Turns...)
	b.given.Resumed = append(b.given.Resumed, w.Resumed...)
	b.given.Prompts = append(b.given.Prompts, w.Prompts...)
	if w.Stop != nil {
		b.given.Stop = w.Stop
	}
	b.waiting = rehearse.Delivery{}
}

// end notes that it is done. Updates that it took follow it.
func (b *mailbox) end() {
	if b.off {
		return
	}
	b.given.Run = b.run
	b.last = len(b.r.rec.Inbox)
	b.r.rec.Inbox = append(b.r.rec.Inbox, b.given)
	b.given = rehearse.Delivery{}
}

// ended notes that a call has, in the end: what an operator had repeated did not.
func (b *mailbox) ended(at string) {
	if b.off {
		return
	}
	for i := range b.r.rec.Inbox {
		d := &b.r.rec.Inbox[i]
		if d.Run == b.run {
			d.Ended = slices.DeleteFunc(d.Ended, func(old string) bool { return old == at })
		}
	}
	b.waiting.Ended = append(b.waiting.Ended, at)
}

// closed notes that a run below has ended. One that gave way to a new run of this one has not.
func (b *mailbox) closed(e *historypb.HistoryEvent) {
	var x *commonpb.WorkflowExecution
	status := rehearse.Ended
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED:
		var out contract.RunResult
		s := e.GetChildWorkflowExecutionCompletedEventAttributes()
		if x = s.GetWorkflowExecution(); decode(s.GetResult(), &out) && out.Yielded != nil {
			return
		}
	case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_FAILED:
		x = e.GetChildWorkflowExecutionFailedEventAttributes().GetWorkflowExecution()
	case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_CANCELED:
		x = e.GetChildWorkflowExecutionCanceledEventAttributes().GetWorkflowExecution()
	case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TERMINATED:
		x, status = e.GetChildWorkflowExecutionTerminatedEventAttributes().GetWorkflowExecution(), rehearse.Terminated
	case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TIMED_OUT:
		x, status = e.GetChildWorkflowExecutionTimedOutEventAttributes().GetWorkflowExecution(), rehearse.Terminated
	}
	if x != nil && !b.off {
		b.waiting.Closed = append(b.waiting.Closed, rehearse.ClosedRun{Run: b.r.below(x.GetWorkflowId()), Status: status})
	}
}

// signalled takes a signal.
func (b *mailbox) signalled(s *historypb.WorkflowExecutionSignaledEventAttributes) {
	switch {
	case b.off:
	case s.GetSignalName() == contract.SignalTurn:
		var told contract.ChildTurn
		if decode(s.GetInput(), &told) {
			b.waiting.Turns = append(b.waiting.Turns, rehearse.NewTurnOf(b.r.below(told.Session), &told.Turn))
		}
	case s.GetSignalName() == contract.UpdateResume && s.GetExternalWorkflowExecution() != nil:
		var told contract.ResumeInput
		if decode(s.GetInput(), &told) {
			b.waiting.Resumed = append(b.waiting.Resumed, told.ID)
		}
	default:
		b.asked(&b.waiting, s.GetSignalName(), "", s.GetInput())
	}
}

// updated takes an Update, which the last task took.
func (b *mailbox) updated(req *updatepb.Request) {
	if !b.off && b.last >= 0 {
		b.asked(&b.r.rec.Inbox[b.last], req.GetInput().GetName(), req.GetMeta().GetUpdateId(), req.GetInput().GetArgs())
	}
}

// asked takes what somebody asks of the session. id is that of a prompt without one of its own.
func (b *mailbox) asked(to *rehearse.Delivery, name, id string, args *commonpb.Payloads) {
	switch name {
	case contract.UpdateResume:
		var told contract.ResumeInput
		if !decode(args, &told) {
			return
		}
		if told.ID != "" {
			id = told.ID
		}
		key := [2]string{b.run, id}
		if id != "" && b.r.prompted[key] {
			return // the same again
		}
		b.r.prompted[key] = true
		q := rehearse.Prompt{ID: id, Prompt: told.Prompt, Images: told.Images}
		if raw, err := q.Stored(); err == nil {
			b.r.content[contract.SHA(raw)] = raw
		}
		to.Prompts = append(to.Prompts, q)
	case contract.UpdateStop:
		var told contract.StopInput
		if decode(args, &told) {
			told.By = "" // nothing depends on it
			to.Stop = &told
		}
	}
}
