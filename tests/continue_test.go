package tests

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
)

// TestEndToEndContinueAsNew forces every run to continue as new at every boundary between
// nodes and turns. What comes out is the same, call for call.
func TestEndToEndContinueAsNew(t *testing.T) {
	for _, cache := range []int{0, 1} {
		h := newHand(t, cache)
		for name, r := range recordings {
			if name == "step-limit" {
				continue // the server lets a run continue as new once a second
			}
			if cache == 1 && name != "agent-tools" && name != "fork-deferred-join" && name != "sub-agent" {
				continue
			}
			t.Run(fmt.Sprintf("%s, cache %d", name, cache), func(t *testing.T) {
				t.Parallel()
				in := contract.RunInput{Flow: contract.FlowRef{Text: r.doc, Name: "flow.json", Profile: r.profile}, Input: r.input, Script: script(t, r.script)}
				plain, plainErr := resultOf(t, h.start(t, in))
				in.MaxEvents = 1
				run := h.start(t, in)
				forced, forcedErr := resultOf(t, run)
				if diff := cmp.Diff(plain, forced); diff != "" {
					t.Errorf("result (-plain +continued):\n%s", diff)
				}
				if (plainErr == nil) != (forcedErr == nil) || plainErr != nil && contract.FailureOf(plainErr).Error() != contract.FailureOf(forcedErr).Error() {
					t.Errorf("plain: %v\ncontinued: %v", plainErr, forcedErr)
				}
			})
		}
	}
}

// TestEndToEndLongLoop goes round more often than one history should hold: as a length of
// history wants it, and 3,000 times as the server suggests it.
func TestEndToEndLongLoop(t *testing.T) {
	tests := map[string]struct{ steps, events, runs, calls int }{
		"at 1,500 events":            {steps: 400, events: 1500, runs: 3, calls: 2},
		"at the server's suggestion": {steps: 3000, runs: 5, calls: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHand(t, 0)
			writes := ""
			if tc.calls == 2 {
				writes = "- {node: a, turn: 1, call: [{tool: set_state, arguments: {key: lap, value: 1}}]}\n"
			}
			run := h.start(t, contract.RunInput{Flow: contract.FlowRef{Text: judgedLoop, Name: "flow.json"}, MaxSteps: tc.steps + 1, MaxEvents: tc.events,
				Script: script(t, fmt.Sprintf(`rules:
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
				t.Errorf("%d calls, result from %q", out.Usage.Calls, out.ResultNode)
			}
			if s := h.status(t, run.GetID()); s.Dropped+len(s.Executions) != tc.steps+1 {
				t.Errorf("%d executions are listed and %d not", len(s.Executions), s.Dropped)
			}
			if n := runsOf(t, h.client, run); n < tc.runs {
				t.Errorf("%d runs, want at least %d", n, tc.runs)
			}
		})
	}
}

// runsOf counts the runs of a chain of continued runs.
func runsOf(t *testing.T, c client.Client, run client.WorkflowRun) int {
	t.Helper()
	n, id := 1, run.GetRunID() // the last of them, once the result is there
	for {
		before := events(t, c, run.GetID(), id)[0].GetWorkflowExecutionStartedEventAttributes().ContinuedExecutionRunId
		if before == "" {
			return n
		}
		n, id = n+1, before
	}
}

// TestEndToEndContinueAsNewGraphs lets random graphs continue as new at every boundary: the
// executions are those of the rule.
func TestEndToEndContinueAsNewGraphs(t *testing.T) {
	h := newHand(t, 0)
	for i, c := range ruleCases(t) {
		if i%30 != 3 {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			rules := "rules:\n"
			for key, answer := range c.Answers {
				question, step, _ := strings.Cut(key, "@")
				rules += fmt.Sprintf("- {question: %s, step: %s, yes: %v}\n", question, step, answer == "yes")
			}
			run := h.start(t, contract.RunInput{Flow: contract.FlowRef{Plan: graphPlan(c.Name, c.Nodes, c.Edges)}, MaxEvents: 1, Script: script(t, rules+"- {say: done}\n")})
			if _, err := resultOf(t, run); err != nil {
				t.Fatal(err)
			}
			v, err := h.client.QueryWorkflow(context.Background(), run.GetID(), "", contract.QueryStatus)
			if err != nil {
				t.Fatal(err)
			}
			var status contract.Status
			if err := v.Get(&status); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want(), executions(status)); diff != "" {
				t.Errorf("executions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEndToEndTooMuchToCarry asks two sub-agents of one node, in a branch, to come back with more
// than one payload holds together: the branch goes on instead, and the run waits for it.
func TestEndToEndTooMuchToCarry(t *testing.T) {
	h := confirmed(t)
	letter := strings.Repeat("x", 1<<20)
	run := h.start(t, contract.RunInput{Flow: contract.FlowRef{Text: patience, Name: "flow.json"}, MaxEvents: 1, DataConnections: mailTools(), MaxSteps: 10,
		Script: script(t, fmt.Sprintf(`rules:
- {question: "again?", step: 5, yes: false}
- {question: "enough?", step: 5, yes: true}
- {question: "again?", yes: true}
- {question: "enough?", yes: false}
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: one}}, {tool: call_sub_agent, arguments: {user_question: two}}]}
- {node: s, turn: 1, call: [{tool: send_mail, arguments: {to: ann, body: %s}}]}
- {say: ok}`, letter))})
	var s contract.Status
	waitFor(t, "both sub-agents to ask", func() bool {
		s = h.status(t, run.GetID())
		return len(s.Requests) == 2
	})
	time.Sleep(time.Second) // the loop beside them goes round, and the run wants to continue as new
	for _, q := range s.Requests {
		if _, err := h.update(t, run.GetID(), "confirm", map[string]any{"id": q.ID, "approve": false, "reason": "not today"}); err != nil {
			t.Fatal(err)
		}
	}
	out, err := resultOf(t, run)
	if err != nil || out.ResultNode != "j" {
		t.Fatalf("%+v, %v", out, err)
	}
}
