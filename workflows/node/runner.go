// Package node runs executions of nodes, and decides which outgoing edges are taken.
//
// A kind of node is a [Kind], a small type with one method, in one file. A new kind is plan/<kind>.go, a case in
// plan's check, <kind>.go here and a case in [Runner.visit].
package node

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/group"
	"weft/workflows/journal"
	"weft/workflows/plan"
	"weft/workflows/runtime"
	"weft/workflows/schedule"
	"weft/workflows/values"
	"weft/workflows/watch"
)

// maxJudgedState is how much of the state a judge sees.
const maxJudgedState = 32 << 10

// Route decides by which of its edges an execution, or the run's entry, leaves with an output: those that lead from its branch
// and hold or, where the first is chosen, that one; later ones are not looked at. Questions are steps of its journal.
func (n *Runner) Route(ctx workflow.Context, x *runtime.Execution, output *contract.ContentRef, branch string, edges []int) (taken []int, answers []contract.Answer, err error) {
	edges = n.leavingBy(branch, edges)
	first := cmp.Or(x.Node.Choice, n.run.Flow.Choice) == plan.ChooseFirst
	var verdicts []*contract.JudgeResult
	if !first {
		if verdicts, err = n.judge(ctx, x, output, edges, 0); err != nil {
			return nil, nil, err
		}
	}
	for i, e := range edges {
		edge, yes := &n.run.Flow.Edges[e], true
		switch {
		case edge.Compare != nil:
			a, err := n.compare(x, edge)
			if err != nil {
				return nil, nil, err
			}
			answers, yes = append(answers, a), a.Yes
		case edge.Question != "":
			own := verdicts
			if first {
				if own, err = n.judge(ctx, x, output, edges[:i+1], i); err != nil {
					return nil, nil, err
				}
			}
			answers, yes = append(answers, contract.Answer{Execution: x.ID, Edge: edge.ID, Question: edge.Question, Yes: own[i].Yes, Reason: own[i].Reason}), own[i].Yes
		}
		if yes {
			taken = append(taken, e)
		}
		if yes && first {
			break
		}
	}
	return taken, answers, nil
}

// judge has the questions of edges answered by a model, from one on, all at once.
func (n *Runner) judge(ctx workflow.Context, x *runtime.Execution, output *contract.ContentRef, edges []int, from int) ([]*contract.JudgeResult, error) {
	var asked []int
	for i := from; i < len(edges); i++ {
		if n.run.Flow.Edges[edges[i]].Question != "" {
			asked = append(asked, i)
		}
	}
	if len(asked) == 0 {
		return nil, nil
	}
	state, long := judgedState(x.View)
	question := contract.JudgeInput{
		Model: n.run.Shared.Model, Script: n.run.Shared.Script, Node: x.Node.ID, Name: x.Node.Name, Step: x.Step,
		Output: output, Input: n.run.Shared.InputPart(), State: state, Long: long, Home: n.run.Home(),
	}
	at := x
	if x.Node.ID == plan.Start {
		at = nil
	}
	verdicts, judges := make([]*contract.JudgeResult, len(edges)), group.New(ctx)
	for k, i := range asked {
		edge, in := &n.run.Flow.Edges[edges[i]], question
		in.Question = edge.Question
		judges.Start(func(ctx workflow.Context) error {
			verdicts[i] = &contract.JudgeResult{}
			return n.run.CallStep(ctx, x.Journal, runtime.HashOf(in.Question, string(in.State)), &runtime.Call{
				Activity: contract.ActivityEvaluateCondition, Args: []any{&in}, What: "the question of edge " + edge.ID, At: at,
				ID: fmt.Sprintf("%s/judge/%d", x.ID, i+1), Summary: fmt.Sprintf("%s · %s?", x.Node.ID, edge.ID), Options: n.run.Options(n.run.Flow.Policy.ModelSeconds),
				Model: &runtime.ModelCall{Bytes: len(in.State), Once: &in.Once, Others: len(asked) - 1 - k}, Out: verdicts[i],
			})
		})
	}
	return verdicts, judges.Wait()
}

// judgedState is the state for a judge: short values themselves, long ones by reference.
func judgedState(v *contract.View) (json.RawMessage, []contract.LongValue) {
	short := make(map[string]json.RawMessage, len(v.State))
	var long []contract.LongValue
	total := 0
	for _, e := range v.State {
		if contract.Reserved(e.Key) {
			continue
		}
		if total += len(e.Key) + len(e.Value) + len(e.SHA); total > maxJudgedState {
			short["…"] = json.RawMessage(`"more keys are left out"`)
			break
		}
		if e.SHA != "" {
			long = append(long, contract.LongValue{Key: e.Key, SHA: e.SHA})
		} else {
			short[e.Key] = e.Value
		}
	}
	if len(short) == 0 {
		return nil, long
	}
	raw, _ := json.Marshal(short)
	return raw, long
}

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
	x.Refused = func(ctx workflow.Context, output string) ([]contract.Answer, error) {
		err := n.leave(ctx, x, edges, output, &done)
		if !done.NoRoute {
			return nil, err
		}
		return done.Answers, err
	}
	if s := x.Suspended; s != nil && s.Agent != nil && len(s.Agent.Refused) > 0 {
		done.Answers, done.NoRoute = s.Agent.Refused, true
	}
	if x.Suspended != nil && x.Suspended.Outcome != nil {
		done.Execution, done.sha = x.Suspended.Outcome.Execution, x.Suspended.Outcome.SHA
	} else if err := n.gain(ctx, x, &done); err != nil {
		return n.yielded(x, done, err)
	}
	if err := n.leave(ctx, x, edges, done.sha, &done); err != nil {
		x.State = contract.SuspendedExecution{Outcome: &contract.NodeOutcome{Execution: done.Execution, SHA: done.sha}}
		return n.yielded(x, done, err)
	}
	// A flow that has its place in another may end by a branch that has no edge there.
	if branch := cmp.Or(done.Branch, exitBranch(n.run.Flow, x.Node.ID)); branch != "" && len(done.Edges) == 0 {
		return done, n.noEdge(x, &done, branch)
	}
	if done.NoRoute && n.run.Flow.NoRoute != nil {
		return done, n.unmatched(x, edges, done.Answers)
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

// leave decides by which edges an execution with an output leaves its node, once.
func (n *Runner) leave(ctx workflow.Context, x *runtime.Execution, edges []int, output string, done *Executed) error {
	if done.NoRoute || len(done.Edges) > 0 {
		return nil
	}
	taken, answers, err := n.Route(ctx, x, &contract.ContentRef{SHA: output}, done.Branch, edges)
	if err == nil {
		done.Edges, done.Taken, done.Answers, done.NoRoute = taken, n.EdgeIDs(taken), answers, len(edges) > 0 && len(taken) == 0
	}
	return err
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

// EdgeIDs names edges as the author did.
func (n *Runner) EdgeIDs(edges []int) []string {
	var out []string
	for _, e := range edges {
		out = append(out, n.run.Flow.Edges[e].ID)
	}
	return out
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
