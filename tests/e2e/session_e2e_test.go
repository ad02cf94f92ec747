package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"weft/activities/contract"
	"weft/tests/harness"
)

// bossScript makes the boss start one helper and wait for it, and another that calls back.
const bossScript = `rules:
- {node: helper, match: ^more$, say: "more help"}
- {node: helper, delay: 200ms, say: "help"}
- {node: boss, turn: 1, call: [{tool: start_agent_session, arguments: {agent_name: helper, parameters: {prompt: now}}}]}
- {node: boss, turn: 2, call: [{tool: start_agent_session, arguments: {agent_name: helper, mode: async_callback, parameters: {prompt: later}}}]}
- {node: boss, turn: 3, say: "asked"}
- {node: boss, turn: 4, say: "called back"}
- {node: boss, turn: 5, say: "second"}
- {node: boss, turn: 6, say: "third"}`

// TestEndToEndSession runs a session with turns, a child whose result it waits for and one that calls back, once in a
// single run and once continuing as new wherever possible.
func TestEndToEndSession(t *testing.T) {
	t.Parallel()
	for _, maxEvents := range []int{0, 1} {
		t.Run(fmt.Sprintf("max events %d", maxEvents), func(t *testing.T) {
			t.Parallel()
			h := harness.NewWorker(t, 0)
			run := h.StartSession(t, harness.Orchestrator(), bossScript, maxEvents)
			turns := h.WaitForTurns(t, run.GetID(), 2)
			if len(turns) != 2 || *turns[0].ResultText != "asked" || *turns[1].ResultText != "called back" || len(turns[1].Callbacks) != 1 {
				t.Errorf("turns = %+v", turns)
			}
			second := h.Prompt(t, run.GetID(), "a", "go on")
			again := h.Prompt(t, run.GetID(), "a", "go on")
			third := h.Prompt(t, run.GetID(), "b", "and on")
			if second.N != 3 || *second.ResultText != "second" || again.N != 3 || third.N != 4 || *third.ResultText != "third" {
				t.Errorf("turns = %+v, repeated %+v, %+v", second, again, third)
			}
			status := h.Status(t, run.GetID())
			if status.Status != contract.StatusIdle || len(status.Session.Children) != 2 {
				t.Errorf("session is %s: %+v", status.Status, status.Session)
			}
			// A child is itself a session, to which any client can send prompts.
			child := status.Session.Children[0].ID
			if got := h.Prompt(t, child, "x", "more"); got.ResultText == nil || *got.ResultText != "more help" || got.N != 2 {
				t.Errorf("turn of the child = %+v", got)
			}
			out := h.CloseSession(t, run)
			if out.Status != "stopped" || *out.ResultText != "third" || len(out.Turns) != 4 || out.Usage.Calls != 9 {
				t.Errorf("result = %+v", out)
			}
			if n := harness.RunCount(t, h.Client, run); (n > 1) != (maxEvents == 1) {
				t.Errorf("session has %d runs", n)
			}
			d, err := h.Client.DescribeWorkflowExecution(context.Background(), child, "")
			if err != nil || d.WorkflowExecutionInfo.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
				t.Errorf("child is still open: %v", err)
			}
		})
	}
}

