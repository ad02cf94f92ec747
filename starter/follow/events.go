package follow

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/starter/progress"
)

type track struct {
	id, run string
	// workflow is the workflow of its events.
	workflow *history.Workflow
	// tail reads the run's events; nil before the first.
	tail *history.Tail
	// label is the prefix of the names of its nodes: "" or the sub-agent's place.
	label string
	calls map[int64]*call
	// started are the running nodes, by key.
	started  map[string]*call
	children map[int64]*track
	// head is its entry in the order of the run's events.
	head    *head
	changed time.Time
	// looked is when the run was last described.
	looked time.Time
	// announced is when its worker was last notified that the run is watched.
	announced time.Time
	done      chan struct{}
	// broken is the failure of the last workflow task that failed, remedy its remedy.
	broken, remedy string
}

func newTrack(id, run, label string) *track {
	return &track{id: id, run: run, workflow: &history.Workflow{ID: id}, label: label, changed: time.Now(), done: make(chan struct{}),
		calls: map[int64]*call{}, started: map[string]*call{}, children: map[int64]*track{}}
}

type call struct {
	*history.Call
	// node is the displayed execution, key its unique key in the run; what names the call in it.
	node, key, what string
	// reported is the last attempt whose failure was printed.
	reported int32
	// partial is its partial answer; waits is the last reported reason for waiting.
	partial partialAnswer
	waits   string
}

// event reports an event, then the entries of the conversation that it adds.
func (f *Follower) event(t *track, e *history.Event) {
	if f.begin.IsZero() {
		f.begin = e.Time
	}
	f.addEvent(t, e)
	for _, m := range f.conversation.Add(e) {
		text := m.Message.Role + plaintext.If(m.Message.Name != "", " %s", plaintext.Line(m.Message.Name, 64))
		for _, c := range m.Message.Calls {
			text += fmt.Sprintf(" → %s %s", plaintext.Line(c.Name, 64), plaintext.Line(string(textutil.Unescape([]byte(c.Arguments))), 300))
		}
		f.notify(progress.Notice{Event: progress.EventMessage, Time: e.Time, Node: t.labelAt(m.Place) + plaintext.Line(m.Execution, 200), Message: m.Message},
			"%s: %s", text, plaintext.Line(m.Message.Text, 2000))
	}
}

func (f *Follower) addEvent(t *track, e *history.Event) {
	at := e.Time
	switch d := e.Data.(type) {
	case *history.Started:
		if t.id == f.target.ID && d.Type == contract.WorkflowFlow {
			flow, _ := d.Plan()
			f.plan(flow)
			f.continued(d)
		}
	case *history.Listed:
		if t.id == f.target.ID {
			for i := range d.Requests {
				f.open(&d.Requests[i])
			}
		}
	case *history.TaskFailed:
		t.broken, t.remedy = history.FailureText(d.Failure), brokenRemedy(d.Cause, d.Failure.GetMessage())
		f.notify(progress.Notice{Event: progress.EventNote, Time: at, Node: t.label}, "the workflow task failed: %s; it is retried", t.broken)
	case *history.Ended:
		if d.Status == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED {
			f.leave(t, at)
		}
	case *history.CancelRequested:
		if t.id == f.target.ID {
			f.notify(progress.Notice{Event: progress.EventNote, Time: at}, "cancellation requested")
		}
	case *history.ChildNotStarted:
		f.notify(progress.Notice{Event: progress.EventNote, Time: at, Node: t.label}, "the child %s could not start: %s", plaintext.Line(d.ID, 200), d.Cause)
	default:
		f.callEvent(t, e)
	}
}

func (f *Follower) callEvent(t *track, e *history.Event) {
	at := e.Time
	switch d := e.Data.(type) {
	case *history.CallScheduled:
		f.scheduled(t, d.Call)
	case *history.CallStarted:
		if c := t.calls[d.Scheduled]; c != nil && d.Attempt > 1 && c.reported < d.Attempt-1 {
			f.notify(progress.Notice{Event: progress.EventAttempt, Time: at, Node: c.node, Call: c.what, Attempt: d.Attempt - 1},
				"%s: attempt %d, after %s", c.what, d.Attempt, history.FailureText(d.Failure))
		}
	case *history.CallCompleted:
		if c := t.take(d.Scheduled); c != nil {
			f.completed(t, at, c, d)
		}
	case *history.CallFailed:
		how := cmp.Or(plaintext.If(d.TimedOut, "ran out of time: "), "failed: ")
		f.broken(at, t.take(d.Scheduled), how+history.FailureText(d.Failure))
	case *history.CallCancelled:
		f.broken(at, t.take(d.Scheduled), "cancelled")
	}
}

