package dialects

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/worker"

	"weft/activities"
	"weft/activities/contract"
	"weft/tests/harness"
	"weft/workflows"
)

// TestEndToEndBudgetAcrossContinueAsNew checks the budget of runs that continue as new whenever possible, while a sub-agent in one
// branch and a loop in another spend it: all calls are counted, and no more are made than it allows.
func TestEndToEndBudgetAcrossContinueAsNew(t *testing.T) {
	t.Parallel()
	for _, calls := range []int{12, 24, 200} {
		t.Run(fmt.Sprint(calls), func(t *testing.T) {
			t.Parallel()
			var made atomic.Int32
			h := &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}
			h.Worker = harness.RunWorkerWith(t, h.Client, h.Queue, workflows.Settings{}, activities.Deps{},
				func(r worker.ActivityRegistry) worker.ActivityRegistry { return callCounter{r, &made} })
			t.Cleanup(h.Worker.Stop)
			run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.WaitingFork, Name: "flow.json"}, DataConnections: harness.MailConnection(),
				MaxEvents: 1, MaxSteps: 20, Budget: &contract.Budget{Calls: calls},
				Script: harness.Script(t, `rules:
- {question: "again?", step: 15, yes: false}
- {question: "enough?", step: 15, yes: true}
- {question: "again?", yes: true}
- {question: "enough?", yes: false}
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: one}}]}
- {node: s, turn: 8, say: done}
- {node: s, call: [{tool: set_state, arguments: {key: k, value: 1}}]}
- {say: ok}`)})
			_, err := harness.Result(t, run)
			used, n := h.Status(t, run.GetID()).Usage, int(made.Load())
			if used.Calls > n || used.Made() < n {
				t.Errorf("%d calls were made, usage = %+v", n, used)
			}
			if n > calls {
				t.Errorf("%d calls were made, the budget allows %d", n, calls)
			}
			if ample := calls > 100; ample != (err == nil) || ample && n != 2+8+15+30+1 {
				t.Errorf("%d calls were made: %v", n, err)
			}
		})
	}
}
