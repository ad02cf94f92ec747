package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/tests/harness"
)

// TestEndToEndLongLoop checks that a loop with more iterations than one history should hold continues as new, both at a
// configured number of events and at the server's suggestion.
func TestEndToEndLongLoop(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ steps, events, runs, calls int }{
		"at 500 events":              {steps: 150, events: 500, runs: 3, calls: 2},
		"at the server's suggestion": {steps: 600, runs: 2, calls: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := harness.NewWorker(t, 0)
			writes := ""
			if tc.calls == 2 {
				writes = "- {node: a, turn: 1, call: [{tool: set_state, arguments: {key: lap, value: 1}}]}\n"
			}
			run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.JudgedLoop, Name: "flow.json"}, MaxSteps: tc.steps + 1, MaxEvents: tc.events,
				Script: harness.Script(t, fmt.Sprintf(`rules:
- {question: "again?", step: %d, yes: false}
- {question: "done?", step: %d, yes: true}
- {question: "again?", yes: true}
- {question: "done?", yes: false}
%s- {say: round}`, tc.steps, tc.steps, writes))})
			ctx, cancel := context.WithTimeout(context.Background(), 14*time.Minute)
			defer cancel()
			var out contract.RunResult
			if err := run.Get(ctx, &out); err != nil {
				t.Fatal(err)
			}
			if out.Usage.Calls != tc.calls*tc.steps+2*tc.steps+1 || out.ResultNode != "x" {
				t.Errorf("%d calls, result of node %q", out.Usage.Calls, out.ResultNode)
			}
			if s := h.Status(t, run.GetID()); s.Dropped+len(s.Executions) != tc.steps+1 {
				t.Errorf("%d executions are listed and %d dropped", len(s.Executions), s.Dropped)
			}
			if n := harness.RunCount(t, h.Client, run); n < tc.runs {
				t.Errorf("%d runs, want at least %d", n, tc.runs)
			}
		})
	}
}

// TestEndToEndSnapshotTooLarge has two sub-agents of one node, in a branch, whose states together exceed one payload.
// It checks that the run completes: the branch cannot continue as new, so the run must wait for it.
func TestEndToEndSnapshotTooLarge(t *testing.T) {
	t.Parallel()
	h := harness.NewConfirmingWorker(t)
	letter := strings.Repeat("x", 1<<20)
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.WaitingFork, Name: "flow.json"}, MaxEvents: 1, DataConnections: harness.MailConnection(), MaxSteps: 10,
		Script: harness.Script(t, fmt.Sprintf(`rules:
- {question: "again?", step: 5, yes: false}
- {question: "enough?", step: 5, yes: true}
- {question: "again?", yes: true}
- {question: "enough?", yes: false}
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: one}}, {tool: call_sub_agent, arguments: {user_question: two}}]}
- {node: s, turn: 1, call: [{tool: send_mail, arguments: {to: ann, body: %s}}]}
- {say: ok}`, letter))})
	var s contract.Status
	harness.WaitFor(t, "the requests of both sub-agents", func() bool {
		s = h.Status(t, run.GetID())
		return len(s.Requests) == 2
	})
	time.Sleep(time.Second) // meanwhile the loop iterates, and the run tries to continue as new
	for _, q := range s.Requests {
		if _, err := h.Update(t, run.GetID(), "confirm", map[string]any{"id": q.ID, "approve": false, "reason": "not today"}); err != nil {
			t.Fatal(err)
		}
	}
	out, err := harness.Result(t, run)
	if err != nil || out.ResultNode != "j" {
		t.Fatalf("result = %+v, %v", out, err)
	}
}