// notify reports a notice with a formatted text. The caller holds f.mu.
func (f *Follower) notify(n progress.Notice, format string, args ...any) {
	n.Text = fmt.Sprintf(format, args...)
	switch n.Event {
	case progress.EventAttempt, progress.EventFailed:
		n.Text = f.target.Reworded(n.Text)
	}
	if n.Time.IsZero() {
		n.Untimed, n.Time = true, time.Now()
	}
	if !f.begin.IsZero() {
		n.Seconds = math.Round(max(0, n.Time.Sub(f.begin).Seconds())*1000) / 1000
	}
	if !f.marks.isKnown() {
		f.Report.Notify(n)
	}
}

func (t *track) take(scheduled int64) *call {
	c := t.calls[scheduled]
	delete(t.calls, scheduled)
	return c
}

// labelAt returns the prefix of the names of nodes at a place: of a map's element in the run, or of the run itself.
func (t *track) labelAt(place string) string {
	if node, _, nested := strings.Cut(place, ":"); nested {
		return t.label + plaintext.Line(history.Unescape(node), 100) + " › "
	}
	return t.label
}

func (f *Follower) scheduled(t *track, of *history.Call) {
	node, turn := history.SplitCallID(of.ID)
	label := t.labelAt(of.Place)
	c := &call{Call: of, node: label + node, key: of.Place + node}
	t.calls[of.Scheduled] = c
	switch of.Kind {
	case contract.ActivityCallModel:
		c.what = "model call " + turn
	case contract.ActivityCallTool:
		c.what = "tool"
		if in, ok := of.Input.(*contract.ToolInput); ok {
			c.what = plaintext.If(in.TaskID != "", "task of ") + fmt.Sprintf("tool %s %s", plaintext.Line(in.As, 64), plaintext.Line(string(textutil.Unescape(in.Arguments)), 80))
		}
	case contract.ActivityEvaluateCondition:
		c.what = "judge"
		return
	case contract.ActivityCompileFlow:
		c.node, c.what = strings.TrimSuffix(label, " › "), "prepare"
		return
	case contract.ActivityValidateAnswer:
		if in, ok := of.Input.(*contract.ValidateAnswerInput); ok && len(in.Schema) > 0 {
			c.what = "arguments of " + plaintext.Line(in.Name, 64)
			break
		}
		c.node, c.what = "", "check of an answer"
		return
	case contract.ActivityFetchResult:
		c.node, c.what = "", "fetch of a result"
		return
	case contract.ActivityListTools:
		c.node, c.what = strings.TrimSuffix(label, " › "), "list tools of "+plaintext.Line(turn, 100)
		return
	default:
		c.what = strings.ToLower(of.Kind) + " " + turn
	}
	if t.started[c.key] == nil {
		f.leave(t, of.Time)
		t.started[c.key] = c
		f.notify(progress.Notice{Event: progress.EventStarted, Time: of.Time, Node: c.node}, "started")
	}
}

// leave reports the started nodes as finished, unless a call of one is in flight. It is called at the start of the next
// node and at the end of the run, for nodes whose last call does not show that they have finished.
func (f *Follower) leave(t *track, at time.Time) {
	for _, c := range t.calls {
		if t.started[c.key] != nil {
			return
		}
	}
	for _, key := range slices.Sorted(maps.Keys(t.started)) {
		f.notify(progress.Notice{Event: progress.EventFinished, Time: at, Node: t.started[key].node}, "finished")
	}
	clear(t.started)
}

