package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"

	"weft/activities/contract"
)

// resetRun has an operator reset a run to its beginning.
func (h *hand) resetRun(t *testing.T, id string) {
	t.Helper()
	_, err := h.client.WorkflowService().ResetWorkflowExecution(context.Background(), &workflowservice.ResetWorkflowExecutionRequest{
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
	for where, doc := range map[string]string{
		"sub-agent": patience,
		"branch":    strings.Replace(patience, `"call_sub_agent","data_connection_id":"helper"`, `"send_mail","data_connection_id":"web"`, 1),
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			h := confirmed(t)
			rules := `
- {node: NODE, turn: 1, call: [{tool: send_mail, arguments: {to: ann}}]}
- {node: NODE, turn: 2, call: [{tool: send_mail, arguments: {to: bob}}]}
- {node: NODE, contains: "for now", say: asked again}`
			node := "a"
			if where == "sub-agent" {
				node, rules = "s", rules+"\n- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: one}}]}"
			}
			run := h.start(t, contract.RunInput{Flow: contract.FlowRef{Text: doc, Name: "flow.json"}, DataConnections: mailTools(),
				Script: script(t, "rules:\n- {question: \"again?\", yes: false}\n- {question: \"enough?\", yes: true}"+strings.ReplaceAll(rules, "NODE", node)+"\n- {say: ok}")})
			id := run.GetID()
			asked := func(to string) contract.Request {
				t.Helper()
				var q contract.Request
				waitFor(t, "a question about "+to, func() bool {
					for _, open := range h.status(t, id).Requests {
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
				if _, err := h.update(t, id, "confirm", map[string]any{"id": q.ID, "approve": false, "reason": reason}); err != nil {
					t.Fatal(err)
				}
			}
			first := asked("ann")
			answer(first, "not today")
			second := asked("bob")
			h.resetRun(t, second.Run.Workflow)
			again := asked("ann")
			if again.ID != first.ID || again.Run.Run == first.Run.Run {
				t.Errorf("the request became %+v\nfrom %+v", again, first)
			}
			answer(again, "never")
			var last contract.Request
			waitFor(t, "the second question of the run that was reset", func() bool {
				last = asked("bob")
				return last.Run.Run == again.Run.Run
			})
			answer(last, "for now")
			out, err := resultOf(t, run)
			if err != nil || out.ResultNode != "j" {
				t.Fatalf("%+v, %v", out, err)
			}
		})
	}
}

// TestEndToEndResetSession resets a session below another that has told what it spent: it stays spent, whatever
// becomes of the session, which takes prompts as before.
func TestEndToEndResetSession(t *testing.T) {
	h := newHand(t, 0)
	id := fmt.Sprintf("reset-%d", time.Now().UnixNano())
	child := id + "/boss#1:call_1"
	run, err := h.client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{TaskQueue: h.queue, ID: id}, contract.WorkflowFlow,
		contract.RunInput{V: contract.Version, Flow: contract.FlowRef{Plan: orchestrator()}, Params: json.RawMessage(`{"prompt":"one"}`), Session: true, Model: "script",
			Script: script(t, `rules:
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
	h.turns(t, id, 1)
	if before := h.status(t, id); before.Usage.Calls != 4 || len(before.Session.Children) != 1 || before.Session.Children[0].ID != child {
		t.Fatalf("before: %+v, %+v", before.Usage, before.Session)
	}
	h.resetRun(t, child)
	if got := h.resume(t, id, "a", "two"); got.ResultText == nil || *got.ResultText != "more heard" {
		t.Errorf("the next turn is %+v", got)
	}
	// Two calls were made once more, and are not counted: three are what the session now says that it has spent.
	if after := h.status(t, id); after.Usage.Calls != 7 {
		t.Errorf("the run has spent %+v behind the reset", after.Usage)
	}
	h.resetRun(t, child)
	if out := h.halt(t, run); out.Usage.Calls != 7 {
		t.Errorf("the run has spent %+v", out.Usage)
	}
}

// TestRequestIsToldAgain tells a run of a request of one below it, before and after that one took its
// answer, and then of the same from a run that was reset.
func TestRequestIsToldAgain(t *testing.T) {
	const below = "default-test-workflow-id/b#1"
	var answers [2]error
	var open []string
	tell := func(run string) func(played) {
		return func(p played) {
			p.env.SignalWorkflow(contract.SignalRequest, contract.Request{ID: "b#1/ask-1", Kind: contract.RequestMessage, Text: "Which?",
				Run: contract.Run{Workflow: below, Run: run}})
		}
	}
	look := func(p played) {
		var s contract.Status
		query(t, p.env, contract.QueryStatus, &s)
		seen := ""
		for _, q := range s.Requests {
			if q.ID == "b#1/ask-1" {
				seen += fmt.Sprintf("%s %d", q.Run.Run, q.Again)
			}
		}
		open = append(open, seen)
	}
	answer := func(n int, text string) func(played) {
		return func(p played) {
			ask(p.env, contract.RequestMessage, contract.MessageAnswer{ID: "b#1/ask-1", Text: text}, &answers[n])
		}
	}
	taken := func(p played) {
		p.env.SignalWorkflow(contract.SignalClose, contract.RequestID{ID: "b#1/ask-1"})
	}
	r := rehearsal{doc: oneNode(clientNode), script: `rules: [{turn: 1, call: [{tool: look_up}]}, {say: done}]`,
		set: func(in *contract.RunInput) { in.DataConnections = clientTool("look_up", 100*3600) },
		before: func(env *testsuite.TestWorkflowEnvironment) {
			env.OnSignalExternalWorkflow(mock.Anything, below, mock.Anything, contract.SignalReply, mock.Anything).Return(nil)
		}}
	p := playSteps(t, r, tell("one"), tell("one"), look, answer(0, "this"), tell("one"), look, taken, tell("one"), look,
		tell("two"), look, tell("two"), look, answer(1, "that"), taken, tell("two"), look)
	if p.err != nil {
		t.Fatal(p.err)
	}
	if want := "one 0|||two 1|two 1|"; strings.Join(open, "|") != want {
		t.Errorf("open are %q, want %q", strings.Join(open, "|"), want)
	}
	for _, err := range answers {
		if err != nil {
			t.Errorf("an answer gives %v", err)
		}
	}
}
