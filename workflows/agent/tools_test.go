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

// TestExternalActivityArgumentsTooLarge checks that an external activity, whose worker has no payload store, is not
// executed if its arguments exceed Temporal's payload limit: the model gets an error.
func TestExternalActivityArgumentsTooLarge(t *testing.T) {
	for name, tc := range map[string]struct {
		bytes int
		made  bool
	}{"within the payload limit": {contract.MaxPayload - 100, true}, "over the payload limit": {contract.MaxPayload, false}, "within the store limit": {4 << 20, false}} {
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
					t.Errorf("executed: %t, reply: %.200q", made, reply.Text)
				}
				return nil
			})
			if err := env.GetWorkflowError(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestConsecutiveToolErrors also covers an agent that, after a handoff, allows fewer errors than have already occurred.
func TestConsecutiveToolErrors(t *testing.T) {
	failed, free, fine := contract.ToolReply{Text: "no", Failed: true}, contract.ToolReply{Text: "say it otherwise", Failed: true, Free: true}, contract.ToolReply{Text: "ok"}
	for name, tc := range map[string]struct {
		before, allowed int
		replies         []contract.ToolReply
		fails           bool
	}{
		"fewer than allowed":              {allowed: 2, replies: []contract.ToolReply{failed}},
		"as many as allowed":              {allowed: 2, replies: []contract.ToolReply{failed, failed}, fails: true},
		"not consecutive":                 {allowed: 2, replies: []contract.ToolReply{failed, fine, failed}},
		"an error that is not counted":    {allowed: 2, before: 2, replies: []contract.ToolReply{free}},
		"already more than allowed":       {allowed: 2, before: 3, replies: []contract.ToolReply{failed}, fails: true},
		"success after more than allowed": {allowed: 2, before: 3, replies: []contract.ToolReply{fine}},
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