// TestEndToEndSessionCallbacks has children that fail, are closed and are terminated. It checks that the callbacks of
// those that end during a turn are delivered in one message, in the order in which they ended.
func TestEndToEndSessionCallbacks(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	f := harness.Orchestrator()
	start := func(prompt string) string {
		return `{tool: start_agent_session, arguments: {agent_name: helper, mode: async_callback, parameters: {prompt: ` + prompt + `}}}`
	}
	run := h.StartSession(t, f, `rules:
- {node: helper, match: ^fail$, fail: {class: refused, text: not that}}
- {node: helper, match: ^wait$, delay: 10m, say: late}
- {node: helper, say: "good"}
- {node: boss, turn: 1, call: [`+start("fail")+`, `+start("wait")+`, `+start("wait")+`]}
- {node: boss, turn: 2, say: asked}
- {node: boss, contains: aggregated, say: all here}
- {node: boss, match: ^two$, delay: 10s, say: busy}
- {node: boss, say: heard}`, 0)
	id := run.GetID()
	first := h.WaitForTurns(t, id, 2) // the second is the callback of the child that fails
	if len(first[1].Callbacks) != 1 {
		t.Fatalf("turns = %+v", first)
	}
	done := make(chan error, 1)
	go func() {
		_, err := h.Update(t, id, contract.UpdatePrompt, contract.PromptInput{ID: "two", Prompt: "two"})
		done <- err
	}()
	harness.WaitFor(t, "the session to be busy", func() bool { return h.Status(t, id).Session.Turns == 3 })
	children := h.Status(t, id).Session.Children
	if _, err := h.Update(t, children[2].ID, contract.UpdateCloseSession, map[string]any{}); err != nil {
		t.Fatal(err)
	}
	harness.WaitFor(t, "the callback of the closed child", func() bool { return h.Status(t, id).Session.Callbacks == 1 })
	if err := h.Client.TerminateWorkflow(context.Background(), children[1].ID, "", "lost"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	turns := h.WaitForTurns(t, id, 4)
	if got := strings.Join(turns[3].Callbacks, " "); got != children[2].ID+" "+children[1].ID || *turns[3].ResultText != "all here" {
		t.Errorf("last turn = %+v", turns[3])
	}
	h.CloseSession(t, run)
}

// TestEndToEndSessionWorkerKilled kills the worker after a child has ended its turn, before its callback has been
// delivered to the parent session.
func TestEndToEndSessionWorkerKilled(t *testing.T) {
	t.Parallel()
	h := &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("killed-%d", time.Now().UnixNano())}
	worker := harness.StartWorker(t, harness.ServerAddress(t), "WEFT_TASK_QUEUE="+h.Queue, "WEFT_MODEL=script")
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: harness.Orchestrator()}, Params: json.RawMessage(`{"prompt":"one"}`), Session: true, Script: harness.Script(t, `rules:
- {node: helper, say: "help"}
- {node: boss, turn: 1, call: [{tool: start_agent_session, arguments: {agent_name: helper, mode: async_callback, parameters: {prompt: later}}}]}
- {node: boss, turn: 2, delay: 4s, say: asked}
- {node: boss, contains: "## Child Result\n\nhelp\n", say: called back}`)})
	harness.WaitFor(t, "the child to end its turn", func() bool {
		n := 0
		for _, e := range harness.Events(t, h.Client, run.GetID(), run.GetRunID()) {
			if e.GetWorkflowExecutionSignaledEventAttributes().GetSignalName() == contract.SignalTurn {
				n++
			}
		}
		return n == 2
	})
	_ = worker.Process.Kill()
	_ = worker.Wait()
	harness.StartWorker(t, harness.ServerAddress(t), "WEFT_TASK_QUEUE="+h.Queue, "WEFT_MODEL=script")
	turns := h.WaitForTurns(t, run.GetID(), 2)
	if *turns[0].ResultText != "asked" || *turns[1].ResultText != "called back" {
		t.Errorf("turns = %+v", turns)
	}
	if out := h.CloseSession(t, run); out.Usage.Calls != 4 {
		t.Errorf("%d model calls, want 4", out.Usage.Calls)
	}
}

// TestEndToEndRecordSession records a session with two turns and a callback.
func TestEndToEndRecordSession(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	run := h.StartSession(t, harness.Orchestrator(), bossScript, 0)
	h.WaitForTurns(t, run.GetID(), 2)
	h.Prompt(t, run.GetID(), "a", "go on")
	h.CloseSession(t, run)
	harness.Record(t, h.Client, "session", run.GetID(), run.GetRunID())
}

// TestEndToEndSessionTooLarge has a child session whose conversation is too large to continue as new. It checks that
// the child fails, and that the parent is notified instead of waiting forever.
func TestEndToEndSessionTooLarge(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	run := h.StartSession(t, harness.Orchestrator(), `rules:
- {node: helper, say: "`+strings.Repeat("x", 1500<<10)+`"}
- {node: boss, turn: 1, call: [{tool: start_agent_session, arguments: {agent_name: helper, mode: async_poll, parameters: {prompt: now}}}]}
- {node: boss, turn: 2, say: "asked"}
- {node: boss, match: and, call: [{tool: list_agent_sessions}]}
- {node: boss, say: "seen"}`, 1)
	h.WaitForTurns(t, run.GetID(), 1)
	harness.WaitFor(t, "the child to fail", func() bool {
		s := h.Status(t, run.GetID())
		return s.Session != nil && len(s.Session.Children) == 1 && s.Session.Children[0].Status == contract.TurnFailed
	})
	if got := h.Status(t, run.GetID()).Session.Children[0].Problem; !strings.HasPrefix(got, "state_too_large: the parent session continues as new") {
		t.Errorf("problem of the child = %q", got)
	}
	if second := h.Prompt(t, run.GetID(), "a", "and"); second.ResultText == nil || *second.ResultText != "seen" {
		t.Errorf("second turn = %+v", second)
	}
	h.CloseSession(t, run)
}
