package main

import (
	"fmt"
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
	done     chan struct{}
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
}

// event prints what an event means for a flow. The caller holds f.mu.
func (f *follower) event(t *track, e *historypb.HistoryEvent) {
	at := e.GetEventTime().AsTime()
	if f.begin.IsZero() {
		f.begin = at
	}
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		f.scheduled(t, e.GetEventId(), at, e.GetActivityTaskScheduledEventAttributes())
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED:
		s := e.GetActivityTaskStartedEventAttributes()
		if c := t.calls[s.GetScheduledEventId()]; c != nil && s.GetAttempt() > 1 && c.told < s.GetAttempt()-1 {
			f.line(at, c.node, "%s: attempt %d, after %s", c.what, s.GetAttempt(), failureText(s.GetLastFailure()))
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
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED:
		s := e.GetWorkflowTaskFailedEventAttributes()
		f.line(at, t.label, "the worker could not go on: %s; it tries again", failureText(s.GetFailure()))
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
		if t.id == f.id {
			f.line(at, "", "somebody asked the run to end")
		}
	case enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_FAILED:
		s := e.GetStartChildWorkflowExecutionFailedEventAttributes()
		f.line(at, t.label, "the child %s could not start: %s", clean(s.GetWorkflowId(), 200), s.GetCause())
	}
}

// line prints one line: time since the run's start, execution, text.
func (f *follower) line(at time.Time, node, format string, args ...any) {
	f.app.say("%7.1fs  %-24s  %s", at.Sub(f.begin).Seconds(), node, fmt.Sprintf(format, args...))
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
	case contract.ActivityListTool:
		c.node, c.what = strings.TrimSuffix(t.label, " › "), "list tools of "+clean(turn, 100)
		return
	default:
		c.what = strings.ToLower(c.kind) + " " + turn
	}
	if !t.started[node] {
		t.started[node] = true
		f.line(at, c.node, "started")
	}
}

// completed says what a call gave.
func (f *follower) completed(t *track, at time.Time, c *call, result *commonpb.Payloads) {
	if c == nil {
		return
	}
	switch c.kind {
	case contract.ActivityPrepare:
		var out contract.PrepareResult
		if decode(result, &out) && out.Model != "" && t.id == f.id {
			f.model(out.Model)
		}
		for _, w := range out.Warnings {
			f.line(at, c.node, "%s", clean(w, 500))
		}
	case contract.ActivityModel:
		f.answered(t, at, c, result)
	case contract.ActivityTool:
		f.tooled(at, c, result)
	case contract.ActivityJudge:
		var out contract.JudgeResult
		if !decode(result, &out) {
			return
		}
		text := fmt.Sprintf("judge %q: %s", c.asked, yesNo(out.Yes))
		if out.Reason != "" {
			text += " (" + clean(out.Reason, 200) + ")"
		}
		f.line(at, c.node, "%s%s", text, scriptNote(out.Model))
	default:
		f.line(at, c.node, "%s: done", c.what)
	}
}

// answered says what a model call gave, and whether that ends its node.
func (f *follower) answered(t *track, at time.Time, c *call, result *commonpb.Payloads) {
	var out contract.ModelResult
	if !decode(result, &out) {
		f.line(at, c.node, "%s: done", c.what)
		return
	}
	msg, err := contract.DecodeMessage(out.Message)
	if err != nil {
		f.line(at, c.node, "%s: done", c.what)
		return
	}
	numbers := fmt.Sprintf("%d+%d tokens, %.1f s%s", out.Usage.Input, out.Usage.Output, at.Sub(c.at).Seconds(), scriptNote(out.Model))
	switch {
	case len(msg.Calls) > 0 && !c.last:
		var names []string
		for _, t := range msg.Calls {
			names = append(names, clean(t.Name, 64))
		}
		f.line(at, c.node, "%s: calls %s (%s)", c.what, strings.Join(names, ", "), numbers)
	case out.Checked != nil && len(out.Checked.Errors) > 0:
		f.line(at, c.node, "%s: its JSON is wrong in %d places, the first: %s (%s)", c.what, len(out.Checked.Errors),
			clean(out.Checked.Errors[0].Path+": "+out.Checked.Errors[0].Message, 200), numbers)
	default:
		f.line(at, c.node, "%s: %q (%s)", c.what, clean(msg.Text, 60), numbers)
		f.line(at, c.node, "finished")
		node := strings.TrimPrefix(c.node, t.label)
		delete(t.started, node)
	}
}

// tooled says what a tool call gave.
func (f *follower) tooled(at time.Time, c *call, result *commonpb.Payloads) {
	var out contract.ToolResult
	if !decode(result, &out) {
		f.line(at, c.node, "%s: done", c.what)
		return
	}
	msg, err := contract.DecodeMessage(out.Message)
	switch {
	case err != nil:
		f.line(at, c.node, "%s: done", c.what)
	case out.Error:
		f.line(at, c.node, "%s: error: %s", c.what, clean(msg.Text, 200))
	default:
		f.line(at, c.node, "%s: %d characters, %.1f s", c.what, len([]rune(msg.Text)), at.Sub(c.at).Seconds())
	}
}

// broken says how a call ended without a result.
func (f *follower) broken(at time.Time, c *call, how string) {
	if c != nil {
		f.line(at, c.node, "%s: %s", c.what, how)
	}
}

// childLabel is what the names of a child's nodes begin with: nothing for a branch of the
// same flow, the place for a sub-agent.
func (f *follower) childLabel(t *track, s *historypb.ChildWorkflowExecutionStartedEventAttributes) string {
	if s.GetWorkflowType().GetName() != contract.WorkflowFlow {
		return t.label
	}
	id := s.GetWorkflowExecution().GetWorkflowId()
	place := clean(unescape(id[strings.LastIndex(id, "/")+1:]), 100)
	if node, _, ok := strings.Cut(place, ":"); ok {
		place = node
	}
	return t.label + place + " › "
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
