package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// archive is what the histories of a run hold, of its children and of the runs that it
// continued: all conversations. It needs no worker.
type archive struct {
	client client.Client
	// content are stored bytes by hash.
	content map[string]json.RawMessage
	// switched are the models that were asked before the one that gave a message, by its hash.
	switched map[string][]contract.Switch
	threads  []*conversation
	usage    contract.Usage
	model    string
	result   *contract.RunResult
	// flow is what ran; nil where history does not say.
	flow *plan.Flow
	// gone says what could not be read.
	gone []string
}

// conversation is one thread: the hashes of its messages, "" where one is not known.
type conversation struct {
	// name is the thread's, behind the place of the sub-agent that it belongs to.
	name string
	// exec is the execution whose thread it is: node#step.
	exec string
	shas []string
	// late are results of tools that no model call has seen yet.
	late []string
}

// chapter is one run whose history is read.
type chapter struct {
	*archive
	id, run, label string
	// calls are the activities under way, by the event that scheduled them.
	calls map[int64]archivedCall
	// children are those that have started, by the event that asked for them: that order is
	// the flow's, the other is chance.
	children map[int64]*historypb.ChildWorkflowExecutionStartedEventAttributes
	// images are those that the run was given.
	images []contract.Image
	root   bool
}

type archivedCall struct {
	kind   string
	thread *conversation
	at     int
}

// readArchive reads everything that history has of a run.
func readArchive(ctx context.Context, c client.Client, id, run string) (*archive, error) {
	a := &archive{client: c, content: map[string]json.RawMessage{}, switched: map[string][]contract.Switch{}}
	if err := a.read(ctx, id, run, "", true); err != nil {
		return nil, fmt.Errorf("read the history of the run %q: %w", id, err)
	}
	return a, nil
}

