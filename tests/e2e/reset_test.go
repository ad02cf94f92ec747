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

// resetRun has an operator reset a run to its beginning.
func resetRun(t *testing.T, h *harness.Worker, id string) {
	t.Helper()
	_, err := h.Client.WorkflowService().ResetWorkflowExecution(context.Background(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: id},
		Reason: "test", WorkflowTaskFinishEventId: 3, RequestId: fmt.Sprint(time.Now().UnixNano())})
	if err != nil {
		t.Fatal(err)
	}
}

// TestEndToEndResetBelow resets a branch, and a sub-agent in one, that waits for a person for the
// second time: the run asks the first question again, whose answer was taken, and goes on with its
// new answer.
func TestEndToEndResetBelow(t *testing.T) {
	t.Parallel()
	for where, doc := range map[string]string{
		"sub-agent": harness.WaitingFork,
		"branch":    strings.Replace(harness.WaitingFork, `"call_sub_agent","data_connection_id":"helper"`, `"send_mail","data_connection_id":"web"`, 1),
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			h := harness.NewConfirmingWorker(t)
			rules := `
- {node: NODE, turn: 1, call: [{tool: send_mail, arguments: {to: ann}}]}
- {node: NODE, turn: 2, call: [{tool: send_mail, arguments: {to: bob}}]}
- {node: NODE, contains: "for now", say: asked again}`
			node := "a"
			if where == "sub-agent" {
				node, rules = "s", rules+"\n- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: one}}]}"
			}
			run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: doc, Name: "flow.json"}, DataConnections: harness.MailConnection(),
				Script: harness.Script(t, "rules:\n- {question: \"again?\", yes: false}\n- {question: \"enough?\", yes: true}"+strings.ReplaceAll(rules, "NODE", node)+"\n- {say: ok}")})
			id := run.GetID()
			asked := func(to string) contract.Request {
				t.Helper()
				var q contract.Request
				harness.WaitFor(t, "a question about "+to, func() bool {
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
			first := asked("ann")
			answer(first, "not today")
			second := asked("bob")
			resetRun(t, h, second.Run.Workflow)
			again := asked("ann")
			if again.ID != first.ID || again.Run.Run == first.Run.Run {
				t.Errorf("the request became %+v\nfrom %+v", again, first)
			}
			answer(again, "never")
			var last contract.Request
			harness.WaitFor(t, "the second question of the run that was reset", func() bool {
				last = asked("bob")
				return last.Run.Run == again.Run.Run
			})
			answer(last, "for now")
			out, err := harness.Result(t, run)
			if err != nil || out.ResultNode != "j" {
				t.Fatalf("%+v, %v", out, err)
			}
		})
	}
}

// TestEndToEndResetSession resets a session below another that has told what it spent: it stays spent, whatever
// becomes of the session, which takes prompts as before.
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
	h.Turns(t, id, 1)
	if before := h.Status(t, id); before.Usage.Calls != 4 || len(before.Session.Children) != 1 || before.Session.Children[0].ID != child {
		t.Fatalf("before: %+v, %+v", before.Usage, before.Session)
	}
	resetRun(t, h, child)
	if got := h.Prompt(t, id, "a", "two"); got.ResultText == nil || *got.ResultText != "more heard" {
		t.Errorf("the next turn is %+v", got)
	}
	// Two calls were made once more, and are not counted: three are what the session now says that it has spent.
	if after := h.Status(t, id); after.Usage.Calls != 7 {
		t.Errorf("the run has spent %+v behind the reset", after.Usage)
	}
	resetRun(t, h, child)
	if out := h.CloseSession(t, run); out.Usage.Calls != 7 {
		t.Errorf("the run has spent %+v", out.Usage)
	}
}
