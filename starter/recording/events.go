package recording

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/worker/rehearse"
)

type recordedRun struct {
	*recorder
	id string
	// inbox collects the messages and results that the run received.
	inbox *mailbox
}

func (r *recorder) event(e *history.Event) {
	if _, missing := e.Data.(*history.Missing); missing {
		r.warnings = append(r.warnings, fmt.Sprintf("the history of %s is no longer retained; its calls are not recorded", plaintext.Line(e.Run.ID, 200)))
		return
	}
	c := r.runOf(e.Run)
	switch d := e.Data.(type) {
	case *history.Started:
		c.turns(d)
		c.begin(d)
	case *history.TaskStarted:
		c.inbox.begin(e.Time)
	case *history.TaskCompleted:
		c.inbox.end()
	case *history.Message:
		c.message(d)
	case *history.UpdateCompleted:
		if d.Turn != nil {
			c.addTurn(d.Turn)
		}
	case *history.ChildEnded:
		c.inbox.closed(d)
	case *history.CancelRequested:
		c.inbox.waiting.Cancelled = c.id == c.root
	case *history.Ended:
		if e.Run.Root {
			c.ended(d)
			c.over = e.Time
		}
	default:
		c.callEvent(e)
	}
}

func (c *recordedRun) callEvent(e *history.Event) {
	switch d := e.Data.(type) {
	case *history.MessagesRecorded:
		c.messages(d)
	case *history.CallScheduled:
		c.scheduled(d.Call)
	case *history.CallCompleted:
		c.completed(d)
		if at := c.place(d.Call); e.ID == d.Scheduled {
			delete(c.asked, at) // a local activity: the workflow task had the result immediately
		} else if c.call(at) != nil {
			c.inbox.ended(at)
		}
	case *history.CallFailed:
		if c.isStart(d.Call) {
			c.unstarted = &rehearse.Call{At: c.place(d.Call), Kind: d.Kind, Fail: contract.FailureOf(history.Error(d.Failure))}
		}
		c.failed(c.place(d.Call), d.Failure)
	}
}

func (r *recorder) runOf(run history.Run) *recordedRun {
	if run.Within != nil {
		run.Workflow = run.Within
	}
	if r.runs[run] == nil {
		r.runs[run] = &recordedRun{recorder: r, id: run.ID, inbox: &mailbox{r: r, run: r.relativeID(run.ID), last: -1}}
	}
	return r.runs[run]
}

// message records a signal or an accepted Update, including a prompt whose turn was ended by the run's cancellation.
func (c *recordedRun) message(m *history.Message) {
	if m.Outcome != nil && m.Outcome.Failure != nil && (m.Name != contract.UpdatePrompt || !contract.Cancelled(history.Error(m.Outcome.Failure))) {
		return
	}
	if c.id == c.root {
		c.answer(m)
	}
	if m.Update {
		c.inbox.updated(m)
	} else {
		c.inbox.signalled(m)
	}
}

func (c *recordedRun) begin(s *history.Started) {
	if c.id != c.root || c.started || s.Input == nil || s.Input.Snapshot != nil { // the run that it continues is no longer retained
		return
	}
	in := *s.Input
	c.started = true
	in.Script, in.ScriptRef, in.MaxEvents, in.MaxPayload = nil, nil, 0, 0
	in.Components, in.ComponentIDs, in.Flow.Files = nil, nil, nil
	c.rec.Run = in
}

func (c *recordedRun) compiled(out *contract.CompileFlowResult) {
	if c.id != c.root {
		return
	}
	if c.rec.Run.Flow.Plan == nil && out.Plan != nil {
		c.rec.Run.Flow = contract.FlowRef{Plan: out.Plan, Source: &out.Source}
	}
	if c.rec.Run.Model == "" && out.Model != contract.NoModel {
		c.rec.Run.Model = out.Model // the worker's default, which may differ between workers
	}
}

func (c *recordedRun) place(of *history.Call) string {
	return strings.TrimPrefix(contract.FlowID(c.id)+"/"+of.Place+contract.CallID(of.ID), c.root+"/")
}

