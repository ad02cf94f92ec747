package node

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

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

// Source is where edges are judged: a node's execution, or the run's entry.
type Source struct {
	Node, name string
	// ID is the execution's id, START for the entry.
	ID     string
	step   int
	output *contract.ContentRef
	View   *contract.View
	// x is nil for the entry.
	x *runtime.Execution
	// branch is the one by which the node leaves, if it has several.
	branch string
}

// Route decides which of a source's edges are taken: those without a question, and those
// whose question a model answers with yes. All questions are asked at once, as steps of the journal.
func (n *Runner) Route(ctx workflow.Context, from Source, edges []int, j *journal.Journal) (taken []int, answers []contract.Answer, err error) {
	edges = n.leavingBy(from.branch, edges)
	if n.choosesFirst(&from) {
		return n.routeFirst(ctx, from, edges, j)
	}
	verdicts := make([]*contract.JudgeResult, len(edges))
	if !slices.ContainsFunc(edges, func(e int) bool { return n.run.Flow.Edges[e].Question != "" }) {
		return n.answered(from, edges, verdicts)
	}
	judges := group.New(ctx)
	question := n.judgeInput(from)
	asks := func(i int) bool { return n.run.Flow.Edges[edges[i]].Question != "" }
	others := 0
	for i := range edges {
		if asks(i) {
			others++
		}
	}
	for i, e := range edges {
		edge := &n.run.Flow.Edges[e]
		if !asks(i) {
			continue
		}
		others--
		in := question
		in.Question = edge.Question
		n.judge(judges, from, asking{i, edge.ID, others}, in, j, verdicts)
	}
	if err := judges.Wait(); err != nil {
		return nil, nil, err
	}
	return n.answered(from, edges, verdicts)
}

// answered takes the edges that hold, once all that is to be judged is judged.
func (n *Runner) answered(from Source, edges []int, verdicts []*contract.JudgeResult) (taken []int, answers []contract.Answer, err error) {
	for i, e := range edges {
		edge, v := &n.run.Flow.Edges[e], verdicts[i]
		yes := v == nil || v.Yes
		switch {
		case v != nil:
			answers = append(answers, contract.Answer{Execution: from.ID, Edge: edge.ID, Question: edge.Question, Yes: v.Yes, Reason: v.Reason})
		case edge.Compare != nil:
			a, err := n.compare(from, edge)
			if err != nil {
				return nil, nil, err
			}
			answers, yes = append(answers, a), a.Yes
		}
		if yes {
			taken = append(taken, e)
		}
	}
	return taken, answers, nil
}

// judgeInput is what a judge is told, but for the question.
func (n *Runner) judgeInput(from Source) contract.JudgeInput {
	state, long := judgedState(from.View)
	return contract.JudgeInput{
		Model: n.run.Shared.Model, Script: n.run.Shared.Script,
		Node: from.Node, Name: from.name, Step: from.step,
		Output: from.output, Input: n.run.Shared.InputPart(), State: state, Long: long, Home: n.run.Home(),
	}
}

// asking is a question under way: its place among a source's edges, its edge, and how many others
// are yet to be asked.
type asking struct {
	place  int
	edge   string
	others int
}

// judge asks one question.
func (n *Runner) judge(judges *group.Group, from Source, q asking, in contract.JudgeInput, j *journal.Journal, verdicts []*contract.JudgeResult) {
	judges.Start(func(ctx workflow.Context) error {
		var out contract.JudgeResult
		err := n.run.CallStep(ctx, j, runtime.HashOf(in.Question, string(in.State)), &runtime.Call{
			Activity: contract.ActivityEvaluateCondition, Args: []any{&in}, What: "the question of edge " + q.edge, At: from.x,
			ID: fmt.Sprintf("%s/judge/%d", from.ID, q.place+1), Summary: fmt.Sprintf("%s · %s?", from.Node, q.edge),
			Options: n.run.Options(n.run.Flow.Policy.ModelSeconds), Model: &runtime.ModelCall{Bytes: len(in.State), Once: &in.Once, Others: q.others}, Out: &out,
		})
		if err == nil {
			verdicts[q.place] = &out
		}
		return err
	})
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
	raw, err := json.Marshal(short)
	if err != nil {
		return nil, long
	}
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
		done.outcome = *x.Suspended.Outcome
		done.Execution = done.outcome.Execution
	} else if err := n.gain(ctx, x, &done); err != nil {
		return n.yielded(x, done, err)
	}
	if err := n.leave(ctx, x, edges, done.outcome.SHA, &done); err != nil {
		x.State = contract.SuspendedExecution{Outcome: &contract.NodeOutcome{Execution: done.Execution, SHA: done.outcome.SHA}}
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
	n.run.Log.Add(&n.run.Conversation, x, &done.Execution, done.outcome.SHA, before)
	return done, nil
}

