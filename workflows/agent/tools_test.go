package agent

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/journal"
	"weft/workflows/plan"
	"weft/workflows/runtime"
	"weft/workflows/schedule/scheduletest"
	"weft/workflows/workflowtest"
)

// TestElsewhereHasNoStore passes an activity of another worker arguments that only the store could
// hold: the model is told, and the call is not made.
func TestElsewhereHasNoStore(t *testing.T) {
	for name, tc := range map[string]struct {
		bytes int
		made  bool
	}{"as many as Temporal takes": {contract.MaxPayload - 100, true}, "more": {contract.MaxPayload, false}, "as many as the store takes": {4 << 20, false}} {
		t.Run(name, func(t *testing.T) {
			made := false
			env := workflowtest.Env()
			env.RegisterActivityWithOptions(func(_ context.Context, in map[string]string) (int, error) {
				made = true
				return len(in["x"]), nil
			}, activity.RegisterOptions{Name: "big"})
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				r := runtime.New(ctx)
				r.Flow = scheduletest.Sketch("START>a a>END")
				r.Allow(8 << 20)
				a := &agentRun{run: r, execution: &runtime.Execution{ID: "a#1", Node: &r.Flow.Nodes[0], Journal: journal.New(nil, nil)}, thread: r.Transcript.Open("a#1")}
				c := &toolCall{agent: a, call: &contract.ToolCall{ID: "1", Name: "big"}, args: json.RawMessage(`{"x":"` + strings.Repeat("x", tc.bytes) + `"}`),
					conn: &contract.ResolvedConnection{CallRules: contract.CallRules{ExternalActivity: &contract.ExternalActivity{Activity: "big", TaskQueue: "theirs", StartSeconds: 10, TimeoutSeconds: 60, Attempts: 1}}}}
				reply, err := c.callExternal(ctx)
				if err != nil {
					return err
				}
				if made != tc.made || reply.Failed == tc.made || !tc.made && !strings.Contains(reply.Text, "at most 1945600 can be sent to the worker") {
					t.Errorf("the call is made: %t, the reply is %.200q", made, reply.Text)
				}
				return nil
			})
			if err := env.GetWorkflowError(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestToolErrorsInARow counts the errors of calls: an agent that others hand over to may allow fewer of them than there were already.
func TestToolErrorsInARow(t *testing.T) {
	failed, free, fine := contract.ToolReply{Text: "no", Failed: true}, contract.ToolReply{Text: "say it otherwise", Failed: true, Free: true}, contract.ToolReply{Text: "ok"}
	for name, tc := range map[string]struct {
		before, allowed int
		replies         []contract.ToolReply
		fails           bool
	}{
		"fewer than allowed":       {allowed: 2, replies: []contract.ToolReply{failed}},
		"as many as allowed":       {allowed: 2, replies: []contract.ToolReply{failed, failed}, fails: true},
		"not in a row":             {allowed: 2, replies: []contract.ToolReply{failed, fine, failed}},
		"one that does not count":  {allowed: 2, before: 2, replies: []contract.ToolReply{free}},
		"more than allowed before": {allowed: 2, before: 3, replies: []contract.ToolReply{failed}, fails: true},
		"none after more":          {allowed: 2, before: 3, replies: []contract.ToolReply{fine}},
	} {
		t.Run(name, func(t *testing.T) {
			workflowtest.Run(t, func(ctx workflow.Context) {
				r := runtime.New(ctx)
				r.Flow = scheduletest.Sketch("START>a a>END")
				a := &agentRun{run: r, execution: &runtime.Execution{ID: "a#1", Node: &r.Flow.Nodes[0]}, cfg: &plan.Agent{MaxErrors: tc.allowed},
					state: contract.AgentState{Left: 1, Errors: tc.before}, thread: r.Transcript.Open("a#1")}
				var calls []*toolCall
				for _, reply := range tc.replies {
					calls = append(calls, &toolCall{call: &contract.ToolCall{ID: "1", Name: "t"}, reply: reply})
				}
				f := contract.FailureOf(a.appendReplies(calls))
				if (f != nil) != tc.fails || f != nil && (f.Class != contract.ClassToolErrors || !strings.HasSuffix(f.Text, ": no")) {
					t.Errorf("got %v", f)
				}
			})
		})
	}
}