// read reads a run, before it what it continued, and where they start its children.
func (a *archive) read(ctx context.Context, id, run, label string, root bool) error {
	c := chapter{archive: a, id: id, run: run, label: label, root: root, calls: map[int64]archivedCall{},
		children: map[int64]*historypb.ChildWorkflowExecutionStartedEventAttributes{}}
	var all []*historypb.HistoryEvent
	events := a.client.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
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
	for _, e := range all {
		if err := c.event(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// below reads another run's history; one that is gone is noted and is no error.
func (a *archive) below(ctx context.Context, id, run, label string, root bool) error {
	err := a.read(ctx, id, run, label, root)
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		a.gone = append(a.gone, id)
		return nil
	}
	return err
}

// event takes what an event adds.
func (c *chapter) event(ctx context.Context, e *historypb.HistoryEvent) error {
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
		return c.begun(ctx, e.GetWorkflowExecutionStartedEventAttributes())
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
		var out contract.RunResult
		if c.root && decode(e.GetWorkflowExecutionCompletedEventAttributes().GetResult(), &out) {
			c.result = &out
		}
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		c.scheduled(e.GetEventId(), e.GetActivityTaskScheduledEventAttributes())
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
		c.completed(e.GetActivityTaskCompletedEventAttributes())
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
		s := e.GetWorkflowExecutionSignaledEventAttributes()
		c.prompted(s.GetSignalName(), s.GetInput())
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED:
		in := e.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest().GetInput()
		c.prompted(in.GetName(), in.GetArgs())
	case enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
		return c.child(ctx, c.children[e.GetEventId()])
	case enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED:
		s := e.GetChildWorkflowExecutionCompletedEventAttributes()
		var out contract.BranchResult
		if s.GetWorkflowType().GetName() == contract.WorkflowBranch && decode(s.GetResult(), &out) {
			for _, m := range out.Messages {
				c.keep(m)
			}
		}
	}
	return nil
}

// child reads the history of a child, if it has started.
func (c *chapter) child(ctx context.Context, s *historypb.ChildWorkflowExecutionStartedEventAttributes) error {
	if s == nil {
		return nil
	}
	label, x := c.label, s.GetWorkflowExecution()
	if place := childPlace(s); place != "" {
		// One node may call a sub-agent several times: the call tells them apart.
		label += place + " › "
	}
	return c.below(ctx, x.GetWorkflowId(), x.GetRunId(), label, false)
}

// begun takes what the run was given; what it continues is read first.
func (c *chapter) begun(ctx context.Context, s *historypb.WorkflowExecutionStartedEventAttributes) error {
	if before := s.GetContinuedExecutionRunId(); before != "" {
		if err := c.below(ctx, c.id, before, c.label, c.root); err != nil {
			return err
		}
	}
	if s.GetWorkflowType().GetName() != contract.WorkflowFlow {
		var in contract.BranchInput
		if decode(s.GetInput(), &in) {
			c.carried(in.Resume)
		}
		return nil
	}
	var in contract.RunInput
	if !decode(s.GetInput(), &in) {
		return nil
	}
	if c.root {
		c.flow = planOf(&in)
	}
	if in.Carry != nil {
		for _, m := range in.Carry.Content {
			c.keep(m)
		}
		for _, x := range in.Carry.Live {
			c.carried(x.Resume)
		}
		return nil
	}
	if in.Model != "" && c.root {
		c.model = in.Model
	}
	c.wasGiven(&in)
	return nil
}

// wasGiven writes what a run was given. What its parameters make is told later.
func (c *chapter) wasGiven(in *contract.RunInput) {
	c.images = in.Images
	if in.Input != "" || len(in.Images) > 0 || !brings(in.Params) && !brings(in.Value) {
		c.wrote("input", contract.InputMessage(in.Input, in.Images))
	}
	if len(in.History) > 0 {
		if chat, err := json.Marshal(in.History); err == nil {
			c.wrote("chat", &contract.Message{Role: contract.RoleUser, Text: string(chat)})
		}
	}
}

// prompted keeps a session's prompt, to which messages refer where it is long or shows images.
func (c *chapter) prompted(name string, args *commonpb.Payloads) {
	var in contract.ResumeInput
	if name != contract.UpdateResume || !decode(args, &in) || in.Prompt == "" {
		return
	}
	if raw, err := contract.InputMessage(in.Prompt, in.Images).Encode(); err == nil {
		c.keep(raw)
	}
}

// brings says that a run was given a value. What it makes of that is told later, or by the threads
// of its nodes.
func brings(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// planOf is the plan that a run was started with or went on with, or nil.
func planOf(in *contract.RunInput) *plan.Flow {
	if in.Carry != nil {
		return in.Carry.Plan
	}
	return in.Flow.Plan
}

// wrote is a thread that the workflow makes of its input: one message.
func (c *chapter) wrote(thread string, m *contract.Message) {
	if raw, err := m.Encode(); err == nil {
		c.thread(thread).put(0, c.keep(raw))
	}
}

// carried keeps what an execution goes on with, its sub-agents' included.
func (c *chapter) carried(x *contract.Resume) {
	if x == nil || x.Agent == nil {
		return
	}
	for _, m := range x.Agent.Messages {
		c.keep(m.Raw)
	}
	for _, call := range x.Agent.Calls {
		if call.Reply != nil && call.Reply.Message != nil {
			c.keep(call.Reply.Message)
		}
	}
}

// scheduled takes the messages that a model call is told, and notes where its answer goes.
func (c *chapter) scheduled(id int64, s *historypb.ActivityTaskScheduledEventAttributes) {
	call := archivedCall{kind: s.GetActivityType().GetName()}
	switch call.kind {
	case contract.ActivityModel:
		var in contract.ModelInput
		if decode(s.GetInput(), &in) && in.Base.Len >= 0 && in.Base.Len < maxThread {
			call.thread = c.thread(in.Base.Thread)
			for i, m := range in.Tail {
				if len(m.Message) > 0 {
					c.keep(m.Message)
				}
				call.thread.put(in.Base.Len+i, m.SHA)
			}
			call.at = in.Base.Len + len(in.Tail)
		}
	case contract.ActivityTool:
		if node, _, ok := strings.Cut(s.GetActivityId(), "/tool/"); ok {
			call.thread = c.find(c.label + node)
		}
	}
	c.calls[id] = call
}

// maxThread bounds the length of a thread that a history may claim.
const maxThread = 1_000_000

// completed takes what a call gave.
func (c *chapter) completed(s *historypb.ActivityTaskCompletedEventAttributes) {
	call := c.calls[s.GetScheduledEventId()]
	switch call.kind {
	case contract.ActivityPrepare:
		var out contract.PrepareResult
		if decode(s.GetResult(), &out) {
			c.prepared(&out)
		}
	case contract.ActivityModel:
		var out contract.ModelResult
		if decode(s.GetResult(), &out) && call.thread != nil {
			sha := c.keep(out.Message)
			call.thread.put(call.at, sha)
			if len(out.Switched) > 0 {
				for i := range out.Switched {
					out.Switched[i].To = out.Switched[i].Next(out.Model)
				}
				c.switched[sha] = out.Switched
			}
			c.usage.Add(out.Usage)
			c.usage.Switch(out.Model, out.Switched)
		}
	case contract.ActivityTool:
		var out contract.ToolResult
		if decode(s.GetResult(), &out) && call.thread != nil {
			call.thread.late = append(call.thread.late, c.keep(out.Message))
		}
	case contract.ActivityJudge, contract.ActivitySummarise, contract.ActivityCondense:
		var out struct {
			Model    string            `json:"model"`
			Usage    contract.Usage    `json:"usage"`
			Switched []contract.Switch `json:"switched"`
		}
		if decode(s.GetResult(), &out) {
			c.usage.Add(out.Usage)
			c.usage.Switch(out.Model, out.Switched)
		}
	}
}

// prepared takes what a run goes on with: the text that its parameters make is its input.
func (c *chapter) prepared(out *contract.PrepareResult) {
	if out.Input != nil {
		c.wrote("input", contract.InputMessage(*out.Input, c.images))
	}
	if !c.root {
		return
	}
	if out.Model != "" {
		c.model = out.Model
	}
	if out.Plan != nil {
		c.flow = out.Plan
	}
}

func (a *archive) keep(raw json.RawMessage) string {
	sha := contract.SHA(raw)
	a.content[sha] = raw
	return sha
}

// thread finds or begins a thread of the run that is read.
func (c *chapter) thread(name string) *conversation {
	full := c.label + name
	if t := c.find(full); t != nil {
		return t
	}
	t := &conversation{name: full}
	if c.label == "" && strings.Contains(name, "#") {
		t.exec = name
	}
	c.threads = append(c.threads, t)
	return t
}

// find gives the thread of a name, or nil.
func (a *archive) find(name string) *conversation {
	for _, t := range a.threads {
		if t.name == name {
			return t
		}
	}
	return nil
}

func (t *conversation) put(i int, sha string) {
	for len(t.shas) <= i {
		t.shas = append(t.shas, "")
	}
	t.shas[i] = sha
}

// all are the hashes of a thread's messages, what no model call has seen yet at the end.
func (t *conversation) all() []string {
	out := slices.Clone(t.shas)
	for _, sha := range t.late {
		if !slices.Contains(out, sha) {
			out = append(out, sha)
		}
	}
	return out
}

// message decodes a stored message and puts in the texts that it refers to. What is not
// here, or not readable here, is nil.
func (a *archive) message(sha string) *contract.Message {
	m, err := contract.DecodeMessage(a.content[sha])
	if err != nil {
		return nil
	}
	for _, p := range m.Parts {
		if p.Ref == nil {
			m.Text += p.Text
		} else if other, err := contract.DecodeMessage(a.content[p.Ref.SHA]); err == nil {
			m.Text += other.Text
		} else {
			m.Text += "(a text that is not in the history)"
		}
	}
	m.Parts, m.Provider = nil, nil
	return m
}

// status is as much of a closed run's status as its history tells.
func (a *archive) status() *contract.Status {
	st := &contract.Status{Flow: contract.LabelOf(a.flow), Model: a.model, Usage: a.usage}
	if a.result != nil {
		st.Model, st.Usage = a.result.Model, a.result.Usage
	}
	for _, t := range a.threads {
		if t.exec != "" {
			st.Executions = append(st.Executions, executionOf(t.exec))
		}
	}
	slices.SortStableFunc(st.Executions, func(x, y contract.Execution) int {
		return cmp.Or(cmp.Compare(x.Step, y.Step), cmp.Compare(x.Node, y.Node))
	})
	return st
}

// executionOf reads node#step~nth.
func executionOf(exec string) contract.Execution {
	node, rest, _ := cutLast(exec, "#")
	step, nth, _ := strings.Cut(rest, "~")
	x := contract.Execution{Node: unescape(node)}
	x.Step, _ = strconv.Atoi(step)
	x.Nth, _ = strconv.Atoi(nth)
	return x
}
