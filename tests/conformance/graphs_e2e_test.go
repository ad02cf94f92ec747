package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/workflows/plan"
)

// TestEndToEndContinueAsNewGraphs checks the executions of random graphs that continue as new at
// every opportunity.
func TestEndToEndContinueAsNewGraphs(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	for i, c := range ruleCases(t) {
		if i%30 != 3 {
			continue
		}
		check := func(t *testing.T, mode func(*plan.Flow) *plan.Flow) {
			t.Parallel()
			rules := "rules:\n"
			for key, answer := range c.Answers {
				question, step, _ := strings.Cut(key, "@")
				rules += fmt.Sprintf("- {question: %s, step: %s, yes: %v}\n", question, step, answer == "yes")
			}
			run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: mode(harness.GraphPlan(c.Name, c.Nodes, c.Edges))}, MaxEvents: 1, Script: harness.Script(t, rules+"- {say: done}\n")})
			if _, err := harness.Result(t, run); err != nil {
				t.Fatal(err)
			}
			v, err := h.Client.QueryWorkflow(context.Background(), run.GetID(), "", contract.QueryStatus)
			if err != nil {
				t.Fatal(err)
			}
			var status contract.Status
			if err := v.Get(&status); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want(), harness.Executions(status)); diff != "" {
				t.Errorf("executions (-want +got):\n%s", diff)
			}
		}
		for name, mode := range branchModes {
			t.Run(c.Name+"/"+name, func(t *testing.T) { check(t, mode) })
		}
	}
}

// TestEndToEndGraphs executes a graph of each kind on a Temporal server, with a script for its conditions.
func TestEndToEndGraphs(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	kinds := []string{"plain join, unequal branches runs twice", "deferred join, unequal branches runs once",
		"unrelated long branch does not delay the join", "deferred join inside a loop fires once per lap",
		"deferred after deferred, both armed", "no conditional true: dead end, run fails", "loop without exit hits the step limit"}
	for _, c := range graphCases(t) {
		for _, kind := range kinds {
			if c.Name != kind {
				continue
			}
			check := func(t *testing.T, mode func(*plan.Flow) *plan.Flow) {
				run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: mode(harness.GraphPlan(c.Name, c.Nodes, c.Edges))}, Script: harness.Script(t, visitScript(&c))})
				out, err := harness.Result(t, run)
				var status contract.Status
				v, qerr := h.Client.QueryWorkflow(context.Background(), run.GetID(), "", contract.QueryStatus)
				if qerr != nil {
					t.Fatal(qerr)
				}
				if err := v.Get(&status); err != nil {
					t.Fatal(err)
				}
				checkGraphCase(t, &c, out, status, err)
			}
			for name, mode := range branchModes {
				t.Run(c.Name+"/"+name, func(t *testing.T) { check(t, mode) })
			}
		}
	}
}

// visitScript returns a script that evaluates conditions by the step of each execution.
func visitScript(c *graphCase) string {
	var rounds [][]string
	_ = json.Unmarshal(c.Expect.Steps, &rounds)
	var b strings.Builder
	b.WriteString("rules:\n")
	for key, answers := range c.Judge {
		question, node, _ := strings.Cut(key, "@")
		visit := 0
		for step, round := range rounds {
			for _, executed := range round {
				if executed == node {
					fmt.Fprintf(&b, "- {kind: judge, node: %s, question: %q, step: %d, yes: %v}\n", node, question, step+1, answers[min(visit, len(answers)-1)])
					visit++
				}
			}
		}
		fmt.Fprintf(&b, "- {kind: judge, node: %s, question: %q, yes: %v}\n", node, question, answers[0])
	}
	b.WriteString("- {say: done}\n")
	return b.String()
}
