package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	"weft/activities/contract"
)

// track is one run whose history is read.
type track struct {
	id, run string
	// label begins the names of its nodes: empty, or the sub-agent's place.
	label    string
	calls    map[int64]*call
	started  map[string]bool
	children map[int64]*track
	changed  time.Time
	// looked is when the run was last asked about.
	looked time.Time
	// announced is when its worker was last told that somebody watches.
	announced time.Time
	done      chan struct{}
	// broken is why the last workflow task failed that did, and remedy what to do.
	broken, remedy string
}

func newTrack(id, run, label string) *track {
	return &track{id: id, run: run, label: label, changed: time.Now(), done: make(chan struct{}),
		calls: map[int64]*call{}, started: map[string]bool{}, children: map[int64]*track{}}
}

// call is an activity under way.
type call struct {
	id, kind string
	// node is the execution, node#step; what names the call in it.
	node, what string
	// last says that the answer ends the node whatever it holds.
	last  bool
	asked string
	at    time.Time
	// told is the highest attempt that a line was about.
	told int32
	// heard is its partial answer; waits is what it was last seen to wait for.
	heard heard
	waits string
}

// event prints what an event means for a flow. The caller holds f.mu.
func (f *follower) event(t *track, e *historypb.HistoryEvent) {
	at := e.GetEventTime().AsTime()
	if f.begin.IsZero() {
		f.begin = at
	}
	f.begun(t, e.GetWorkflowExecutionStartedEventAttributes())
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		f.scheduled(t, e.GetEventId(), at, e.GetActivityTaskScheduledEventAttributes())
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED:
		s := e.GetActivityTaskStartedEventAttributes()
		if c := t.calls[s.GetScheduledEventId()]; c != nil && s.GetAttempt() > 1 && c.told < s.GetAttempt()-1 {
			f.tell(notice{Event: eventAttempt, Time: at, Node: c.node, Call: c.what, Attempt: s.GetAttempt() - 1},
				"%s: attempt %d, after %s", c.what, s.GetAttempt(), failureText(s.GetLastFailure()))
		}
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
		s := e.GetActivityTaskCompletedEventAttributes()
		f.completed(t, at, t.take(s.GetScheduledEventId()), s.GetResult())
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED:
		s := e.GetActivityTaskFailedEventAttributes()
		f.broken(at, t.take(s.GetScheduledEventId()), "failed: "+failureText(s.GetFailure()))
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
		s := e.GetActivityTaskTimedOutEventAttributes()
		f.broken(at, t.take(s.GetScheduledEventId()), "ran out of time: "+failureText(s.GetFailure()))
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCELED:
		f.broken(at, t.take(e.GetActivityTaskCanceledEventAttributes().GetScheduledEventId()), "cancelled")
	default:
		f.runEvent(t, e, at)
	}
}

// runEvent prints what an event means that is of no activity.
func (f *follower) runEvent(t *track, e *historypb.HistoryEvent, at time.Time) {
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED:
		f.broke(t, at, e.GetWorkflowTaskFailedEventAttributes())
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
		f.leave(t, at)
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
		if t.id == f.id {
			f.tell(notice{Event: eventNote, Time: at}, "somebody asked the run to end")
		}
	case enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_FAILED:
		s := e.GetStartChildWorkflowExecutionFailedEventAttributes()
		f.tell(notice{Event: eventNote, Time: at, Node: t.label}, "the child %s could not start: %s", clean(s.GetWorkflowId(), 200), s.GetCause())
	}
}

// broke says that a worker could not go on, and notes why in case it goes on so.
func (f *follower) broke(t *track, at time.Time, s *historypb.WorkflowTaskFailedEventAttributes) {
	t.broken, t.remedy = failureText(s.GetFailure()), brokenRemedy(s.GetCause(), s.GetFailure().GetMessage())
	f.tell(notice{Event: eventNote, Time: at, Node: t.label}, "the worker could not go on: %s; it tries again", t.broken)
}

// tell reports something with its text. The caller holds f.mu.
func (f *follower) tell(n notice, format string, args ...any) {
	n.Text = fmt.Sprintf(format, args...)
	if n.Time.IsZero() {
		n.untimed, n.Time = true, time.Now()
	}
	if !f.begin.IsZero() {
		n.Seconds = math.Round(max(0, n.Time.Sub(f.begin).Seconds())*1000) / 1000
	}
	if !f.marks.isHad() {
		f.report.tell(n)
	}
}

