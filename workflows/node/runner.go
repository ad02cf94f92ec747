// Package node runs executions of nodes.
//
// A kind of node is a [Kind], a small type with one method, in one file. A new kind is plan/<kind>.go, a case in
// plan's check, <kind>.go here and a case in [Runner.visit].
package node

import (
	"cmp"
	"errors"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/journal"
	"weft/workflows/plan"
	"weft/workflows/route"
	"weft/workflows/runtime"
	"weft/workflows/schedule"
	"weft/workflows/values"
	"weft/workflows/watch"
)

// Execute runs a node and decides where to go on from it.
func (n *Runner) Execute(ctx workflow.Context, x *runtime.Execution, edges []int) (Executed, error) {
	ctx, leave := n.run.Watch.Enter(ctx, watch.Visit{Flow: n.run.Flow.Name, Node: x.Node.ID, Kind: x.Node.Kind, Execution: x.ID})
	var done Executed
	err := n.run.PublishEntries(ctx, x) // what a fork begins with
	if err == nil {
		done, err = n.perform(ctx, x, edges)
	}
	if failed := n.run.PublishEntries(ctx, x); err == nil && failed != nil {
		err = n.run.Failed(x, failed)
	}
	leave(err == nil && done.Suspended != nil, err)
	return done, err
}

// perform is [Runner.Execute], unwatched.
func (n *Runner) perform(ctx workflow.Context, x *runtime.Execution, edges []int) (Executed, error) {
	done := Executed{Execution: contract.Execution{Node: x.Node.ID, Step: x.Step}}
	before := n.run.Conversation.Mark()
	x.Run, x.Journal, x.State = n.run, journal.Of(n.run.Above, x.Suspended), contract.SuspendedExecution{}
	x.Edges, x.Exit = edges, runtime.Exit{}
	if s := x.Suspended; s != nil && s.Agent != nil && len(s.Agent.Refused) > 0 {
		x.Exit = runtime.Exit{Answers: s.Agent.Refused, NoRoute: true}
	}
	if x.Suspended != nil && x.Suspended.Outcome != nil {
		done.Execution, done.sha = x.Suspended.Outcome.Execution, x.Suspended.Outcome.SHA
	} else if err := n.gain(ctx, x, &done); err != nil {
		return n.yielded(x, done, err)
	}
	if err := route.Leave(ctx, x, &contract.ContentRef{SHA: done.sha}, done.Branch); err != nil {
		x.State = contract.SuspendedExecution{Outcome: &contract.NodeOutcome{Execution: done.Execution, SHA: done.sha}}
		return n.yielded(x, done, err)
	}
	done.Edges, done.Taken, done.Answers, done.NoRoute = x.Exit.Taken, route.IDs(n.run.Flow, x.Exit.Taken), x.Exit.Answers, x.Exit.NoRoute
	// A flow that has its place in another may end by a branch that has no edge there.
	if branch := cmp.Or(done.Branch, exitBranch(n.run.Flow, x.Node.ID)); branch != "" && len(done.Edges) == 0 {
		return done, route.NoEdge(x, done.Data, branch)
	}
	if done.NoRoute && n.run.Flow.NoRoute != nil {
		return done, route.Unmatched(x)
	}
	if err := n.run.Conversation.SpendEnd(x, done.Edges); err != nil {
		return done, n.run.Failed(x, err)
	}
	if err := values.PassOn(n.run, x, done.Edges, &done.Execution); err != nil {
		return done, n.run.Failed(x, err)
	}
	n.run.Log.Add(&n.run.Conversation, x, &done.Execution, done.sha, before)
	return done, nil
}

// gain runs the node and takes over what it gives.
func (n *Runner) gain(ctx workflow.Context, x *runtime.Execution, done *Executed) error {
	out, err := n.visit(ctx, x)
	if err == nil {
		err = values.SettleValue(n.run, x, &out)
	}
	if err == nil && x.Node.Cost != nil {
		err = n.run.Conversation.Spend(x, x.Node.Cost.Visit)
	}
	if err != nil {
		return err
	}
	schedule.SetOutput(x.View, contract.NodeOutput{
		Node: x.Node.ID, Name: x.Node.Name, Order: x.Order, SHA: out.Ref.SHA, By: schedule.NextStamp(x.View, x.Strand, x.ID, x.Step),
	})
	done.Truncated, done.OmittedMessages = out.Truncated, out.OmittedBytes
	done.Exhausted, done.Text, done.Data, done.Branch = out.Exhausted, &out.Text, out.Data, out.Branch
	done.Unfit = out.Unfit
	done.sha = out.Ref.SHA
	x.Journal.Boundary(0)
	return nil
}

// yielded is what an execution gives that did not come to its end: what it goes on with, or why it failed.
func (n *Runner) yielded(x *runtime.Execution, done Executed, err error) (Executed, error) {
	if !errors.Is(err, runtime.ErrYield) {
		return done, n.run.Failed(x, err)
	}
	done.Suspended, err = x.Suspend()
	return done, err
}

// Executed is what came of an execution: the edges that it took or, where it has yielded, what it goes on with.
type Executed struct {
	contract.Execution
	Edges []int
	// sha is the hash of the output.
	sha       string
	Suspended *contract.SuspendedExecution
}

// Runner runs executions of nodes, and decides which edges are taken behind them.
type Runner struct {
	run           *runtime.Run
	agents, tools Kind
	flows         Flows
}

// Kind runs the nodes of a kind.
type Kind interface {
	Visit(ctx workflow.Context, r *runtime.Run, x *runtime.Execution) (runtime.Outcome, error)
}

// New returns a runner; agents and tools run the nodes of kinds agent and tool, and flows those of maps.
func New(r *runtime.Run, agents, tools Kind, flows Flows) *Runner {
	return &Runner{r, agents, tools, flows}
}

// visit runs a node as its kind does.
func (n *Runner) visit(ctx workflow.Context, x *runtime.Execution) (runtime.Outcome, error) {
	switch x.Node.Kind {
	case plan.KindAgent:
		return n.agents.Visit(ctx, n.run, x)
	case plan.KindTool:
		return n.tools.Visit(ctx, n.run, x)
	case plan.KindAsk:
		return ask(ctx, n.run, x)
	case plan.KindTransform:
		return transform(n.run, x)
	case plan.KindMerge:
		return merge(n.run, x)
	case plan.KindProgram:
		return program(ctx, n.run, x)
	case plan.KindCall, plan.KindPass, plan.KindBranch, plan.KindSay:
		return n.visitNamed(ctx, x)
	}
	return runtime.Outcome{}, n.run.Fail(x, contract.ClassBadRequest, "", "node kind %q is unknown to this build", x.Node.Kind)
}

// visitNamed runs a node with the values that it takes by name.
func (n *Runner) visitNamed(ctx workflow.Context, x *runtime.Execution) (runtime.Outcome, error) {
	in, err := values.Given(n.run, x)
	switch {
	case err != nil:
		return runtime.Outcome{}, err
	case x.Node.Kind == plan.KindCall:
		return n.call(ctx, x, in)
	case x.Node.Kind == plan.KindPass:
		return pass(n.run, x, in)
	case x.Node.Kind == plan.KindBranch:
		return branch(x, in), nil
	}
	return say(ctx, n.run, x, in)
}
