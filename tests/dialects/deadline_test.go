package dialects

import (
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"

	"weft/activities/contract"
	"weft/tests/harness"
)

// TestLateAnswer checks that an answer after the request's timeout is rejected, by Update and by signal.
func TestLateAnswer(t *testing.T) {
	var id string
	var late error
	p := harness.TestRun{Document: harness.OneNode(harness.ClientTools),
		Script:   `rules: [{turn: 1, call: [{tool: look_up}]}, {turn: 2, call: [{tool: look_up, arguments: {q: 2}}]}, {say: done}]`,
		SetInput: func(in *contract.RunInput) { in.DataConnections = harness.ClientConnection("look_up", 300) },
		Wrap: atTimes(map[time.Duration]func(*testsuite.TestWorkflowEnvironment){
			299 * time.Second: func(env *testsuite.TestWorkflowEnvironment) { id = openRequest(t, env).ID },
			400 * time.Second: func(env *testsuite.TestWorkflowEnvironment) {
				sendUpdate(env, contract.RequestToolResult, map[string]any{"id": id, "result": 1}, &late)
				env.SignalWorkflow(contract.RequestToolResult, map[string]any{"id": id, "result": 1})
			},
		})}.Execute(t)
	const want = "had no answer in time"
	if harness.ErrorType(late) != contract.ClassAlreadyAnswered || !strings.Contains(late.Error(), want) {
		t.Errorf("late Update failed with %v, want %q", late, want)
	}
	if len(p.Status.RejectionReasons) != 1 || !strings.Contains(p.Status.RejectionReasons[0], want) {
		t.Errorf("rejection reasons = %q, want %q", p.Status.RejectionReasons, want)
	}
	if p.Err != nil || len(p.Status.Answered) != 2 || !p.Status.Answered[0].Expired {
		t.Errorf("result = %+v, %v; answered: %+v", p.Result, p.Err, p.Status.Answered)
	}
}

// TestAnswerValidatedAfterTimeout checks that an answer by signal is accepted if it arrives in time but its validation ends later.
func TestAnswerValidatedAfterTimeout(t *testing.T) {
	p := harness.TestRun{Document: harness.OneNode(harness.ClientTools), Script: `rules: [{turn: 1, call: [{tool: look_up}]}, {contains: found, say: taken}, {say: nothing}]`,
		SetInput: func(in *contract.RunInput) { in.DataConnections = harness.ClientConnection("look_up", 300) },
		Wrap: atTimes(map[time.Duration]func(*testsuite.TestWorkflowEnvironment){
			299500 * time.Millisecond: func(env *testsuite.TestWorkflowEnvironment) {
				env.SignalWorkflow(contract.RequestToolResult, map[string]any{"id": openRequest(t, env).ID, "result": "found"})
			},
		})}.Execute(t)
	if p.Err != nil || *p.Result.ResultText != "taken" || p.Status.Rejected != 0 {
		t.Errorf("result = %+v, %v; rejected: %q", p.Result, p.Err, p.Status.RejectionReasons)
	}
}