// take gives a call and forgets it.
func (t *track) take(scheduled int64) *call {
	c := t.calls[scheduled]
	delete(t.calls, scheduled)
	return c
}

// scheduled notes a call, and says that its node has started if it is the node's first.
func (f *follower) scheduled(t *track, id int64, at time.Time, s *historypb.ActivityTaskScheduledEventAttributes) {
	node, turn := placeOf(s.GetActivityId())
	c := &call{id: s.GetActivityId(), kind: s.GetActivityType().GetName(), node: t.label + node, at: at}
	t.calls[id] = c
	switch c.kind {
	case contract.ActivityModel:
		c.what = "model call " + turn
		var in contract.ModelInput
		c.last = decode(s.GetInput(), &in) && in.NoTools
	case contract.ActivityTool:
		c.what = "tool"
		var in contract.ToolInput
		if decode(s.GetInput(), &in) {
			c.what = fmt.Sprintf("tool %s %s", clean(in.As, 64), clean(string(in.Arguments), 80))
		}
	case contract.ActivityJudge:
		c.what = "judge"
		var in contract.JudgeInput
		if decode(s.GetInput(), &in) {
			c.asked = clean(in.Question, 200)
		}
		return
	case contract.ActivityPrepare:
		c.node, c.what = strings.TrimSuffix(t.label, " › "), "prepare"
		return
	case contract.ActivityCheck:
		c.node, c.what = "", "check of an answer"
		return
	case contract.ActivityListTool:
		c.node, c.what = strings.TrimSuffix(t.label, " › "), "list tools of "+clean(turn, 100)
		return
	default:
		c.what = strings.ToLower(c.kind) + " " + turn
	}
	if !t.started[node] {
		f.leave(t, at)
		t.started[node] = true
		f.tell(notice{Event: eventStarted, Time: at, Node: c.node}, "started")
	}
}

// leave says that the node of a history has finished, where its last call did not show that:
// a history has one chain of nodes, so that the next one's start does, or the end.
func (f *follower) leave(t *track, at time.Time) {
	for _, node := range slices.Sorted(maps.Keys(t.started)) {
		f.tell(notice{Event: eventFinished, Time: at, Node: t.label + node}, "finished")
	}
	clear(t.started)
}

// completed says what a call gave.
func (f *follower) completed(t *track, at time.Time, c *call, result *commonpb.Payloads) {
	if c == nil {
		return
	}
	switch c.kind {
	case contract.ActivityPrepare:
		var out contract.PrepareResult
		if decode(result, &out) && t.id == f.id {
			f.plan(out.Plan)
			if out.Model != "" {
				f.model(out.Model)
			}
		}
		for _, w := range out.Warnings {
			f.tell(notice{Event: eventWarning, Time: at, Node: c.node}, "%s", clean(w, 500))
		}
	case contract.ActivityModel:
		f.answered(t, at, c, result)
	case contract.ActivityTool:
		f.tooled(at, c, result)
	case contract.ActivityCheck:
		f.checked(at, c, result)
	case contract.ActivityJudge:
		var out contract.JudgeResult
		if !decode(result, &out) {
			return
		}
		f.switched(at, c, out.Switched, out.Model)
		text := fmt.Sprintf("judge %q: %s", c.asked, yesNo(out.Yes))
		if out.Reason != "" {
			text += " (" + clean(out.Reason, 200) + ")"
		}
		f.tell(notice{Event: eventJudge, Time: at, Node: c.node, Call: c.what, Model: out.Model, Usage: &out.Usage}, "%s%s", text, scriptNote(out.Model))
	case contract.ActivitySummarise, contract.ActivityCondense:
		var out struct {
			Switched []contract.Switch `json:"switched"`
		}
		if decode(result, &out) {
			f.switched(at, c, out.Switched, "")
		}
		f.done(at, c)
	default:
		f.done(at, c)
	}
}

// done says that a call has ended, where nobody here can read what it gave.
func (f *follower) done(at time.Time, c *call) {
	f.tell(notice{Event: eventCall, Time: at, Node: c.node, Call: c.what}, "%s: done", c.what)
}

