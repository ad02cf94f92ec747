package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// session starts a session of an agent with the prompt "one".
func (h *hand) session(t *testing.T, f *plan.Flow, text string, maxEvents int) client.WorkflowRun {
	t.Helper()
	return h.start(t, contract.RunInput{Flow: contract.FlowRef{Plan: f}, Params: json.RawMessage(`{"prompt":"one"}`), Session: true,
		Script: script(t, text), MaxEvents: maxEvents})
}

// resume gives a session a prompt and waits for its turn, as long as it takes: where the
// session continues as new, the same prompt is asked about again.
func (h *hand) resume(t *testing.T, id, key, prompt string, images ...contract.Image) contract.Turn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		u, err := h.client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: id, UpdateName: contract.UpdateResume,
			Args: []any{contract.ResumeInput{ID: key, Prompt: prompt, Images: images}}, WaitForStage: client.WorkflowUpdateStageCompleted})
		var out contract.Turn
		if err == nil {
			err = u.Get(ctx, &out)
		}
		var between *serviceerror.NotFound
		if errors.As(err, &between) {
			// The session above goes on in a new run, and this one with it.
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if err != nil {
			t.Fatalf("resume %s: %v", key, err)
		}
		if out.Done() {
			return out
		}
	}
	t.Fatalf("the turn %s did not end", key)
	return contract.Turn{}
}

// turns waits until a session has so many turns that have ended.
func (h *hand) turns(t *testing.T, id string, n int) []contract.Turn {
	t.Helper()
	var out []contract.Turn
	waitFor(t, fmt.Sprintf("%d turns of %s", n, id), func() bool {
		v, err := h.client.QueryWorkflow(context.Background(), id, "", contract.QueryTurns)
		out = nil
		return err == nil && v.Get(&out) == nil && len(out) >= n && out[len(out)-1].Done()
	})
	return out
}

func (h *hand) halt(t *testing.T, run client.WorkflowRun) *contract.RunResult {
	t.Helper()
	if _, err := h.update(t, run.GetID(), contract.UpdateStop, map[string]any{"reason": "enough"}); err != nil {
		t.Fatal(err)
	}
	out, err := resultOf(t, run)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// bossScript has the boss ask a helper at once, and another to call back.
const bossScript = `rules:
- {node: helper, match: ^more$, say: "more help"}
- {node: helper, delay: 200ms, say: "help"}
- {node: boss, turn: 1, call: [{tool: start_agent_session, arguments: {agent_name: helper, parameters: {prompt: now}}}]}
- {node: boss, turn: 2, call: [{tool: start_agent_session, arguments: {agent_name: helper, mode: async_callback, parameters: {prompt: later}}}]}
- {node: boss, turn: 3, say: "asked"}
- {node: boss, turn: 4, say: "called back"}
- {node: boss, turn: 5, say: "second"}
- {node: boss, turn: 6, say: "third"}`

// TestEndToEndSession holds a session with turns, a child that is waited for and one that
// calls back, once in one history and once continuing as new wherever that is possible.
func TestEndToEndSession(t *testing.T) {
	for _, maxEvents := range []int{0, 1} {
		t.Run(fmt.Sprintf("max events %d", maxEvents), func(t *testing.T) {
			t.Parallel()
			h := newHand(t, 0)
			run := h.session(t, orchestrator(), bossScript, maxEvents)
			turns := h.turns(t, run.GetID(), 2)
			if len(turns) != 2 || *turns[0].ResultText != "asked" || *turns[1].ResultText != "called back" || len(turns[1].Callbacks) != 1 {
				t.Errorf("the turns are %+v", turns)
			}
			second := h.resume(t, run.GetID(), "a", "go on")
			again := h.resume(t, run.GetID(), "a", "go on")
			third := h.resume(t, run.GetID(), "b", "and on")
			if second.N != 3 || *second.ResultText != "second" || again.N != 3 || third.N != 4 || *third.ResultText != "third" {
				t.Errorf("resumed: %+v, again %+v, %+v", second, again, third)
			}
			status := h.status(t, run.GetID())
			if status.Status != contract.StatusIdle || len(status.Session.Children) != 2 {
				t.Errorf("the session is %s: %+v", status.Status, status.Session)
			}
			// A child is a session of its own that anybody may give a prompt.
			child := status.Session.Children[0].ID
			if got := h.resume(t, child, "x", "more"); got.ResultText == nil || *got.ResultText != "more help" || got.N != 2 {
				t.Errorf("the child's turn is %+v", got)
			}
			out := h.halt(t, run)
			if out.Status != "stopped" || *out.ResultText != "third" || len(out.Turns) != 4 || out.Usage.Calls != 9 {
				t.Errorf("the result is %+v", out)
			}
			if n := runsOf(t, h.client, run); (n > 1) != (maxEvents == 1) {
				t.Errorf("the session took %d runs", n)
			}
			d, err := h.client.DescribeWorkflowExecution(context.Background(), child, "")
			if err != nil || d.WorkflowExecutionInfo.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
				t.Errorf("the child is still there: %v", err)
			}
		})
	}
}

