package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/tests/harness"
)

// resetRun resets a run to its first workflow task, as an operator would.
func resetRun(t *testing.T, h *harness.Worker, id string) {
	t.Helper()
	_, err := h.Client.WorkflowService().ResetWorkflowExecution(context.Background(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: id},
		Reason: "test", WorkflowTaskFinishEventId: 3, RequestId: fmt.Sprint(time.Now().UnixNano())})
	if err != nil {
		t.Fatal(err)
	}
}

// TestEndToEndResetChild resets a branch, or a sub-agent in a branch, that waits for its second confirmation. It checks
// that the first one, which was answered, is requested again, and that the run continues with the new answer.
func TestEndToEndResetChild(t *testing.T) {
	t.Parallel()
	for name, doc := range map[string]string{
		"sub-agent": harness.WaitingFork,
		"branch":    strings.Replace(harness.WaitingFork, `"call_sub_agent","data_connection_id":"helper"`, `"send_mail","data_connection_id":"web"`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := harness.NewConfirmingWorker(t)
			rules := `
- {node: NODE, turn: 1, call: [{tool: send_mail, arguments: {to: ann}}]}
- {node: NODE, turn: 2, call: [{tool: send_mail, arguments: {to: bob}}]}
- {node: NODE, contains: "for now", say: asked again}`
			node := "a"
			if name == "sub-agent" {
				node, rules = "s", rules+"\n- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: one}}]}"
			}
			run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: doc, Name: "flow.json"}, DataConnections: harness.MailConnection(),
				Script: harness.Script(t, "rules:\n- {question: \"again?\", yes: false}\n- {question: \"enough?\", yes: true}"+strings.ReplaceAll(rules, "NODE", node)+"\n- {say: ok}")})
			id := run.GetID()
			waitRequest := func(to string) contract.Request {
				t.Helper()
				var q contract.Request
				harness.WaitFor(t, "a request for mail to "+to, func() bool {
					for _, open := range h.Status(t, id).Requests {
						if strings.Contains(string(open.Arguments), to) {
							q = open
							return true
						}
					}
					return false
				})
				return q
			}
			answer := func(q contract.Request, reason string) {
				t.Helper()
				if _, err := h.Update(t, id, "confirm", map[string]any{"id": q.ID, "approve": false, "reason": reason}); err != nil {
					t.Fatal(err)
				}
			}
			first := waitRequest("ann")
			answer(first, "not today")
			second := waitRequest("bob")
			resetRun(t, h, second.Run.Workflow)
			again := waitRequest("ann")
			if again.ID != first.ID || again.Run.Run == first.Run.Run {
				t.Errorf("request = %+v,\nwas %+v", again, first)
			}
			answer(again, "never")
			var last contract.Request
			harness.WaitFor(t, "the second request of the reset run", func() bool {
				last = waitRequest("bob")
				return last.Run.Run == again.Run.Run
			})
			answer(last, "for now")
			out, err := harness.Result(t, run)
			if err != nil || out.ResultNode != "j" {
				t.Fatalf("result = %+v, %v", out, err)
			}
		})
	}
}

// TestEndToEndResetSession resets a child session that has reported its usage. It checks that the reported usage
// remains counted, and that the child accepts prompts as before.
func TestEndToEndResetSession(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	id := fmt.Sprintf("reset-%d", time.Now().UnixNano())
	child := id + "/boss#1:call_1"
	run, err := h.Client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{TaskQueue: h.Queue, ID: id}, contract.WorkflowFlow,
		contract.RunInput{V: contract.Version, Flow: contract.FlowRef{Plan: harness.Orchestrator()}, Params: json.RawMessage(`{"prompt":"one"}`), Session: true, Model: "script",
			Script: harness.Script(t, `rules:
- {node: helper, match: ^more$, say: "more help"}
- {node: helper, turn: 1, call: [{tool: nope}, {tool: nope}]}
- {node: helper, say: "help"}
- {node: boss, turn: 1, call: [{tool: start_agent_session, arguments: {agent_name: helper, parameters: {prompt: now}}}]}
- {node: boss, match: ^two$, call: [{tool: resume_agent_session, arguments: {session_id: "`+child+`", parameters: {prompt: more}}}]}
- {node: boss, contains: more help, say: "more heard"}
- {node: boss, say: "heard"}`)})
	if err != nil {
		t.Fatal(err)
	}
	h.WaitForTurns(t, id, 1)
	if before := h.Status(t, id); before.Usage.Calls != 4 || len(before.Session.Children) != 1 || before.Session.Children[0].ID != child {
		t.Fatalf("before the reset: %+v, %+v", before.Usage, before.Session)
	}
	resetRun(t, h, child)
	if got := h.Prompt(t, id, "a", "two"); got.ResultText == nil || *got.ResultText != "more heard" {
		t.Errorf("next turn = %+v", got)
	}
	// The child repeated two calls, which are not counted again. Of the three that it now reports, one is new.
	if after := h.Status(t, id); after.Usage.Calls != 7 {
		t.Errorf("usage after the reset = %+v", after.Usage)
	}
	resetRun(t, h, child)
	if out := h.CloseSession(t, run); out.Usage.Calls != 7 {
		t.Errorf("usage = %+v", out.Usage)
	}
}
