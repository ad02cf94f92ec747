package workflows

import (
	"encoding/json"
	"fmt"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
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
}

// route decides which of a source's edges are taken: those without a question, and those
// whose question a model answers with yes. All questions are asked at once.
func (r *run) route(ctx workflow.Context, from source, edges []int) (taken []int, answers []contract.Answer, err error) {
	futures := make([]workflow.Future, len(edges))
	state, long := judgedState(from.view)
	for i, e := range edges {
		edge := &r.flow.Edges[e]
		if edge.Question == "" {
			continue
		}
		in := contract.JudgeInput{
			Model: r.shared.Model, Script: r.shared.Script, Question: edge.Question,
			Node: from.node, Name: from.name, Step: from.step,
			Output: from.output, Input: inputPart(&r.shared), State: state, Long: long, Home: r.home(),
		}
		if err := r.guard.admit(ctx, "the question of edge "+edge.ID, in); err != nil {
			return nil, nil, err
		}
		actx := r.options(ctx, fmt.Sprintf("%s/judge/%d", from.id, i+1),
			fmt.Sprintf("%s · %s?", from.node, edge.ID), r.flow.Policy.ModelSeconds, 0)
		futures[i] = workflow.ExecuteActivity(actx, contract.ActivityJudge, in)
	}
	for i, e := range edges {
		if futures[i] == nil {
			taken = append(taken, e)
			continue
		}
		var out contract.JudgeResult
		if err := futures[i].Get(ctx, &out); err != nil {
			return nil, nil, err
		}
		r.usage.Add(out.Usage)
		edge := &r.flow.Edges[e]
		answers = append(answers, contract.Answer{Execution: from.id, Edge: edge.ID, Question: edge.Question, Yes: out.Yes, Reason: out.Reason})
		if out.Yes {
			taken = append(taken, e)
		}
	}
	return taken, answers, nil
}

// judgedState is the state for a judge: short values themselves, long ones by reference.
func judgedState(v *contract.View) (json.RawMessage, []contract.LongValue) {
	short := make(map[string]json.RawMessage, len(v.State))
	var long []contract.LongValue
	total := 0
	for _, e := range v.State {
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
func (r *run) execute(ctx workflow.Context, x *step, edges []int) (executed, error) {
	done := executed{Execution: contract.Execution{Node: x.node.ID, Step: x.n}}
	out, err := r.visit(ctx, x)
	if err != nil {
		return done, r.failed(x, err)
	}
	if out.carry != nil {
		done.carry = out.carry
		return done, nil
	}
	say(x.view, contract.NodeOutput{
		Node: x.node.ID, Name: x.node.Name, Order: x.order, SHA: out.ref.SHA, By: tick(x.view, x.strand, x.id, x.n),
	})
	done.Truncated = out.truncated
	done.Exhausted, done.Text, done.Data = out.exhausted, &out.text, out.data
	taken, answers, err := r.route(ctx, source{
		node: x.node.ID, name: x.node.Name, id: x.id, step: x.n, output: &out.ref, view: x.view,
	}, edges)
	if err != nil {
		return done, r.failed(x, err)
	}
	done.taken, done.Answers, done.NoRoute = taken, answers, len(edges) > 0 && len(taken) == 0
	return done, nil
}

// executed is what came of an execution: the edges that it took, or, where the run wants to
// continue as new, the state with which it goes on.
type executed struct {
	contract.Execution
	taken []int
	carry *contract.AgentCarry
}

// outcome is what a node gives.
type outcome struct {
	ref       contract.ContentRef
	text      string
	data      json.RawMessage
	exhausted bool
	truncated bool
	// carry is set instead where the node stopped between two turns.
	carry *contract.AgentCarry
}

// visit runs one node: the only place that tells node kinds apart.
func (r *run) visit(ctx workflow.Context, x *step) (outcome, error) {
	switch x.node.Kind {
	case plan.KindAgent:
		return r.agent(ctx, x)
	}
	return outcome{}, r.fail(x, contract.ClassBadRequest, "", "node kind %q is unknown to this build", x.node.Kind)
}
