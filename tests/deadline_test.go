package tests

import (
	"fmt"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/testsuite"

	"weft/activities/contract"
)

// TestEndToEndAnsweredWhileAway answers a question by signal in time, while no worker is there to take
// the answer; when one is back the time is over.
func TestEndToEndAnsweredWhileAway(t *testing.T) {
	answers := map[string]func(q *contract.Request) map[string]any{
		"by id":    func(q *contract.Request) map[string]any { return map[string]any{"id": q.ID, "text": "red"} },
		"the next": func(*contract.Request) map[string]any { return map[string]any{"text": "red"} },
	}
	for name, answer := range answers {
		for _, events := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s, max events %d", name, events), func(t *testing.T) {
				for limit := 4; !answeredInTime(t, limit, events, answer); limit *= 2 {
					t.Logf("%d seconds are too short for this machine", limit)
				}
			})
		}
	}
}

// answeredInTime gives false where the time was over before the answer was given.
func answeredInTime(t *testing.T, limit, events int, answer func(*contract.Request) map[string]any) bool {
	h := newHand(t, 0)
	f := asking()
	f.Nodes[0].Ask.LimitSeconds = limit
	run := h.start(t, contract.RunInput{Flow: contract.FlowRef{Plan: f}, MaxEvents: events, Script: script(t, `rules: [{contains: red, say: painted}]`)})
	id := run.GetID()
	var open []contract.Request
	waitFor(t, "the question, or its end", func() bool {
		s := h.status(t, id)
		open = s.Requests
		return len(open)+len(s.Answered) > 0
	})
	if len(open) == 0 {
		return false
	}
	h.worker.Stop()
	if h.fired(t, id) {
		return false
	}
	h.signal(t, id, contract.RequestMessage, answer(&open[0]))
	waitFor(t, "the time to be over", func() bool { return h.fired(t, id) })
	h.worker = work(t, h.client, h.queue, 0, nil)
	defer h.worker.Stop()
	out, err := resultOf(t, run)
	if err != nil || *out.ResultText != "painted" {
		t.Errorf("%+v, %v; the run's status is %+v", out, err, h.status(t, id))
	}
	return true
}

// fired says whether a timer of a run's latest one has.
func (h *hand) fired(t *testing.T, id string) bool {
	t.Helper()
	for _, e := range events(t, h.client, id, "") {
		if e.EventType == enumspb.EVENT_TYPE_TIMER_FIRED {
			return true
		}
	}
	return false
}

// TestAnsweredTooLate refuses an answer that comes behind its time, and says so.
func TestAnsweredTooLate(t *testing.T) {
	var id string
	var late error
	p := rehearsal{doc: oneNode(clientNode),
		script: `rules: [{turn: 1, call: [{tool: look_up}]}, {turn: 2, call: [{tool: look_up, arguments: {q: 2}}]}, {say: done}]`,
		set:    func(in *contract.RunInput) { in.DataConnections = clientTool("look_up", 300) },
		wrap: later(map[time.Duration]func(*testsuite.TestWorkflowEnvironment){
			299 * time.Second: func(env *testsuite.TestWorkflowEnvironment) { id = openOf(t, env).ID },
			400 * time.Second: func(env *testsuite.TestWorkflowEnvironment) {
				ask(env, contract.RequestToolResult, map[string]any{"id": id, "result": 1}, &late)
				env.SignalWorkflow(contract.RequestToolResult, map[string]any{"id": id, "result": 1})
			},
		})}.play(t)
	const want = "had no answer in time"
	if classOf(late) != contract.ClassAlreadyAnswered || !strings.Contains(late.Error(), want) {
		t.Errorf("the Update gives %v", late)
	}
	if len(p.status.Rejects) != 1 || !strings.Contains(p.status.Rejects[0], want) {
		t.Errorf("the signal gives %q", p.status.Rejects)
	}
	if p.err != nil || len(p.status.Answered) != 2 || !p.status.Answered[0].Expired {
		t.Errorf("%+v, %v; answered: %+v", p.result, p.err, p.status.Answered)
	}
}

// TestAnswerUnderCheck takes an answer by signal that came in time, though looking at it takes longer.
func TestAnswerUnderCheck(t *testing.T) {
	p := rehearsal{doc: oneNode(clientNode), script: `rules: [{turn: 1, call: [{tool: look_up}]}, {contains: found, say: taken}, {say: nothing}]`,
		set: func(in *contract.RunInput) { in.DataConnections = clientTool("look_up", 300) },
		wrap: later(map[time.Duration]func(*testsuite.TestWorkflowEnvironment){
			299500 * time.Millisecond: func(env *testsuite.TestWorkflowEnvironment) {
				env.SignalWorkflow(contract.RequestToolResult, map[string]any{"id": openOf(t, env).ID, "result": "found"})
			},
		})}.play(t)
	if p.err != nil || *p.result.ResultText != "taken" || p.status.Rejected != 0 {
		t.Errorf("%+v, %v; refused: %q", p.result, p.err, p.status.Rejects)
	}
}
