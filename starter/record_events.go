package main

import (
	"encoding/json"
	"slices"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/sdk/temporal"

	"weft/activities"
	"weft/activities/contract"
	"weft/activities/llm"
	"weft/worker/rehearse"
)

// recordedRun is one run whose history is read.
type recordedRun struct {
	*recorder
	id     string
	events []*historypb.HistoryEvent
	// asked are the places of calls under way, by the event that scheduled them.
	asked map[int64]string
	// checks are checks of answers under way.
	checks map[int64]contract.CheckInput
	// inbox is what came to the run, if it takes turns.
	inbox *mailbox
	// resumed are the events by which Updates with a session's prompt were accepted.
	resumed map[int64]bool
}

// event takes what an event adds.
func (c *recordedRun) event(i int, e *historypb.HistoryEvent) error {
	root := c.id == c.root
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
		c.turns(e.GetWorkflowExecutionStartedEventAttributes())
		c.started(e.GetWorkflowExecutionStartedEventAttributes())
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		c.scheduled(e.GetEventId(), e.GetActivityTaskScheduledEventAttributes())
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED:
		c.inbox.begin()
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
		c.inbox.end()
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
		s := e.GetActivityTaskCompletedEventAttributes()
		if in, ok := c.checks[s.GetScheduledEventId()]; ok {
			c.checked(&in, s.GetResult())
			return nil
		}
		c.completed(c.asked[s.GetScheduledEventId()], s.GetResult())
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED:
		s := e.GetActivityTaskFailedEventAttributes()
		c.failed(c.asked[s.GetScheduledEventId()], s.GetFailure())
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
		s := e.GetActivityTaskTimedOutEventAttributes()
		c.failed(c.asked[s.GetScheduledEventId()], s.GetFailure())
	case enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
		return c.child(i, e.GetEventId())
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
		s := e.GetWorkflowExecutionSignaledEventAttributes()
		if root {
			c.told(s.GetSignalName(), s.GetInput())
		}
		c.inbox.signalled(s)
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED:
		req := e.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest()
		c.resumed[e.GetEventId()] = req.GetInput().GetName() == contract.UpdateResume
		c.updated(req)
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED:
		c.prompted(e.GetWorkflowExecutionUpdateCompletedEventAttributes())
	default:
		c.inbox.closed(e)
		if root {
			c.ended(e)
		}
	}
	return nil
}

// updated takes an Update that was not refused. A prompt whose turn the run's cancellation ended was
// taken, too.
func (c *recordedRun) updated(req *updatepb.Request) {
	err := c.refused(req.GetMeta().GetUpdateId())
	if err != nil && (req.GetInput().GetName() != contract.UpdateResume || !contract.Cancelled(err)) {
		return
	}
	if c.id == c.root {
		c.told(req.GetInput().GetName(), req.GetInput().GetArgs())
	}
	c.inbox.updated(req)
}

// started takes what the run was given.
func (c *recordedRun) started(s *historypb.WorkflowExecutionStartedEventAttributes) {
	var in contract.RunInput
	if c.id != c.root || c.begun || !decode(s.GetInput(), &in) {
		return
	}
	if in.Carry != nil { // what it continues is gone
		return
	}
	c.begun = true
	in.Script, in.ScriptRef, in.MaxEvents, in.MaxPayload = nil, nil, 0, 0
	in.Components, in.ComponentIDs, in.Flow.Files = nil, nil, nil
	c.rec.Run = in
}

// compiled takes the plan that an activity made of a document, and the model that it settled.
func (c *recordedRun) compiled(p *commonpb.Payloads) {
	var out contract.PrepareResult
	if c.id != c.root || !decode(p, &out) {
		return
	}
	if c.rec.Run.Flow.Plan == nil && out.Plan != nil {
		c.rec.Run.Flow = contract.FlowRef{Plan: out.Plan, Source: &out.Source}
	}
	if c.rec.Run.Model == "" && out.Model != contract.NoModel {
		c.rec.Run.Model = out.Model // the worker's, which other workers may not have
	}
}