func (f *Follower) completed(t *track, at time.Time, c *call, d *history.CallCompleted) {
	switch out := d.Result.(type) {
	case *contract.CompileFlowResult:
		if t.id == f.target.ID {
			f.plan(out.Plan)
			if out.Model != "" {
				f.model(out.Model)
			}
		}
		for _, w := range out.Warnings {
			f.notify(progress.Notice{Event: progress.EventWarning, Time: at, Node: c.node}, "%s", plaintext.Line(w, 500))
		}
	case *contract.ModelResult:
		f.answered(t, at, c, out)
	case *contract.ToolResult:
		f.toolResult(at, c, out)
	case *contract.ValidateAnswerResult:
		if len(out.Errors) > 0 { // news reports accepted answers
			f.notify(progress.Notice{Event: progress.EventNote, Time: at, Node: c.node, Call: c.what}, "%s: %s: %s",
				cmp.Or(plaintext.If(c.node != "", "%s were rejected", c.what), "an answer was rejected"), plaintext.Line(out.Errors[0].Path, 200), plaintext.Line(out.Errors[0].Message, 300))
		}
	case *contract.JudgeResult:
		f.switched(at, c, out.Fallbacks, out.Model)
		asked := ""
		if in, ok := c.Input.(*contract.JudgeInput); ok {
			asked = plaintext.Line(in.Question, 200)
		}
		text := fmt.Sprintf("judge %q: %s", asked, plaintext.YesNo(out.Yes))
		text += plaintext.If(out.Reason != "", " (%s)", plaintext.Line(out.Reason, 200))
		f.notify(progress.Notice{Event: progress.EventJudge, Time: at, Node: c.node, Call: c.what, Model: out.Model, Usage: &out.Usage}, "%s%s", text, scriptNote(out.Model))
	case *contract.CondenseResult:
		f.switched(at, c, out.Fallbacks, "")
		f.done(at, c)
	case *contract.SummariseResult:
		f.switched(at, c, out.Fallbacks, "")
		f.done(at, c)
	default:
		if !slices.Contains([]string{contract.ActivityCompileFlow, contract.ActivityValidateAnswer, contract.ActivityEvaluateCondition}, c.Kind) {
			f.done(at, c)
		}
	}
}

func (f *Follower) done(at time.Time, c *call) {
	f.notify(progress.Notice{Event: progress.EventCall, Time: at, Node: c.node, Call: c.what}, "%s: done", c.what)
}

func (f *Follower) answered(t *track, at time.Time, c *call, out *contract.ModelResult) {
	msg, err := contract.DecodeMessage(out.Message)
	if err != nil {
		f.done(at, c)
		return
	}
	in, _ := c.Input.(*contract.ModelInput)
	last := in != nil && in.NoTools // then the answer ends the node
	n := progress.Notice{Event: progress.EventModel, Time: at, Node: c.node, Call: c.what, Model: out.Model, Usage: &out.Usage, Attempt: out.Attempt}
	f.switched(at, c, out.Fallbacks, out.Model)
	numbers := fmt.Sprintf("%d+%d tokens, %.1f s%s", out.Usage.Input, out.Usage.Output, at.Sub(c.Time).Seconds(), scriptNote(out.Model))
	switch {
	case len(msg.Calls) > 0 && !last:
		names := ""
		for _, t := range msg.Calls {
			names += ", " + plaintext.Line(t.Name, 64)
		}
		f.notify(n, "%s: calls %s (%s)", c.what, names[len(", "):], numbers)
	case out.Checked != nil && len(out.Checked.Errors) > 0:
		more := len(out.Checked.Errors)
		f.notify(n, "%s: invalid JSON%s: %s (%s)", c.what, plaintext.If(more > 1, ", %d errors, the first", more),
			plaintext.Line(out.Checked.Errors[0].Path+": "+out.Checked.Errors[0].Message, 200), numbers)
	default:
		f.notify(n, "%s: %q (%s)", c.what, plaintext.Line(msg.Text, 60), numbers)
		if out.Checked == nil || out.Checked.Data != nil { // otherwise the node may request the output again
			f.notify(progress.Notice{Event: progress.EventFinished, Time: at, Node: c.node}, "finished")
			delete(t.started, c.key)
		}
	}
}

func (f *Follower) switched(at time.Time, c *call, list []contract.Fallback, to string) {
	for _, s := range list {
		f.notify(progress.Notice{Event: progress.EventWarning, Time: at, Node: c.node, Call: c.what, Model: s.Model}, "%s: switched from %s to %s: %s: %s",
			c.what, plaintext.Line(s.Model, 100), plaintext.Line(s.Next(to), 100), plaintext.Line(s.Class, 40), plaintext.Line(s.Text, 300))
	}
}

func (f *Follower) toolResult(at time.Time, c *call, out *contract.ToolResult) {
	n := progress.Notice{Event: progress.EventTool, Time: at, Node: c.node, Call: c.what}
	if msg, err := contract.DecodeMessage(out.Message); err != nil {
		f.done(at, c)
	} else if out.Error {
		f.notify(n, "%s: error: %s", c.what, plaintext.Line(msg.Text, 200))
	} else {
		f.notify(n, "%s: %d characters, %.1f s", c.what, len([]rune(msg.Text)), at.Sub(c.Time).Seconds())
	}
}

func (f *Follower) broken(at time.Time, c *call, how string) {
	if c != nil {
		f.notify(progress.Notice{Event: progress.EventFailed, Time: at, Node: c.node, Call: c.what}, "%s: %s", c.what, how)
	}
}

func scriptNote(model string) string { return plaintext.If(contract.ScriptedAll(model), ", scripted") }
