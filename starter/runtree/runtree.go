// Package runtree reads the executions, edges and usage of a run and its children from histories.
package runtree

import (
	"context"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/workflows/plan"
)

// Tree holds the executions and edges in the histories of a run and its descendants.
type Tree struct {
	// Workflows are in the order in which the flow started them, the root first.
	Workflows []*Workflow
	// Missing are the ids of workflows whose histories are no longer retained.
	Missing []string

	workflows map[*history.Workflow]*Workflow
}

// Workflow is one workflow of the tree: a flow, or a branch of one.
type Workflow struct {
	// ID is the workflow id, RunID the id of its last run, RunIDs the ids of all its runs, in order.
	ID, RunID string
	RunIDs    []string
	// Place is the place of the workflow's sub-agent, "" for the root.
	Place string
	// Branch reports whether it is a branch; First is the first execution of its chain.
	Branch             bool
	First              contract.Execution
	Status             enumspb.WorkflowExecutionStatus
	StartedAt, EndedAt time.Time
	// Flow is the plan, Source its source.
	Flow   *plan.Flow
	Source plan.Source
	// Entry records the decisions at START.
	Entry *contract.Execution
	// Executions are the finished executions whose outcome is known.
	Executions []contract.Execution
	// Called are the executions with calls, in order; Answers are the answers to questions of edges, by execution.
	Called  []string
	Answers map[string][]contract.Answer
	Usage   contract.Usage
	Result  *contract.RunResult
	// Input is the input of the run, Compiled its compiled document, Model the default model.
	Input    *contract.RunInput
	Compiled *contract.CompileFlowResult
	Model    string
	Costs    []*Cost
	// Failure is the failure of a failed run, as Temporal recorded it.
	Failure *failurepb.Failure
}

// Open reports whether the workflow is running.
func (v *Workflow) Open() bool { return v.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING }

// Node returns the node of the plan with an id, nil if it is unknown.
func (v *Workflow) Node(id string) *plan.Node {
	if v.Flow == nil {
		return nil
	}
	return v.Flow.Node(id)
}

// Cost is the usage of the calls of one execution, and their last text.
type Cost struct {
	Execution string
	Usage     contract.Usage
	// Retries is the number of retries of calls that have ended.
	Retries  int
	From, To time.Time
	Text     string
}

func (v *Workflow) costOf(exec string) *Cost {
	label := history.Label(history.ExecutionOf(exec))
	for _, c := range v.Costs {
		if c.Execution == label {
			return c
		}
	}
	c := &Cost{Execution: label}
	v.Costs = append(v.Costs, c)
	return c
}

// Read reads the histories of a run and its descendants.
func Read(ctx context.Context, from history.Source, id, run string) (*Tree, error) {
	t := New(id, run)
	for e, err := range history.Read(ctx, from, id, run) {
		if err != nil {
			return nil, err
		}
		t.Add(&e)
	}
	return t, nil
}

// New returns an empty tree of a run.
func New(id, run string) *Tree {
	return &Tree{Workflows: []*Workflow{{ID: id, RunID: run}}, workflows: map[*history.Workflow]*Workflow{}}
}

// Root returns the workflow at the root.
func (t *Tree) Root() *Workflow { return t.Workflows[0] }

// Usage returns the total usage of all workflows.
func (t *Tree) Usage() contract.Usage {
	var sum contract.Usage
	for _, v := range t.Workflows {
		sum.Add(v.Usage)
	}
	return sum
}

// Add adds the next event, in the order of [history.Read].
func (t *Tree) Add(e *history.Event) {
	v := t.workflows[e.Run.Workflow]
	if v == nil && e.Run.Root {
		v = t.Root()
	} else if v == nil {
		v = &Workflow{ID: e.Run.ID, Place: e.Run.Place}
		if e.Run.Within != nil {
			v.ofMap(t.workflows[e.Run.Within], e)
		}
		t.Workflows = append(t.Workflows, v)
	}
	t.workflows[e.Run.Workflow] = v
	if _, missing := e.Data.(*history.Missing); missing {
		t.Missing = append(t.Missing, v.ID)
		return
	}
	v.event(e)
}

// ofMap initializes the virtual workflow of a map's element from the map's workflow.
func (v *Workflow) ofMap(of *Workflow, e *history.Event) {
	v.RunID, v.RunIDs, v.StartedAt, v.Status, v.Model = e.Run.RunID, []string{e.Run.RunID}, e.Time, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, of.Model
	exec, _, _ := strings.Cut(strings.TrimPrefix(v.ID, of.ID+"/"), ":")
	if n := of.Node(history.ExecutionOf(exec).Node); n != nil && n.Call != nil {
		v.Flow, v.Source = of.Flow.Closure(n.Call.Flows[0]), of.Source.Sub(n.Call.Flows[0])
	}
}

