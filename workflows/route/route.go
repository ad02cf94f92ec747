// Package route selects the edges to take after an execution of a node.
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

// maxJudgedState limits the bytes of the state that a judge sees.
const maxJudgedState = 32 << 10

// Leave selects the edges to take after an execution with an output, or from the run's entry, and stores them in x.Exit. It does
// nothing if x.Exit is set. branch is the branch that the node has chosen, if it has several.
func Leave(ctx workflow.Context, x *runtime.Execution, output *contract.ContentRef, branch string) error {
	if x.Exit.NoRoute || len(x.Exit.Taken) > 0 {
		return nil
	}
	edges := slices.DeleteFunc(slices.Clone(x.Edges), func(e int) bool {
		required := x.Run.Flow.Edges[e].Branch
		return required != "" && required != branch
	})
	taken, answers, err := selectEdges(ctx, x, output, edges)
	if err == nil {
		x.Exit = runtime.Exit{Taken: taken, Answers: answers, NoRoute: len(x.Edges) > 0 && len(taken) == 0}
	}
	return err
}

// IDs returns the ids of edges as the author wrote them.
func IDs(f *plan.Flow, edges []int) []string {
	var out []string
	for _, e := range edges {
		out = append(out, f.Edges[e].ID)
	}
	return out
}

// selectEdges returns the edges whose conditions hold or, if the node chooses the first, only that one, without evaluating later
// ones. Questions are steps of the execution's journal.
func selectEdges(ctx workflow.Context, x *runtime.Execution, output *contract.ContentRef, edges []int) (taken []int, answers []contract.Answer, err error) {
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
			results := verdicts
			if first {
				if results, err = judge(ctx, x, output, edges[:i+1], i); err != nil {
					return nil, nil, err
				}
			}
			answers, yes = append(answers, contract.Answer{Execution: x.ID, Edge: edge.ID, Question: edge.Question, Yes: results[i].Yes, Reason: results[i].Reason}), results[i].Yes
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

// judge asks a model the questions of edges[from:], concurrently. The results have the indices of the edges.
func judge(ctx workflow.Context, x *runtime.Execution, output *contract.ContentRef, edges []int, from int) ([]*contract.JudgeResult, error) {
	var questions []int
	for i := from; i < len(edges); i++ {
		if x.Run.Flow.Edges[edges[i]].Question != "" {
			questions = append(questions, i)
		}
	}
	if len(questions) == 0 {
		return nil, nil
	}
	state, long := judgedState(x.View)
	base := contract.JudgeInput{
		Model: x.Run.Shared.Model, Script: x.Run.Shared.Script, Node: x.Node.ID, Name: x.Node.Name, Step: x.Step,
		Output: output, Input: x.Run.Shared.InputPart(), State: state, Long: long, Home: x.Run.Home(),
	}
	at := x
	if x.Node.ID == plan.Start {
		at = nil
	}
	verdicts, judges := make([]*contract.JudgeResult, len(edges)), group.New(ctx)
	for k, i := range questions {
		edge, in := &x.Run.Flow.Edges[edges[i]], base
		in.Question = edge.Question
		judges.Start(func(ctx workflow.Context) error {
			verdicts[i] = &contract.JudgeResult{}
			return x.Run.CallStep(ctx, x.Journal, contract.HashOf(in.Question, string(in.State)), &runtime.Call{
				Activity: contract.ActivityEvaluateCondition, Args: []any{&in}, What: "the question of edge " + edge.ID, At: at,
				ID: fmt.Sprintf("%s/judge/%d", x.ID, i+1), Summary: fmt.Sprintf("%s · %s?", x.Node.ID, edge.ID), Options: x.Run.Options(x.Run.Flow.Policy.ModelSeconds),
				Model: &runtime.ModelCall{Bytes: len(in.State), Once: &in.Once, Others: len(questions) - 1 - k}, Out: verdicts[i],
			})
		})
	}
	return verdicts, judges.Wait()
}

// judgedState returns the state for a judge: short values as JSON, long ones by reference.
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