func (c *recordedRun) scheduled(of *history.Call) {
	at := c.place(of)
	defer func() {
		if _, again := c.asked[at]; !again && c.call(at) != nil {
			c.asked[at] = of.Time
		}
	}()
	switch of.Kind {
	case contract.ActivityValidateAnswer, contract.ActivityFetchResult, contract.ActivityCallWebhook:
		return
	case contract.ActivityCompileFlow:
		// Plans that a worker compiled for sub-agents are replayed as results; the run's own plan
		// is part of its input.
		in, ok := of.Input.(*contract.CompileFlowInput)
		if c.isStart(of) || !ok || in.Flow.Plan != nil {
			return
		}
	}
	if t := c.external[[2]string{of.TaskQueue, of.Kind}]; t != nil {
		c.outside[at] = t
		c.put(rehearse.Call{At: at, Kind: contract.ActivityCallTool, Tool: t.name, Pending: true, Arguments: of.Argument()})
		return
	}
	c.put(c.described(at, of))
}

// isStart reports whether a call compiles the run's own flow, checks its inputs, or chooses its model.
func (c *recordedRun) isStart(of *history.Call) bool {
	return of.Kind == contract.ActivityCompileFlow && c.id == c.root
}

func (c *recordedRun) described(at string, of *history.Call) rehearse.Call {
	x := rehearse.Call{At: at, Kind: of.Kind, Pending: true}
	switch in := of.Input.(type) {
	case *contract.ModelInput:
		for _, e := range in.Tail {
			if len(e.Message) > 0 {
				c.content[contract.SHA(e.Message)] = e.Message
				if m, err := contract.DecodeMessage(e.Message); err == nil && m.Role == contract.RoleUser {
					c.userTexts = append(c.userTexts, userText{at, m.Text})
				}
			}
		}
		x.Sent = rehearse.LastInput(in.Tail, func(sha string) (string, bool) { return rehearse.MessageText(c.content[sha]) })
	case *contract.JudgeInput:
		x.Question = in.Question
	case *contract.ToolInput:
		x.Tool, x.Arguments = in.Name, in.Arguments
		if len(in.Arguments) == 0 && in.Call != nil {
			x.Arguments = rehearse.CallArguments(c.content[in.Call.SHA], in.CallID)
		}
	}
	return x
}

func (c *recordedRun) completed(d *history.CallCompleted) {
	at := c.place(d.Call)
	x := c.call(at)
	if c.isStart(d.Call) {
		c.unstarted = nil
	}
	if x == nil {
		switch out := d.Result.(type) {
		case *contract.CompileFlowResult:
			c.compiled(out)
		case *contract.ValidateAnswerResult:
			c.removeRejected(d.Call, out)
		}
		return
	}
	x.Pending, x.Fail = false, nil
	if t := c.outside[at]; t != nil {
		text := rehearse.ResultText(d.JSON())
		x.Result = &text
		return
	}
	switch out := d.Result.(type) {
	case *contract.CatalogueResult:
		x.Data = d.JSON()
		c.listed(out)
	case *contract.ModelResult:
		c.modelAnswer(at, out)
	case *contract.JudgeResult:
		c.rule(at, "", out.Fallbacks, llm.Action{Yes: &out.Yes, Reason: out.Reason, Usage: usageOf(out.Usage)})
	case *contract.CondenseResult:
		c.rule(at, llm.KindCondense, out.Fallbacks, llm.Action{JSON: out.Value, Usage: usageOf(out.Usage)})
	case *contract.SummariseResult:
		c.rule(at, llm.KindCondense, out.Fallbacks, llm.Action{Say: &out.Text, Usage: usageOf(out.Usage)})
	case *contract.ToolResult:
		c.answered(x, out)
	default:
		if raw := d.JSON(); raw != nil {
			x.Data = raw
		}
	}
}

// answered records a tool's result: its text, or the complete message if it has more.
func (c *recordedRun) answered(x *rehearse.Call, out *contract.ToolResult) {
	c.content[contract.SHA(out.Message)] = out.Message
	x.Error = out.Error
	m, err := contract.DecodeMessage(out.Message)
	if err != nil || len(m.Parts)+len(m.Media) > 0 || m.Reasoning != "" || len(m.Provider) > 0 || m.Error != out.Error || m.From+m.To != "" {
		x.Data = out.Message
		return
	}
	x.Result = &m.Text
}

