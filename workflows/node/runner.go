// Package node runs executions of nodes.
//
// Each kind of node is a [Kind], in this package or in another. A new kind needs plan/<kind>.go, a case in plan's check, and an
// entry in the table kinds.
package node

import (
	"cmp"
	"errors"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/journal"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
	"weft/workflows/route"
	"weft/workflows/runtime"
	"weft/workflows/schedule"
	"weft/workflows/values"
	"weft/workflows/watch"
)

// Execute runs a node and decides how the flow continues: x.Exit then holds the edges to take. If the execution has yielded,
// x.Suspended is the state with which it resumes, else nil.
func (n *Runner) Execute(ctx workflow.Context, x *runtime.Execution) (contract.Execution, error) {
	ctx, leave := n.run.Watch.Enter(ctx, watch.Visit{Flow: n.run.Flow.Name, Node: x.Node.ID, Kind: x.Node.Kind, Execution: x.ID})
	var done contract.Execution
	err := n.run.PublishEntries(ctx, x) // the entries with which a fork begins
	if err == nil {
		done, err = n.execute(ctx, x)
	}
	if publishErr := n.run.PublishEntries(ctx, x); err == nil && publishErr != nil {
		err = n.run.Failed(x, publishErr)
	}
	leave(err == nil && x.Suspended != nil, err)
	return done, err
}

// execute does the work of [Runner.Execute], without tracing and publishing.
func (n *Runner) execute(ctx workflow.Context, x *runtime.Execution) (contract.Execution, error) {
	before := n.run.Conversation.Mark()
	x.Run, x.Journal, x.Edges = n.run, journal.Resume(n.run.ParentJournal, x.Suspended), n.run.Graph.Out(n.run.Graph.Index(x.Node.ID))
	out, err := n.outcome(ctx, x)
	if errors.Is(err, runtime.ErrYield) {
		x.Suspended, err = x.Suspend()
		return contract.Execution{}, err
	}
	if err != nil {
		return contract.Execution{}, n.run.Failed(x, err)
	}
	x.Suspended = nil
	done := out.Execution
	if x.Occurrence > 1 {
		done.Occurrence = x.Occurrence
	}
	done.Taken, done.Answers, done.NoRoute = route.IDs(n.run.Flow, x.Exit.Taken), x.Exit.Answers, x.Exit.NoRoute
	// An inlined flow may end with a branch that has no edge in the outer flow.
	if branch := cmp.Or(done.Branch, exitBranch(n.run.Flow, x.Node.ID)); branch != "" && len(x.Exit.Taken) == 0 {
		return done, route.NoEdge(x, done.Data, branch)
	}
	if done.NoRoute && n.run.Flow.NoRoute != nil {
		return done, route.Unmatched(x)
	}
	if err = x.SpendEnd(x.Exit.Taken); err == nil {
		err = values.ApplyEdge(n.run, x, x.Exit.Taken, &done)
	}
	if err != nil {
		return done, n.run.Failed(x, err)
	}
	n.run.Log.Add(&n.run.Conversation, x, &done, out.SHA, before)
	return done, nil
}

// outcome runs the node, unless it ran before the execution was suspended, and selects the edges to take.
func (n *Runner) outcome(ctx workflow.Context, x *runtime.Execution) (*contract.NodeOutcome, error) {
	s := cmp.Or(x.Suspended, &contract.SuspendedExecution{})
	if s.Agent != nil && len(s.Agent.Refused) > 0 {
		x.Exit = runtime.Exit{Answers: s.Agent.Refused, NoRoute: true}
	}
	out := s.Outcome
	if out == nil {
		var err error
		if out, err = n.runNode(ctx, x); err != nil {
			return nil, err
		}
	}
	err := route.Leave(ctx, x, &contract.ContentRef{SHA: out.SHA}, out.Execution.Branch)
	if err != nil {
		x.State = contract.SuspendedExecution{Outcome: out}
	}
	return out, err
}

// runNode runs the node and stores its result.
func (n *Runner) runNode(ctx workflow.Context, x *runtime.Execution) (*contract.NodeOutcome, error) {
	out, err := n.visit(ctx, x)
	if err == nil {
		err = values.StoreResult(n.run, x, &out)
	}
	if err == nil && x.Node.Cost != nil {
		err = x.Spend(x.Node.Cost.Visit)
	}
	if err != nil {
		return nil, err
	}
	schedule.SetOutput(x.View, contract.NodeOutput{
		Node: x.Node.ID, Name: x.Node.Name, Order: x.Order, SHA: out.Ref.SHA, By: schedule.NextStamp(x.View, x.Strand, x.ID, x.Step),
	})
	x.Journal.Boundary(0)
	return &contract.NodeOutcome{SHA: out.Ref.SHA, Execution: contract.Execution{Node: x.Node.ID, Step: x.Step, Truncated: out.Truncated,
		OmittedMessages: out.OmittedMessages, Exhausted: out.Exhausted, Text: &out.Text, Data: out.Data, Branch: out.Branch, Unfit: out.Unfit}}, nil
}

// Runner runs executions of nodes and selects the edges to take after them.
type Runner struct {
	run                  *runtime.Run
	agents, tools, calls Kind
}

// New returns a runner; agents and tools run the nodes of kinds agent and tool, and flows runs called flows in this run.
func New(r *runtime.Run, agents, tools Kind, flows Flows) *Runner {
	return &Runner{r, agents, tools, call{flows}}
}

// Kind runs the nodes of a kind.
type Kind interface {
	Visit(ctx workflow.Context, r *runtime.Run, x *runtime.Execution) (runtime.Outcome, error)
}

// kinds are the kinds that need nothing but the run.
var kinds = map[plan.Kind]Kind{
	plan.KindTransform: stateKind(transform), plan.KindMerge: stateKind(merge), plan.KindProgram: stateKind(program),
	plan.KindAsk: valueKind(ask), plan.KindPass: valueKind(pass), plan.KindBranch: valueKind(branch), plan.KindSay: valueKind(say),
}

// visit runs a node by its kind.
func (n *Runner) visit(ctx workflow.Context, x *runtime.Execution) (runtime.Outcome, error) {
	kind := kinds[x.Node.Kind]
	switch x.Node.Kind {
	case plan.KindAgent:
		kind = n.agents
	case plan.KindTool:
		kind = n.tools
	case plan.KindCall:
		kind = n.calls
	}
	if kind == nil {
		return runtime.Outcome{}, n.run.Fail(x, contract.ClassBadRequest, "", "node kind %q is unknown to this build", x.Node.Kind)
	}
	return kind.Visit(ctx, n.run, x)
}

// stateKind is a kind whose nodes read their inputs from the state.
type stateKind func(workflow.Context, *runtime.Run, *runtime.Execution) (runtime.Outcome, error)

func (k stateKind) Visit(ctx workflow.Context, r *runtime.Run, x *runtime.Execution) (runtime.Outcome, error) {
	return k(ctx, r, x)
}

// valueKind is a kind whose nodes get their inputs by name.
type valueKind func(workflow.Context, *runtime.Run, *runtime.Execution, value.Value) (runtime.Outcome, error)

func (k valueKind) Visit(ctx workflow.Context, r *runtime.Run, x *runtime.Execution) (runtime.Outcome, error) {
	in, err := values.Inputs(r, x)
	if err != nil {
		return runtime.Outcome{}, err
	}
	return k(ctx, r, x, in)
}
