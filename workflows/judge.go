package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
	"weft/workflows/schedule"
)

// maxJudgedState is how much of the state a judge sees.
const maxJudgedState = 32 << 10

// source is where edges are judged: a node's execution, or the run's entry.
type source struct {
	node, name string
	// id is the execution's id, START for the entry.
	id     string
	step   int
	output *contract.ContentRef
	view   *contract.View
	// x is nil for the entry.
	x *execution
	// branch is the one by which the node leaves, if it has several.
	branch string
}

// route decides which of a source's edges are taken: those without a question, and those
// whose question a model answers with yes. All questions are asked at once, as steps of the journal.
func (r *run) route(ctx workflow.Context, from source, edges []int, j *journal) (taken []int, answers []contract.Answer, err error) {
	edges = r.leavingBy(from.branch, edges)
	if r.choosesFirst(&from) {
		return r.routeFirst(ctx, from, edges, j)
	}
	verdicts := make([]*contract.JudgeResult, len(edges))
	if !slices.ContainsFunc(edges, func(e int) bool { return r.flow.Edges[e].Question != "" }) {
		return r.answered(from, edges, verdicts)
	}
	judges := newGroup(ctx)
	question := r.judgeInput(from)
	asks := func(i int) bool { return r.flow.Edges[edges[i]].Question != "" }
	others := 0
	for i := range edges {
		if asks(i) {
			others++
		}
	}
	for i, e := range edges {
		edge := &r.flow.Edges[e]
		if !asks(i) {
			continue
		}
		others--
		in := question
		in.Question = edge.Question
		r.judge(judges, from, asking{i, edge.ID, others}, in, j, verdicts)
	}
	if err := judges.wait(); err != nil {
		return nil, nil, err
	}
	return r.answered(from, edges, verdicts)
}