// child reads the history of a child where it started.
func (c *recordedRun) child(i int, asked int64) error {
	for _, e := range c.events[i:] {
		if s := e.GetChildWorkflowExecutionStartedEventAttributes(); s != nil && s.GetInitiatedEventId() == asked {
			x := s.GetWorkflowExecution()
			return c.visit(x.GetWorkflowId(), x.GetRunId())
		}
	}
	return nil
}

// scheduled notes what a call asks.
func (c *recordedRun) scheduled(id int64, s *historypb.ActivityTaskScheduledEventAttributes) {
	kind := s.GetActivityType().GetName()
	at := strings.TrimPrefix(c.id+"/"+activities.CallID(s.GetActivityId()), c.root+"/")
	switch kind {
	case contract.ActivityCheck:
		var in contract.CheckInput
		if decode(s.GetInput(), &in) {
			c.checks[id] = in
		}
		return
	case contract.ActivityWebhook:
		return
	case contract.ActivityPrepare:
		// Plans that a worker made of documents of the run's own, for sub-agents, are played again; the
		// run's own is what it was started with.
		var in contract.PrepareInput
		if c.id == c.root || !decode(s.GetInput(), &in) || in.Flow.Plan != nil {
			return
		}
	}
	c.asked[id] = at
	if t := c.elsewhere[[2]string{s.GetTaskQueue().GetName(), kind}]; t != nil {
		c.outside[at] = t
		c.put(t.asks(at, s.GetInput()))
		return
	}
	c.put(c.asks(at, kind, s.GetInput()))
}

// asks is what a call asks.
func (c *recordedRun) asks(at, kind string, input *commonpb.Payloads) rehearse.Call {
	x := rehearse.Call{At: at, Kind: kind, Pending: true}
	switch kind {
	case contract.ActivityModel:
		var in contract.ModelInput
		if decode(input, &in) {
			for _, e := range in.Tail {
				if len(e.Message) > 0 {
					c.content[contract.SHA(e.Message)] = e.Message
					c.heard = append(c.heard, toldText{at, saidByUser(e.Message)})
				}
			}
			x.Told = rehearse.Told(in.Tail, func(sha string) (string, bool) { return rehearse.TextOf(c.content[sha]) })
		}
	case contract.ActivityJudge:
		var in contract.JudgeInput
		if decode(input, &in) {
			x.Question = in.Question
		}
	case contract.ActivityTool:
		var in contract.ToolInput
		if decode(input, &in) {
			x.Tool, x.Arguments = in.Name, in.Arguments
			if len(in.Arguments) == 0 && in.Call != nil {
				x.Arguments = rehearse.ArgumentsIn(c.content[in.Call.SHA], in.CallID)
			}
		}
	}
	return x
}

// completed takes what a call gave.
func (c *recordedRun) completed(at string, p *commonpb.Payloads) {
	x := c.call(at)
	if x == nil {
		c.compiled(p)
		return
	}
	x.Pending, x.Fail = false, nil
	c.inbox.ended(at)
	if t := c.outside[at]; t != nil {
		t.said(x, p)
		return
	}
	switch x.Kind {
	case contract.ActivityListTool:
		c.listed(x, p)
	case contract.ActivityModel:
		var out contract.ModelResult
		if decode(p, &out) {
			c.said(at, &out)
		}
	case contract.ActivityJudge:
		var out contract.JudgeResult
		if decode(p, &out) {
			c.rule(at, "", out.Switched, llm.Action{Yes: &out.Yes, Reason: out.Reason, Usage: spent(out.Usage)})
		}
	case contract.ActivityCondense:
		var out contract.CondenseResult
		if decode(p, &out) {
			c.rule(at, llm.KindCondense, out.Switched, llm.Action{JSON: out.Value, Usage: spent(out.Usage)})
		}
	case contract.ActivitySummarise:
		var out contract.SummariseResult
		if decode(p, &out) {
			c.rule(at, llm.KindCondense, out.Switched, llm.Action{Say: &out.Text, Usage: spent(out.Usage)})
		}
	case contract.ActivityTool:
		var out contract.ToolResult
		if decode(p, &out) {
			c.answered(x, &out)
		}
	default:
		var raw json.RawMessage
		if decode(p, &raw) {
			x.Data = raw
		}
	}
}