func (c *recordedRun) failed(at string, p *failurepb.Failure) {
	x := c.call(at)
	if x == nil {
		return
	}
	x.Pending = false
	c.inbox.ended(at)
	if t := c.outside[at]; t != nil {
		if text, ok := t.how.ErrorText(history.Error(p)); ok {
			x.Result, x.Error, x.Fail = &text, true, nil
			return
		}
	}
	x.Fail = contract.FailureOf(history.Error(p))
	kind := map[string]string{contract.ActivityCallModel: llm.KindAgent, contract.ActivityEvaluateCondition: llm.KindJudge,
		contract.ActivityCondenseValue: llm.KindCondense, contract.ActivitySummariseConversation: llm.KindCondense}[x.Kind]
	if kind == "" {
		return
	}
	c.rule(at, kind, nil, llm.Action{Fail: &llm.ScriptFail{Class: scriptClass(x.Fail.Class), Text: x.Fail.Text}})
}

func (c *recordedRun) answer(m *history.Message) {
	if !slices.Contains(contract.Requests, m.Name) {
		return
	}
	if raw, ok := m.JSON(); ok {
		var retry contract.RetryAnswer
		if m.Name == contract.RequestRetry && (json.Unmarshal(raw, &retry) != nil || !retry.GiveUp) {
			return // the repeated call is recorded
		}
		c.rec.Answers = append(c.rec.Answers, rehearse.Answer{Kind: m.Name, Value: raw})
	}
}

// messages records the messages that nodes of the run and its descendants added to its conversation.
func (c *recordedRun) messages(d *history.MessagesRecorded) {
	for _, thread := range d.Threads() {
		for i, e := range thread.Messages {
			if len(e.Message) > 0 {
				c.content[e.SHA] = e.Message
			}
			raw := c.content[e.SHA]
			if c.id != c.root || d.Place != "" || thread.Thread != contract.ConversationThread || len(raw) == 0 || thread.From+i < c.recorded {
				continue // a continued run repeats earlier messages
			}
			c.recorded = thread.From + i + 1
			if m, err := contract.DecodeMessage(raw); err == nil && m.Text != "" {
				c.rec.Expect.Said = append(c.rec.Expect.Said, m.Text)
			}
		}
	}
}

// removeRejected removes an answer that was rejected because of its content, as happens to signals.
func (c *recordedRun) removeRejected(of *history.Call, out *contract.ValidateAnswerResult) {
	in, ok := of.Input.(*contract.ValidateAnswerInput)
	if !ok || len(out.Errors) == 0 || len(in.Schema) > 0 {
		return
	}
	c.rec.Answers = slices.DeleteFunc(c.rec.Answers, func(a rehearse.Answer) bool {
		var v struct{ Arguments, Result json.RawMessage }
		return json.Unmarshal(a.Value, &v) == nil && (len(in.Arguments) > 0 && rehearse.EqualJSON(v.Arguments, in.Arguments) ||
			len(in.Result) > 0 && rehearse.EqualJSON(v.Result, in.Result))
	})
}

func (c *recordedRun) ended(d *history.Ended) {
	x := &c.rec.Expect
	switch d.Status {
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		x.Status = contract.StatusCompleted
		if out := d.Result; out != nil {
			x.ResultText, x.ResultData, x.ResultNode = out.ResultText, out.ResultData, out.ResultNode
			for i := range out.Turns {
				x.Turns = append(x.Turns, rehearse.NewTurn("", &out.Turns[i]))
			}
		}
	case enumspb.WORKFLOW_EXECUTION_STATUS_FAILED:
		x.Status = contract.StatusFailed
		x.Class = contract.FailureOf(history.Error(d.Failure)).Class
		x.Turns = c.turnsBefore()
	case enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		x.Status, x.Turns = contract.StatusCancelled, c.turnsBefore()
	case enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		x.Status, x.Turns = rehearse.Terminated, c.turnsBefore()
	}
}

// externalTool is an activity of another worker that is recorded as a tool.
type externalTool struct {
	name string
	how  *contract.ExternalActivity
}

func (c *recordedRun) listed(out *contract.CatalogueResult) {
	var described contract.Catalogue
	if out.ExternalActivity == nil || json.Unmarshal(out.Catalogue, &described) != nil || len(described.Tools) != 1 {
		return
	}
	c.external[[2]string{out.ExternalActivity.TaskQueue, out.ExternalActivity.Activity}] = &externalTool{described.Tools[0].Name, out.ExternalActivity}
}
