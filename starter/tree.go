package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/workflows/plan"
)

// tree is what the histories of a run, of the runs that it continued and of all below it say
// of nodes and edges: which began, what conditions were answered, which runs are open. It
// needs no worker.
type tree struct {
	// visits are in the order in which the flow began them, the root first.
	visits []*visit
	// missing are the ids of workflows whose histories are not kept any more.
	missing []string
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

// open reports whether the workflow runs.
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
	label := history.Label(history.ExecutionOf(exec))
	for _, c := range v.costs {
		if c.exec == label {
			return c
		}
	}
	c := &cost{exec: label}
	v.costs = append(v.costs, c)
	return c
}

// readTree reads the histories of a run and of all below it.
func readTree(ctx context.Context, from history.Source, id, run string) (*tree, error) {
	t := &tree{}
	visits := map[*history.Workflow]*visit{}
	for e, err := range history.Read(ctx, from, id, run) {
		if err != nil {
			return nil, fmt.Errorf("read the history of the run %q: %w", id, err)
		}
		v := visits[e.Run.Workflow]
		if v == nil {
			v = &visit{id: e.Run.ID, place: e.Run.Place}
			visits[e.Run.Workflow] = v
			t.visits = append(t.visits, v)
		}
		if _, missing := e.Data.(*history.Missing); missing {
			t.missing = append(t.missing, v.id)
			continue
		}
		v.event(&e)
	}
	if len(t.visits) == 0 {
		t.visits = append(t.visits, &visit{id: id, run: run})
	}
	return t, nil
}

// event takes what an event adds.
func (v *visit) event(e *history.Event) {
	switch d := e.Data.(type) {
	case *history.Started:
		if v.began.IsZero() {
			v.began = e.Time
		}
		v.runs = append(v.runs, e.Run.RunID)
		v.run, v.status = e.Run.RunID, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
		v.started(d)
	case *history.Ended:
		v.status, v.ended = d.Status, e.Time
		if d.Result != nil {
			v.result = d.Result
		}
		if d.Failure != nil {
			v.failure = d.Failure
		}
	case *history.CallScheduled:
		if exec, ok := d.Execution(); ok {
			if len(v.seen) == 0 || v.seen[len(v.seen)-1] != exec {
				v.seen = append(v.seen, exec)
			}
			if x := v.costOf(exec); x.from.IsZero() {
				x.from = e.Time
			}
		}
	case *history.CallCompleted:
		v.completed(d, e.Time)
	case *history.ChildEnded:
		if d.Branch != nil {
			v.executions = append(v.executions, d.Branch.Executions...)
		}
	}
}

// started takes what the workflow was given.
func (v *visit) started(s *history.Started) {
	v.branch = s.Type == contract.WorkflowBranch
	if in := s.Branch; in != nil {
		v.first = contract.Execution{Node: in.Node, Step: in.Step, Nth: in.Nth}
	}
	if flow, source := s.Plan(); flow != nil || s.Branch != nil {
		v.flow, v.source = flow, source
	}
	in := s.Input
	if in == nil {
		return
	}
	if k := in.Fork; k != nil {
		v.entry = &k.Entry
		for i := range k.Past {
			v.executions = append(v.executions, k.Past[i].Execution)
		}
	}
	switch k := in.Carry; {
	case k == nil:
		v.input = in
	case k.Plan != nil:
		v.executions = k.Trace
		if len(k.Entered) > 0 {
			v.entry = &contract.Execution{Node: plan.Start, Answers: k.Answers, Taken: k.Entered}
		}
	}
}

// completed takes what a call says of the flow or of its edges.
func (v *visit) completed(c *history.CallCompleted, at time.Time) {
	exec, inNode := c.Execution()
	inNode = inNode || strings.Contains(exec, "#")
	if inNode {
		v.costOf(exec).to = at
	}
	switch out := c.Result.(type) {
	case *contract.PrepareResult:
		v.prepared(out)
	case *contract.ModelResult:
		c.Usage().AddTo(&v.usage)
		x := v.costOf(exec)
		x.usage.Add(out.Usage)
		if m, err := contract.DecodeMessage(out.Message); err == nil && len(m.Parts) == 0 {
			x.text = m.Text
		}
	case *contract.JudgeResult:
		c.Usage().AddTo(&v.usage)
		if inNode {
			v.costOf(exec).usage.Add(out.Usage)
		}
		if v.judged == nil {
			v.judged = map[string][]contract.Answer{}
		}
		in, ok := c.Input.(*contract.JudgeInput)
		if !ok {
			in = &contract.JudgeInput{}
		}
		v.judged[exec] = append(v.judged[exec], contract.Answer{Execution: exec, Edge: v.edgeAsked(in), Question: in.Question, Yes: out.Yes, Reason: out.Reason})
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