// answered takes a tool's answer: its text, or the whole message where that says more.
func (c *recordedRun) answered(x *rehearse.Call, out *contract.ToolResult) {
	c.content[contract.SHA(out.Message)] = out.Message
	x.Error = out.Error
	m, err := contract.DecodeMessage(out.Message)
	if err != nil || len(m.Parts)+len(m.Images) > 0 || m.Reasoning != "" || len(m.Provider) > 0 || m.Error != out.Error || m.From+m.To != "" {
		x.Data = out.Message
		return
	}
	x.Result = &m.Text
}

// failed takes how a call failed in the end.
func (c *recordedRun) failed(at string, p *failurepb.Failure) {
	x := c.call(at)
	if x == nil {
		return
	}
	x.Pending = false
	c.inbox.ended(at)
	if t := c.outside[at]; t != nil {
		if text, ok := t.how.Told(temporal.GetDefaultFailureConverter().FailureToError(p)); ok {
			x.Result, x.Error, x.Fail = &text, true, nil
			return
		}
	}
	x.Fail = contract.FailureOf(temporal.GetDefaultFailureConverter().FailureToError(p))
	kind := map[string]string{contract.ActivityModel: llm.KindAgent, contract.ActivityJudge: llm.KindJudge,
		contract.ActivityCondense: llm.KindCondense, contract.ActivitySummarise: llm.KindCondense}[x.Kind]
	if kind == "" {
		return
	}
	c.rule(at, kind, nil, llm.Action{Fail: &llm.ScriptFail{Class: played(x.Fail.Class), Text: x.Fail.Text}})
}

// told takes what somebody told the run.
func (c *recordedRun) told(kind string, input *commonpb.Payloads) {
	var raw json.RawMessage
	if !slices.Contains(contract.Requests, kind) || kind == contract.RequestRetry || !decode(input, &raw) {
		return
	}
	c.rec.Answers = append(c.rec.Answers, rehearse.Answer{Kind: kind, Value: raw})
}

// checked drops an answer that was refused for what it holds, as signals are.
func (c *recordedRun) checked(in *contract.CheckInput, result *commonpb.Payloads) {
	var out contract.CheckResult
	if !decode(result, &out) || len(out.Errors) == 0 {
		return
	}
	c.rec.Answers = slices.DeleteFunc(c.rec.Answers, func(a rehearse.Answer) bool {
		var v struct{ Arguments, Result json.RawMessage }
		return json.Unmarshal(a.Value, &v) == nil && (len(in.Arguments) > 0 && rehearse.Same(v.Arguments, in.Arguments) ||
			len(in.Result) > 0 && rehearse.Same(v.Result, in.Result))
	})
}

// refused is why an Update failed behind its acceptance, or nil.
func (c *recordedRun) refused(update string) error {
	for _, e := range c.events {
		if s := e.GetWorkflowExecutionUpdateCompletedEventAttributes(); s != nil && s.GetMeta().GetUpdateId() == update {
			return temporal.GetDefaultFailureConverter().FailureToError(s.GetOutcome().GetFailure())
		}
	}
	return nil
}

// ended takes the run's end.
func (c *recordedRun) ended(e *historypb.HistoryEvent) {
	x := &c.rec.Expect
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
		var out contract.RunResult
		x.Status = contract.StatusCompleted
		if decode(e.GetWorkflowExecutionCompletedEventAttributes().GetResult(), &out) {
			x.ResultText, x.ResultData, x.ResultNode = out.ResultText, out.ResultData, out.ResultNode
			for i := range out.Turns {
				x.Turns = append(x.Turns, rehearse.NewTurnOf("", &out.Turns[i]))
			}
		}
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
		x.Status = contract.StatusFailed
		x.Class = contract.FailureOf(temporal.GetDefaultFailureConverter().FailureToError(e.GetWorkflowExecutionFailedEventAttributes().GetFailure())).Class
		x.Turns = c.turnsBefore()
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
		x.Status, x.Turns = contract.StatusCancelled, c.turnsBefore()
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
		x.Status, x.Turns = rehearse.Terminated, c.turnsBefore()
	}
}
