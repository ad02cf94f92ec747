package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// tree is what the histories of a run, of the runs that it continued and of all below it say
// of nodes and edges: which began, what conditions were answered, which runs are open. It
// needs no worker.
type tree struct {
	client client.Client
	// visits are in the order in which the flow began them, the root first.
	visits []*visit
	// gone are the ids of runs whose history is not there any more.
	gone []string
}

// visit is one workflow of the tree: a flow, or a branch of one.
type visit struct {
	id, run string
	// place is that of the sub-agent to which the workflow belongs, "" for the root's.
	place string
	// branch says that it is a branch; first is the execution that its chain began with.
	branch bool
	first  contract.Execution
	status enumspb.WorkflowExecutionStatus
	began  time.Time
	ended  time.Time
	flow   *plan.Flow
	source plan.Source
	entry  *contract.Execution
	// executions are those that have ended and are known with what they decided.
	executions []contract.Execution
	// seen are the executions that made calls, in their order, by node#step.
	seen   []string
	judged map[string][]contract.Answer
	usage  contract.Usage
	result *contract.RunResult
	// input is what a flow's run was started with, compiled its plan as an activity made it of
	// a document, model the model of nodes that name none. runs are the ids of the workflow's
	// runs, in their order.
	input    *contract.RunInput
	compiled *contract.PrepareResult
	model    string
	runs     []string
	costs    []*cost
	// failure is that of a run which failed, as Temporal recorded it.
	failure *failurepb.Failure
}

// open says whether the workflow runs.
func (v *visit) open() bool { return v.status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING }

// cost is what the calls of one execution took, and the last that they said.
type cost struct {
	exec     string
	usage    contract.Usage
	from, to time.Time
	text     string
}

// costOf finds or begins an execution's.
func (v *visit) costOf(exec string) *cost {
	label := labelOf(executionOf(exec))
	for _, c := range v.costs {
		if c.exec == label {
			return c
		}
	}
	c := &cost{exec: label}
	v.costs = append(v.costs, c)
	return c
}

// climber reads one history.
type climber struct {
	*tree
	v        *visit
	calls    map[int64]treeCall
	children map[int64]*historypb.ChildWorkflowExecutionStartedEventAttributes
}

type treeCall struct {
	kind, exec string
	question   contract.JudgeInput
}

// readTree reads the histories of a run and of all below it.
func readTree(ctx context.Context, c client.Client, id, run string) (*tree, error) {
	t := &tree{client: c}
	root := &visit{id: id}
	t.visits = append(t.visits, root)
	if err := t.climb(ctx, root, run); err != nil {
		return nil, fmt.Errorf("read the history of the run %q: %w", id, err)
	}
	return t, nil
}