// leave decides by which edges an execution with an output leaves its node, once.
func (n *Runner) leave(ctx workflow.Context, x *runtime.Execution, edges []int, output string, done *Executed) error {
	if done.NoRoute || len(done.Edges) > 0 {
		return nil
	}
	taken, answers, err := n.Route(ctx, Source{
		Node: x.Node.ID, name: x.Node.Name, ID: x.ID, step: x.Step, output: &contract.ContentRef{SHA: output}, View: x.View, x: x, branch: done.Branch,
	}, edges, x.Journal)
	if err == nil {
		done.Edges, done.Taken, done.Answers, done.NoRoute = taken, n.EdgeIDs(taken), answers, len(edges) > 0 && len(taken) == 0
	}
	return err
}

// gain runs the node and takes over what it gives.
func (n *Runner) gain(ctx workflow.Context, x *runtime.Execution, done *Executed) error {
	out, err := n.visit(ctx, x)
	if err != nil {
		return err
	}
	if err := n.account(x, &out); err != nil {
		return err
	}
	schedule.SetOutput(x.View, contract.NodeOutput{
		Node: x.Node.ID, Name: x.Node.Name, Order: x.Order, SHA: out.Ref.SHA, By: schedule.NextStamp(x.View, x.Strand, x.ID, x.Step),
	})
	done.Truncated, done.OmittedMessages = out.Truncated, out.OmittedBytes
	done.Exhausted, done.Text, done.Data, done.Branch = out.Exhausted, &out.Text, out.Data, out.Branch
	done.Unfit = out.Unfit
	done.outcome.SHA = out.Ref.SHA
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

// Executed is what came of an execution: the edges that it took, or, where the run wants to
// continue as new, what it goes on with.
type Executed struct {
	contract.Execution
	Edges     []int
	outcome   contract.NodeOutcome
	Suspended *contract.SuspendedExecution
}

// visit runs one node.
func (n *Runner) visit(ctx workflow.Context, x *runtime.Execution) (runtime.Outcome, error) {
	k := n.kind(x.Node.Kind)
	if k == nil {
		return runtime.Outcome{}, n.run.Fail(x, contract.ClassBadRequest, "", "node kind %q is unknown to this build", x.Node.Kind)
	}
	return k.Visit(ctx, n.run, x)
}

// account settles what a visit of a node gave and cost.
func (n *Runner) account(x *runtime.Execution, out *runtime.Outcome) error {
	if err := values.SettleValue(n.run, x, out); err != nil {
		return err
	}
	if x.Node.Cost == nil {
		return nil
	}
	return n.run.Conversation.Spend(x, x.Node.Cost.Visit)
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

// kind returns what runs the nodes of a kind, nil for one that is unknown.
func (n *Runner) kind(k plan.Kind) Kind {
	switch k {
	case plan.KindAgent:
		return n.agents
	case plan.KindTool:
		return n.tools
	case plan.KindAsk:
		return askKind{}
	case plan.KindTransform:
		return transformKind{}
	case plan.KindMerge:
		return mergeKind{}
	case plan.KindPass:
		return passKind{}
	case plan.KindBranch:
		return branchKind{}
	case plan.KindSay:
		return sayKind{}
	case plan.KindCall:
		return callKind{n.flows}
	case plan.KindProgram:
		return programKind{}
	}
	return nil
}