// TestEndToEndSessionCallbacks has children that fail, are stopped and are terminated while
// the session is busy: all are told in one message, in the order in which they ended.
func TestEndToEndSessionCallbacks(t *testing.T) {
	h := newHand(t, 0)
	f := orchestrator()
	start := func(prompt string) string {
		return `{tool: start_agent_session, arguments: {agent_name: helper, mode: async_callback, parameters: {prompt: ` + prompt + `}}}`
	}
	run := h.session(t, f, `rules:
- {node: helper, match: ^fail$, fail: {class: refused, text: not that}}
- {node: helper, match: ^wait$, delay: 10m, say: late}
- {node: helper, say: "good"}
- {node: boss, turn: 1, call: [`+start("fail")+`, `+start("wait")+`, `+start("wait")+`]}
- {node: boss, turn: 2, say: asked}
- {node: boss, contains: aggregated, say: all here}
- {node: boss, match: ^two$, delay: 3s, say: busy}
- {node: boss, say: heard}`, 0)
	id := run.GetID()
	first := h.turns(t, id, 2) // the one that fails calls back at once
	if len(first[1].Callbacks) != 1 {
		t.Fatalf("the turns are %+v", first)
	}
	done := make(chan contract.Turn)
	go func() { done <- h.resume(t, id, "two", "two") }()
	waitFor(t, "the session to be busy", func() bool { return h.status(t, id).Session.Turns == 3 })
	children := h.status(t, id).Session.Children
	if _, err := h.update(t, children[2].ID, contract.UpdateStop, map[string]any{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the stop to arrive", func() bool { return h.status(t, id).Session.Callbacks == 1 })
	if err := h.client.TerminateWorkflow(context.Background(), children[1].ID, "", "lost"); err != nil {
		t.Fatal(err)
	}
	<-done
	turns := h.turns(t, id, 4)
	if got := strings.Join(turns[3].Callbacks, " "); got != children[2].ID+" "+children[1].ID || *turns[3].ResultText != "all here" {
		t.Errorf("the last turn is %+v", turns[3])
	}
	h.halt(t, run)
}

// TestEndToEndSessionWorkerKilled kills the worker when a child has ended and the session
// that started it has not been told in a turn yet.
func TestEndToEndSessionWorkerKilled(t *testing.T) {
	h := &hand{client: dial(t, temporalAddress(t)), queue: fmt.Sprintf("killed-%d", time.Now().UnixNano())}
	worker := startWorker(t, temporalAddress(t), "WEFT_TASK_QUEUE="+h.queue, "WEFT_MODEL=script")
	run := h.start(t, contract.RunInput{Flow: contract.FlowRef{Plan: orchestrator()}, Params: json.RawMessage(`{"prompt":"one"}`), Session: true, Script: script(t, `rules:
- {node: helper, say: "help"}
- {node: boss, turn: 1, call: [{tool: start_agent_session, arguments: {agent_name: helper, mode: async_callback, parameters: {prompt: later}}}]}
- {node: boss, turn: 2, delay: 4s, say: asked}
- {node: boss, contains: "## Child Result\n\nhelp\n", say: called back}`)})
	waitFor(t, "the child to end its turn", func() bool {
		n := 0
		for _, e := range events(t, h.client, run.GetID(), run.GetRunID()) {
			if e.GetWorkflowExecutionSignaledEventAttributes().GetSignalName() == contract.SignalTurn {
				n++
			}
		}
		return n == 2
	})
	_ = worker.Process.Kill()
	_ = worker.Wait()
	startWorker(t, temporalAddress(t), "WEFT_TASK_QUEUE="+h.queue, "WEFT_MODEL=script")
	turns := h.turns(t, run.GetID(), 2)
	if *turns[0].ResultText != "asked" || *turns[1].ResultText != "called back" {
		t.Errorf("the turns are %+v", turns)
	}
	if out := h.halt(t, run); out.Usage.Calls != 4 {
		t.Errorf("%d calls", out.Usage.Calls)
	}
}

// TestEndToEndRecordSession records a session with two turns and a callback.
func TestEndToEndRecordSession(t *testing.T) {
	h := newHand(t, 0)
	run := h.session(t, orchestrator(), bossScript, 0)
	h.turns(t, run.GetID(), 2)
	h.resume(t, run.GetID(), "a", "go on")
	h.halt(t, run)
	save(t, h.client, "session", run.GetID(), run.GetRunID())
}

// TestEndToEndSessionTooHeavy has a session whose child has said too much to go on with it in a
// new run: the child fails, and the session hears of it instead of waiting for ever.
func TestEndToEndSessionTooHeavy(t *testing.T) {
	h := newHand(t, 0)
	run := h.session(t, orchestrator(), `rules:
- {node: helper, say: "`+strings.Repeat("x", 1500<<10)+`"}
- {node: boss, turn: 1, call: [{tool: start_agent_session, arguments: {agent_name: helper, mode: async_poll, parameters: {prompt: now}}}]}
- {node: boss, turn: 2, say: "asked"}
- {node: boss, match: and, call: [{tool: list_agent_sessions}]}
- {node: boss, say: "seen"}`, 1)
	h.turns(t, run.GetID(), 1)
	waitFor(t, "the child's end", func() bool {
		s := h.status(t, run.GetID())
		return s.Session != nil && len(s.Session.Children) == 1 && s.Session.Children[0].Status == contract.TurnFailed
	})
	if got := h.status(t, run.GetID()).Session.Children[0].Problem; !strings.HasPrefix(got, "state_too_large: the session above goes on in a new run") {
		t.Errorf("the child's problem is %q", got)
	}
	if second := h.resume(t, run.GetID(), "a", "and"); second.ResultText == nil || *second.ResultText != "seen" {
		t.Errorf("the second turn is %+v", second)
	}
	h.halt(t, run)
}