// climb reads one run of a workflow, before it what it continued, and behind it its children.
func (t *tree) climb(ctx context.Context, v *visit, run string) error {
	c := &climber{tree: t, v: v, calls: map[int64]treeCall{}, children: map[int64]*historypb.ChildWorkflowExecutionStartedEventAttributes{}}
	var all []*historypb.HistoryEvent
	events := t.client.GetWorkflowHistory(ctx, v.id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return err
		}
		if s := e.GetChildWorkflowExecutionStartedEventAttributes(); s != nil {
			c.children[s.GetInitiatedEventId()] = s
		}
		all = append(all, e)
	}
	if len(all) > 0 {
		if before := all[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId(); before != "" {
			if err := t.below(ctx, v, before); err != nil {
				return err
			}
		}
	}
	v.runs = append(v.runs, run)
	v.run, v.status = run, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	for _, e := range all {
		if err := c.event(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// below reads another history; one that is gone is noted and is no error.
func (t *tree) below(ctx context.Context, v *visit, run string) error {
	err := t.climb(ctx, v, run)
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		t.gone = append(t.gone, v.id)
		return nil
	}
	return err
}

// closings are the events that end a workflow.
var closings = map[enumspb.EventType]enumspb.WorkflowExecutionStatus{
	enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:        enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED,
	enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:           enumspb.WORKFLOW_EXECUTION_STATUS_FAILED,
	enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:         enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED,
	enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:       enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED,
	enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:        enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT,
	enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW: enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW,
}

// event takes what an event adds.
func (c *climber) event(ctx context.Context, e *historypb.HistoryEvent) error {
	if status, ok := closings[e.GetEventType()]; ok {
		c.v.status, c.v.ended = status, e.GetEventTime().AsTime()
	}
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
		if c.v.began.IsZero() {
			c.v.began = e.GetEventTime().AsTime()
		}
		c.begun(e.GetWorkflowExecutionStartedEventAttributes())
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
		var out contract.RunResult
		if s := e.GetWorkflowExecutionCompletedEventAttributes(); !c.v.branch && decode(s.GetResult(), &out) {
			c.v.result = &out
		}
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
		c.v.failure = e.GetWorkflowExecutionFailedEventAttributes().GetFailure()
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		c.scheduled(e.GetEventId(), e.GetActivityTaskScheduledEventAttributes(), e.GetEventTime().AsTime())
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
		c.completed(e.GetActivityTaskCompletedEventAttributes(), e.GetEventTime().AsTime())
	case enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
		return c.child(ctx, c.children[e.GetEventId()])
	case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED:
		s := e.GetChildWorkflowExecutionCompletedEventAttributes()
		var out contract.BranchResult
		if s.GetWorkflowType().GetName() == contract.WorkflowBranch && decode(s.GetResult(), &out) {
			c.v.executions = append(c.v.executions, out.Executions...)
		}
	}
	return nil
}

// begun takes what the workflow was given.
func (c *climber) begun(s *historypb.WorkflowExecutionStartedEventAttributes) {
	if c.v.branch = s.GetWorkflowType().GetName() == contract.WorkflowBranch; c.v.branch {
		var in contract.BranchInput
		if decode(s.GetInput(), &in) {
			c.v.first = contract.Execution{Node: in.Node, Step: in.Step, Nth: in.Nth}
			c.v.flow, c.v.source = in.Plan, in.Source
		}
		return
	}
	var in contract.RunInput
	if !decode(s.GetInput(), &in) {
		return
	}
	if in.Carry == nil {
		c.v.input = &in
	}
	if k := in.Fork; k != nil {
		c.v.entry = &k.Entry
		for i := range k.Past {
			c.v.executions = append(c.v.executions, k.Past[i].Execution)
		}
	}
	switch {
	case in.Carry != nil && in.Carry.Plan != nil:
		k := in.Carry
		c.v.flow, c.v.source, c.v.executions = k.Plan, k.Source, k.Trace
		if len(k.Entered) > 0 {
			c.v.entry = &contract.Execution{Node: plan.Start, Answers: k.Answers, Taken: k.Entered}
		}
	case in.Flow.Plan != nil:
		c.v.flow = in.Flow.Plan
		if in.Flow.Source != nil {
			c.v.source = *in.Flow.Source
		}
	}
}

// child reads the history of a child, if it has started.
func (c *climber) child(ctx context.Context, s *historypb.ChildWorkflowExecutionStartedEventAttributes) error {
	if s == nil {
		return nil
	}
	v := &visit{id: s.GetWorkflowExecution().GetWorkflowId(), place: c.v.place}
	if place := childPlace(s); place != "" {
		v.place += place + " › "
	}
	c.visits = append(c.visits, v)
	return c.below(ctx, v, s.GetWorkflowExecution().GetRunId())
}

// scheduled notes the execution that makes a call.
func (c *climber) scheduled(id int64, s *historypb.ActivityTaskScheduledEventAttributes, at time.Time) {
	call := treeCall{kind: s.GetActivityType().GetName()}
	exec, _, inNode := strings.Cut(s.GetActivityId(), "/")
	if call.exec = exec; call.kind == contract.ActivityJudge {
		decode(s.GetInput(), &call.question)
	}
	if inNode && strings.Contains(exec, "#") && (len(c.v.seen) == 0 || c.v.seen[len(c.v.seen)-1] != exec) {
		c.v.seen = append(c.v.seen, exec)
	}
	if inNode && strings.Contains(exec, "#") {
		if x := c.v.costOf(exec); x.from.IsZero() {
			x.from = at
		}
	}
	c.calls[id] = call
}

// completed takes what a call says of the flow or of its edges.
func (c *climber) completed(s *historypb.ActivityTaskCompletedEventAttributes, at time.Time) {
	call := c.calls[s.GetScheduledEventId()]
	if strings.Contains(call.exec, "#") {
		c.v.costOf(call.exec).to = at
	}
	switch call.kind {
	case contract.ActivityPrepare:
		var out contract.PrepareResult
		if decode(s.GetResult(), &out) {
			c.v.prepared(&out)
		}
	case contract.ActivityModel:
		var out contract.ModelResult
		if decode(s.GetResult(), &out) {
			c.v.usage.Add(out.Usage)
			x := c.v.costOf(call.exec)
			x.usage.Add(out.Usage)
			c.v.usage.Switch(out.Model, out.Switched)
			if m, err := contract.DecodeMessage(out.Message); err == nil && len(m.Parts) == 0 {
				x.text = m.Text
			}
		}
	case contract.ActivityJudge:
		var out contract.JudgeResult
		if !decode(s.GetResult(), &out) {
			return
		}
		c.v.usage.Add(out.Usage)
		c.v.usage.Switch(out.Model, out.Switched)
		if strings.Contains(call.exec, "#") {
			c.v.costOf(call.exec).usage.Add(out.Usage)
		}
		if c.v.judged == nil {
			c.v.judged = map[string][]contract.Answer{}
		}
		c.v.judged[call.exec] = append(c.v.judged[call.exec], contract.Answer{
			Execution: call.exec, Edge: c.v.edgeAsked(&call.question), Question: call.question.Question, Yes: out.Yes, Reason: out.Reason})
	}
}

// prepared takes what an activity made of the run's document.
func (v *visit) prepared(out *contract.PrepareResult) {
	v.model = out.Model
	if out.Plan == nil {
		return
	}
	if v.compiled == nil && out.Hash != "" {
		v.compiled = out
	}
	v.flow = out.Plan
	if out.Source.File != "" || len(out.Source.Positions) > 0 {
		v.source = out.Source
	}
}

// edgeAsked is the id of the edge whose question was put, "" where the plan has none.
func (v *visit) edgeAsked(in *contract.JudgeInput) string {
	if v.flow == nil {
		return ""
	}
	for _, e := range v.flow.Edges {
		if e.From == in.Node && e.Question == in.Question {
			return e.ID
		}
	}
	return ""
}