func (v *Workflow) event(e *history.Event) {
	switch d := e.Data.(type) {
	case *history.Started:
		if v.StartedAt.IsZero() {
			v.StartedAt = e.Time
		}
		v.RunIDs = append(v.RunIDs, e.Run.RunID)
		v.RunID, v.Status = e.Run.RunID, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
		v.started(d)
	case *history.Ended:
		v.Status, v.EndedAt = d.Status, e.Time
		if d.Result != nil {
			v.Result = d.Result
		}
		if d.Failure != nil {
			v.Failure = d.Failure
		}
	case *history.CallScheduled:
		v.scheduled(d, e.Time)
	case *history.CallStarted:
		if exec, ok := d.Execution(); ok {
			v.costOf(exec).Retries += int(d.Attempt) - 1
		}
	case *history.CallCompleted:
		v.completed(d, e.Time)
	case *history.ChildEnded:
		if d.Branch != nil {
			v.Executions = append(v.Executions, d.Branch.Executions...)
		}
	}
}

func (v *Workflow) started(s *history.Started) {
	v.Branch = s.Type == contract.WorkflowBranch
	if in := s.Branch; in != nil {
		v.First = contract.Execution{Node: in.Node, Step: in.Step, Occurrence: in.Occurrence}
	}
	if flow, source := s.Plan(); flow != nil || s.Branch != nil {
		v.Flow, v.Source = flow, source
	}
	in := s.Input
	if in == nil {
		return
	}
	if k := in.Fork; k != nil {
		v.Entry = &k.Entry
		for i := range k.Executions {
			v.Executions = append(v.Executions, k.Executions[i].Execution)
		}
	}
	switch k := in.Snapshot; {
	case k == nil:
		v.Input = in
	case k.Plan != nil:
		v.Executions = k.Trace
		if len(k.Entered) > 0 {
			v.Entry = &contract.Execution{Node: plan.Start, Answers: k.Answers, Taken: k.Entered}
		}
	}
}

func (v *Workflow) scheduled(c *history.CallScheduled, at time.Time) {
	exec, ok := c.Execution()
	if !ok {
		return
	}
	if len(v.Called) == 0 || v.Called[len(v.Called)-1] != exec {
		v.Called = append(v.Called, exec)
	}
	if x := v.costOf(exec); x.From.IsZero() {
		x.From = at
	}
}

func (v *Workflow) completed(c *history.CallCompleted, at time.Time) {
	exec, inNode := c.Execution()
	inNode = inNode || strings.Contains(exec, "#")
	if inNode {
		v.costOf(exec).To = at
	}
	if u, ok := c.Spent(); ok {
		v.Usage.Add(u)
		if u.Fallbacks = nil; inNode {
			v.costOf(exec).Usage.Add(u)
		}
	}
	switch out := c.Result.(type) {
	case *contract.CompileFlowResult:
		v.prepared(out)
	case *contract.ModelResult:
		if m, err := contract.DecodeMessage(out.Message); err == nil && len(m.Parts) == 0 {
			v.costOf(exec).Text = m.Text
		}
	case *contract.JudgeResult:
		if v.Answers == nil {
			v.Answers = map[string][]contract.Answer{}
		}
		in, ok := c.Input.(*contract.JudgeInput)
		if !ok {
			in = &contract.JudgeInput{}
		}
		a := contract.Answer{Execution: exec, Question: in.Question, Yes: out.Yes, Reason: out.Reason}
		if v.Flow != nil {
			if i := slices.IndexFunc(v.Flow.Edges, func(e plan.Edge) bool { return e.From == in.Node && e.Question == in.Question }); i >= 0 {
				a.Edge = v.Flow.Edges[i].ID
			}
		}
		v.Answers[exec] = append(v.Answers[exec], a)
	}
}

func (v *Workflow) prepared(out *contract.CompileFlowResult) {
	v.Model = out.Model
	if out.Plan == nil {
		return
	}
	if v.Compiled == nil && out.Hash != "" {
		v.Compiled = out
	}
	v.Flow = out.Plan
	if out.Source.File != "" || len(out.Source.Positions) > 0 {
		v.Source = out.Source
	}
}
