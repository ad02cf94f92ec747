package e2e

import (
	"fmt"
	"testing"

	"weft/activities/contract"
	"weft/tests/harness"
)

// TestEndToEndSessionActivityIDs runs a session whose entry condition is evaluated in each turn. It checks that every
// activity of a run has a unique id, because idempotency keys are derived from it.
func TestEndToEndSessionActivityIDs(t *testing.T) {
	t.Parallel()
	const doc = `{"name":"judged session","generation_prompt":"","response_format":{"type":1},"execution_plan":"","nodes":[{"id":"a","name":"A","prompt":"a","is_exit_node":true}],
"edges":[{"id":"e1","source":"START","target":"a","condition_prompt":"is it polite?"},{"id":"e2","source":"a","target":"END"}]}`
	for _, maxEvents := range []int{0, 1} {
		t.Run(fmt.Sprintf("max events %d", maxEvents), func(t *testing.T) {
			t.Parallel()
			h := harness.NewWorker(t, 0)
			run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: doc, Name: "flow.json"}, Input: "please", Session: true, MaxEvents: maxEvents,
				Script: harness.Script(t, `rules: [{question: "is it polite?", yes: true}, {say: done}]`)})
			h.WaitForTurns(t, run.GetID(), 1)
			if second := h.Prompt(t, run.GetID(), "x", "please again"); second.N != 2 || second.Status != contract.TurnCompleted {
				t.Errorf("second turn = %+v", second)
			}
			h.CloseSession(t, run)
			last := h.Client.GetWorkflow(t.Context(), run.GetID(), "")
			if err := last.Get(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			evaluated := 0
			for id := last.GetRunID(); id != ""; {
				all := harness.Events(t, h.Client, run.GetID(), id)
				for _, e := range all {
					if s := e.GetActivityTaskScheduledEventAttributes(); s != nil {
						key := id + "/" + s.ActivityId
						if seen[key] {
							t.Errorf("two activities have the id %s", key)
						}
						seen[key] = true
						if s.ActivityType.Name == contract.ActivityEvaluateCondition {
							evaluated++
						}
					}
				}
				id = all[0].GetWorkflowExecutionStartedEventAttributes().ContinuedExecutionRunId
			}
			if evaluated != 2 {
				t.Errorf("%d conditions were evaluated, want 2", evaluated)
			}
		})
	}
}