// answered says what a model call gave, and whether that ends its node.
func (f *follower) answered(t *track, at time.Time, c *call, result *commonpb.Payloads) {
	var out contract.ModelResult
	if !decode(result, &out) {
		f.done(at, c)
		return
	}
	msg, err := contract.DecodeMessage(out.Message)
	if err != nil {
		f.done(at, c)
		return
	}
	n := notice{Event: eventModel, Time: at, Node: c.node, Call: c.what, Model: out.Model, Usage: &out.Usage, Attempt: out.Attempt}
	f.switched(at, c, out.Switched, out.Model)
	numbers := fmt.Sprintf("%d+%d tokens, %.1f s%s", out.Usage.Input, out.Usage.Output, at.Sub(c.at).Seconds(), scriptNote(out.Model))
	switch {
	case len(msg.Calls) > 0 && !c.last:
		var names []string
		for _, t := range msg.Calls {
			names = append(names, clean(t.Name, 64))
		}
		f.tell(n, "%s: calls %s (%s)", c.what, strings.Join(names, ", "), numbers)
	case out.Checked != nil && len(out.Checked.Errors) > 0:
		where := ""
		if more := len(out.Checked.Errors); more > 1 {
			where = fmt.Sprintf(" in %d places, the first", more)
		}
		f.tell(n, "%s: its JSON is wrong%s: %s (%s)", c.what, where,
			clean(out.Checked.Errors[0].Path+": "+out.Checked.Errors[0].Message, 200), numbers)
	default:
		f.tell(n, "%s: %q (%s)", c.what, clean(msg.Text, 60), numbers)
		f.tell(notice{Event: eventFinished, Time: at, Node: c.node}, "finished")
		node := strings.TrimPrefix(c.node, t.label)
		delete(t.started, node)
	}
}

// switched says which models could not answer, before one did.
func (f *follower) switched(at time.Time, c *call, list []contract.Switch, to string) {
	for _, s := range list {
		f.tell(notice{Event: eventWarning, Time: at, Node: c.node, Call: c.what, Model: s.Model}, "%s: switched from %s to %s: %s: %s",
			c.what, clean(s.Model, 100), clean(s.Next(to), 100), clean(s.Class, 40), clean(s.Text, 300))
	}
}

// tooled says what a tool call gave.
func (f *follower) tooled(at time.Time, c *call, result *commonpb.Payloads) {
	var out contract.ToolResult
	if !decode(result, &out) {
		f.done(at, c)
		return
	}
	msg, err := contract.DecodeMessage(out.Message)
	n := notice{Event: eventTool, Time: at, Node: c.node, Call: c.what}
	switch {
	case err != nil:
		f.done(at, c)
	case out.Error:
		f.tell(n, "%s: error: %s", c.what, clean(msg.Text, 200))
	default:
		f.tell(n, "%s: %d characters, %.1f s", c.what, len([]rune(msg.Text)), at.Sub(c.at).Seconds())
	}
}

// broken says how a call ended without a result.
func (f *follower) broken(at time.Time, c *call, how string) {
	if c != nil {
		f.tell(notice{Event: eventFailed, Time: at, Node: c.node, Call: c.what}, "%s: %s", c.what, how)
	}
}

// childLabel is what the names of a child's nodes begin with: nothing for a branch of the
// same flow, the place for a sub-agent.
func childLabel(label string, s *historypb.ChildWorkflowExecutionStartedEventAttributes) string {
	place, _, _ := strings.Cut(childPlace(s), ":")
	if place == "" {
		return label
	}
	return label + place + " › "
}

// childPlace is a sub-agent's node#step:call, or "" for a branch.
func childPlace(s *historypb.ChildWorkflowExecutionStartedEventAttributes) string {
	if s.GetWorkflowType().GetName() != contract.WorkflowFlow {
		return ""
	}
	id := s.GetWorkflowExecution().GetWorkflowId()
	return clean(unescape(id[strings.LastIndex(id, "/")+1:]), 100)
}

// placeOf splits an activity's id, node#step/kind/turn.
func placeOf(id string) (node, turn string) {
	rest, turn, ok := cutLast(id, "/")
	if !ok {
		return clean(unescape(id), 200), ""
	}
	if node, _, ok := cutLast(rest, "/"); ok {
		return clean(unescape(node), 200), unescape(turn)
	}
	return clean(unescape(rest), 200), unescape(turn)
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// decode reads one payload; false where a codec that we do not have wrote it.
func decode(p *commonpb.Payloads, v any) bool {
	return converter.GetDefaultDataConverter().FromPayloads(p, v) == nil
}

// failureText is the class and text of a failure as Temporal recorded it.
func failureText(p *failurepb.Failure) string {
	if p == nil {
		return "an unknown failure"
	}
	text := clean(p.GetMessage(), 300)
	if class := p.GetApplicationFailureInfo().GetType(); class != "" {
		return clean(class, 60) + ": " + text
	}
	return text
}
