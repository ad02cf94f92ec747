package e2e

import (
	"fmt"
	"testing"

	"weft/activities/contract"
	"weft/tests/harness"
)

// TestEndToEndSessionKeys holds a session whose entry is judged in each turn: every call of the run
// has an id of its own, because the key by which services tell calls apart is made of it.
func TestEndToEndSessionKeys(t *testing.T) {
	t.Parallel()
	const doc = `{"name":"judged session","generation_prompt":"","response_format":{"type":1},"execution_plan":"","nodes":[{"id":"a","name":"A","prompt":"a","is_exit_node":true}],
"edges":[{"id":"e1","source":"START","target":"a","condition_prompt":"is it polite?"},{"id":"e2","source":"a","target":"END"}]}`
	for _, maxEvents := range []int{0, 1} {
		t.Run(fmt.Sprintf("max events %d", maxEvents), func(t *testing.T) {
			t.Parallel()
			h := harness.NewWorker(t, 0)
			run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: doc, Name: "flow.json"}, Input: "please", Session: true, MaxEvents: maxEvents,
				Script: harness.Script(t, `rules: [{question: "is it polite?", yes: true}, {say: done}]`)})
			h.Turns(t, run.GetID(), 1)
			if second := h.Prompt(t, run.GetID(), "x", "please again"); second.N != 2 || second.Status != contract.TurnCompleted {
				t.Errorf("the second turn is %+v", second)
			}
			h.CloseSession(t, run)
			last := h.Client.GetWorkflow(t.Context(), run.GetID(), "")
			if err := last.Get(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			judged := 0
			for id := last.GetRunID(); id != ""; {
				all := harness.Events(t, h.Client, run.GetID(), id)
				for _, e := range all {
					if s := e.GetActivityTaskScheduledEventAttributes(); s != nil {
						key := id + "/" + s.ActivityId
						if seen[key] {
							t.Errorf("two calls have the key %s", key)
						}
						seen[key] = true
						if s.ActivityType.Name == contract.ActivityEvaluateCondition {
							judged++
						}
					}
				}
				id = all[0].GetWorkflowExecutionStartedEventAttributes().ContinuedExecutionRunId
			}
			if judged != 2 {
				t.Errorf("%d judges were asked, want 2", judged)
			}
		})
	}
}
