package dialects

import (
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"

	"weft/activities/contract"
	"weft/tests/harness"
)

// TestLateAnswer refuses an answer that comes behind its time, and says so.
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
		t.Errorf("the Update gives %v", late)
	}
	if len(p.Status.RejectionReasons) != 1 || !strings.Contains(p.Status.RejectionReasons[0], want) {
		t.Errorf("the signal gives %q", p.Status.RejectionReasons)
	}
	if p.Err != nil || len(p.Status.Answered) != 2 || !p.Status.Answered[0].Expired {
		t.Errorf("%+v, %v; answered: %+v", p.Result, p.Err, p.Status.Answered)
	}
}

// TestAnswerUnderCheck takes an answer by signal that came in time, though looking at it takes longer.
func TestAnswerUnderCheck(t *testing.T) {
	p := harness.TestRun{Document: harness.OneNode(harness.ClientTools), Script: `rules: [{turn: 1, call: [{tool: look_up}]}, {contains: found, say: taken}, {say: nothing}]`,
		SetInput: func(in *contract.RunInput) { in.DataConnections = harness.ClientConnection("look_up", 300) },
		Wrap: atTimes(map[time.Duration]func(*testsuite.TestWorkflowEnvironment){
			299500 * time.Millisecond: func(env *testsuite.TestWorkflowEnvironment) {
				env.SignalWorkflow(contract.RequestToolResult, map[string]any{"id": openRequest(t, env).ID, "result": "found"})
			},
		})}.Execute(t)
	if p.Err != nil || *p.Result.ResultText != "taken" || p.Status.Rejected != 0 {
		t.Errorf("%+v, %v; refused: %q", p.Result, p.Err, p.Status.RejectionReasons)
	}
}
