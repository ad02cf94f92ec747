// Package route decides by which of its edges an execution leaves its node.
package route

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/group"
	"weft/workflows/plan"
	"weft/workflows/runtime"
)

// maxJudgedState is how much of the state a judge sees.
const maxJudgedState = 32 << 10

// Leave decides by which of its edges an execution with an output, or the run's entry, leaves its node, once, and keeps that as
// its exit. branch is the one that the node has chosen, if it has several.
func Leave(ctx workflow.Context, x *runtime.Execution, output *contract.ContentRef, branch string) error {
	if x.Exit.NoRoute || len(x.Exit.Taken) > 0 {
		return nil
	}
	edges := slices.DeleteFunc(slices.Clone(x.Edges), func(e int) bool {
		own := x.Run.Flow.Edges[e].Branch
		return own != "" && own != branch
	})
	taken, answers, err := decide(ctx, x, output, edges)
	if err == nil {
		x.Exit = runtime.Exit{Taken: taken, Answers: answers, NoRoute: len(x.Edges) > 0 && len(taken) == 0}
	}
	return err
}

// IDs names edges as the author did.
func IDs(f *plan.Flow, edges []int) []string {
	var out []string
	for _, e := range edges {
		out = append(out, f.Edges[e].ID)
	}
	return out
}

// decide gives the edges of some that hold or, where the first is chosen, that one; later ones are not looked at. Questions are
// steps of the execution's journal.
func decide(ctx workflow.Context, x *runtime.Execution, output *contract.ContentRef, edges []int) (taken []int, answers []contract.Answer, err error) {
	first := cmp.Or(x.Node.Choice, x.Run.Flow.Choice) == plan.ChooseFirst
	var verdicts []*contract.JudgeResult
	if !first {
		if verdicts, err = judge(ctx, x, output, edges, 0); err != nil {
			return nil, nil, err
		}
	}
	for i, e := range edges {
		edge, yes := &x.Run.Flow.Edges[e], true
		switch {
		case edge.Compare != nil:
			a, err := compare(x, edge)
			if err != nil {
				return nil, nil, err
			}
			answers, yes = append(answers, a), a.Yes
		case edge.Question != "":
			own := verdicts
			if first {
				if own, err = judge(ctx, x, output, edges[:i+1], i); err != nil {
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
func judge(ctx workflow.Context, x *runtime.Execution, output *contract.ContentRef, edges []int, from int) ([]*contract.JudgeResult, error) {
	var asked []int
	for i := from; i < len(edges); i++ {
		if x.Run.Flow.Edges[edges[i]].Question != "" {
			asked = append(asked, i)
		}
	}
	if len(asked) == 0 {
		return nil, nil
	}
	state, long := judgedState(x.View)
	question := contract.JudgeInput{
		Model: x.Run.Shared.Model, Script: x.Run.Shared.Script, Node: x.Node.ID, Name: x.Node.Name, Step: x.Step,
		Output: output, Input: x.Run.Shared.InputPart(), State: state, Long: long, Home: x.Run.Home(),
	}
	at := x
	if x.Node.ID == plan.Start {
		at = nil
	}
	verdicts, judges := make([]*contract.JudgeResult, len(edges)), group.New(ctx)
	for k, i := range asked {
		edge, in := &x.Run.Flow.Edges[edges[i]], question
		in.Question = edge.Question
		judges.Start(func(ctx workflow.Context) error {
			verdicts[i] = &contract.JudgeResult{}
			return x.Run.CallStep(ctx, x.Journal, contract.HashOf(in.Question, string(in.State)), &runtime.Call{
				Activity: contract.ActivityEvaluateCondition, Args: []any{&in}, What: "the question of edge " + edge.ID, At: at,
				ID: fmt.Sprintf("%s/judge/%d", x.ID, i+1), Summary: fmt.Sprintf("%s · %s?", x.Node.ID, edge.ID), Options: x.Run.Options(x.Run.Flow.Policy.ModelSeconds),
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