// answered takes the edges that hold, once all that is to be judged is judged.
func (r *run) answered(from source, edges []int, verdicts []*contract.JudgeResult) (taken []int, answers []contract.Answer, err error) {
	for i, e := range edges {
		edge, v := &r.flow.Edges[e], verdicts[i]
		yes := v == nil || v.Yes
		switch {
		case v != nil:
			answers = append(answers, contract.Answer{Execution: from.id, Edge: edge.ID, Question: edge.Question, Yes: v.Yes, Reason: v.Reason})
		case edge.Compare != nil:
			a, err := r.compare(from, edge)
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
func (r *run) judgeInput(from source) contract.JudgeInput {
	state, long := judgedState(from.view)
	return contract.JudgeInput{
		Model: r.shared.Model, Script: r.shared.Script,
		Node: from.node, Name: from.name, Step: from.step,
		Output: from.output, Input: inputPart(&r.shared), State: state, Long: long, Home: r.home(),
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
func (r *run) judge(judges *group, from source, q asking, in contract.JudgeInput, j *journal, verdicts []*contract.JudgeResult) {
	judges.start(func(ctx workflow.Context) error {
		var out contract.JudgeResult
		err := r.callStep(ctx, j, hashOf(in.Question, string(in.State)), &call{
			activity: contract.ActivityEvaluateCondition, args: []any{&in}, what: "the question of edge " + q.edge, at: from.x,
			id: fmt.Sprintf("%s/judge/%d", from.id, q.place+1), summary: fmt.Sprintf("%s · %s?", from.node, q.edge),
			options: r.options(r.flow.Policy.ModelSeconds), model: &modelCall{bytes: len(in.State), once: &in.Once, others: q.others}, out: &out,
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

// execute runs a node and decides where to go on from it.
func (r *run) execute(ctx workflow.Context, x *execution, edges []int) (executed, error) {
	ctx, leave := r.watch.enter(ctx, r.flow.Name, x)
	done, err := r.perform(ctx, x, edges)
	leave(err == nil && done.suspended != nil, err)
	return done, err
}

// perform is [run.execute], unwatched.
func (r *run) perform(ctx workflow.Context, x *execution, edges []int) (executed, error) {
	done := executed{Execution: contract.Execution{Node: x.node.ID, Step: x.n}}
	before := r.conversationMark()
	x.journal, x.state = journalOf(nil, x.suspended), contract.SuspendedExecution{}
	if x.suspended != nil && x.suspended.Outcome != nil {
		done.outcome = *x.suspended.Outcome
		done.Execution = done.outcome.Execution
	} else if err := r.gain(ctx, x, &done); err != nil {
		return r.yielded(x, done, err)
	}
	output := contract.ContentRef{SHA: done.outcome.SHA}
	taken, answers, err := r.route(ctx, source{
		node: x.node.ID, name: x.node.Name, id: x.id, step: x.n, output: &output, view: x.view, x: x, branch: done.Branch,
	}, edges, x.journal)
	if err != nil {
		x.state = contract.SuspendedExecution{Outcome: &contract.NodeOutcome{Execution: done.Execution, SHA: done.outcome.SHA}}
		return r.yielded(x, done, err)
	}
	done.Taken = r.edgeIDs(taken)
	done.taken, done.Answers, done.NoRoute = taken, answers, len(edges) > 0 && len(taken) == 0
	if done.NoRoute && done.Branch != "" {
		return done, r.noEdge(x, done.Branch)
	}
	if done.NoRoute && r.flow.NoRoute != nil {
		return done, r.unmatched(x, edges, answers)
	}
	if err := r.spendEnd(x, taken); err != nil {
		return done, r.failed(x, err)
	}
	if err := r.passOn(x, taken, &done.Execution); err != nil {
		return done, r.failed(x, err)
	}
	r.enterPast(x, &done, done.outcome.SHA, before)
	return done, nil
}

// gain runs the node and takes over what it gives.
func (r *run) gain(ctx workflow.Context, x *execution, done *executed) error {
	out, err := r.visit(ctx, x)
	if err != nil {
		return err
	}
	if err := r.account(x, &out); err != nil {
		return err
	}
	schedule.SetOutput(x.view, contract.NodeOutput{
		Node: x.node.ID, Name: x.node.Name, Order: x.order, SHA: out.ref.SHA, By: schedule.NextStamp(x.view, x.strand, x.id, x.n),
	})
	done.Truncated, done.LeftOut = out.truncated, out.leftOut
	done.Exhausted, done.Text, done.Data, done.Branch = out.exhausted, &out.text, out.data, out.branch
	done.outcome.SHA = out.ref.SHA
	x.journal.boundary(0)
	return nil
}

// yielded is what an execution gives that did not come to its end: what it goes on with, or why it failed.
func (r *run) yielded(x *execution, done executed, err error) (executed, error) {
	if !errors.Is(err, errYield) {
		return done, r.failed(x, err)
	}
	done.suspended, err = x.suspend()
	return done, err
}

// edgeIDs names edges as the author did.
func (r *run) edgeIDs(edges []int) []string {
	var out []string
	for _, e := range edges {
		out = append(out, r.flow.Edges[e].ID)
	}
	return out
}

// executed is what came of an execution: the edges that it took, or, where the run wants to
// continue as new, what it goes on with.
type executed struct {
	contract.Execution
	taken     []int
	outcome   contract.NodeOutcome
	suspended *contract.SuspendedExecution
}

// outcome is what a node gives.
type outcome struct {
	ref  contract.ContentRef
	text string
	data json.RawMessage
	// value is set by nodes that leave a typed value; text and data follow from it.
	value     *value.Value
	exhausted bool
	truncated bool
	leftOut   int
	// branch is the one by which the node leaves, if it has several.
	branch string
}

// visit runs one node: the only place that tells node kinds apart.
func (r *run) visit(ctx workflow.Context, x *execution) (outcome, error) {
	switch x.node.Kind {
	case plan.KindAgent:
		return r.agent(ctx, x)
	case plan.KindAsk:
		return r.ask(ctx, x)
	case plan.KindTransform:
		return r.transform(x)
	case plan.KindMerge:
		return r.merge(x)
	case plan.KindPass:
		return r.pass(x)
	case plan.KindBranch:
		return r.branch(x)
	case plan.KindSay:
		return r.say(x)
	case plan.KindTool:
		return r.toolNode(ctx, x)
	case plan.KindCall:
		return r.callFlows(ctx, x)
	case plan.KindProgram:
		return r.program(ctx, x)
	}
	return outcome{}, r.fail(x, contract.ClassBadRequest, "", "node kind %q is unknown to this build", x.node.Kind)
}
