package dialects

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/testsuite"

	"weft/activities/contract"
	"weft/tests/harness"
)

// TestRepeatedRequests checks that a request that a child announces repeatedly is listed once, is not listed
// again after its answer, and is listed as reopened if the child was reset.
func TestRepeatedRequests(t *testing.T) {
	t.Parallel()
	const child = "default-test-workflow-id/b#1"
	var answers [2]error
	var open []string
	announce := func(run string) func(harness.Outcome) {
		return func(p harness.Outcome) {
			p.Env.SignalWorkflow(contract.SignalRequest, contract.Request{ID: "b#1/ask-1", Kind: contract.RequestMessage, Text: "Which?",
				Run: contract.Run{Workflow: child, Run: run}})
		}
	}
	poll := func(p harness.Outcome) {
		var s contract.Status
		harness.Query(t, p.Env, contract.QueryStatus, &s)
		seen := ""
		for _, q := range s.Requests {
			if q.ID == "b#1/ask-1" {
				seen += fmt.Sprintf("%s %d", q.Run.Run, q.Reopened)
			}
		}
		open = append(open, seen)
	}
	answer := func(n int, text string) func(harness.Outcome) {
		return func(p harness.Outcome) {
			sendUpdate(p.Env, contract.RequestMessage, contract.MessageAnswer{ID: "b#1/ask-1", Text: text}, &answers[n])
		}
	}
	closeRequest := func(p harness.Outcome) {
		p.Env.SignalWorkflow(contract.SignalCloseRequest, contract.RequestID{ID: "b#1/ask-1"})
	}
	r := harness.TestRun{Document: harness.OneNode(harness.ClientTools), Script: `rules: [{turn: 1, call: [{tool: look_up}]}, {say: done}]`,
		SetInput: func(in *contract.RunInput) { in.DataConnections = harness.ClientConnection("look_up", 100*3600) },
		Prepare: func(env *testsuite.TestWorkflowEnvironment) {
			env.OnSignalExternalWorkflow(mock.Anything, child, mock.Anything, contract.SignalReply, mock.Anything).Return(nil)
		}}
	p := playSteps(t, r, announce("one"), announce("one"), poll, answer(0, "this"), announce("one"), poll, closeRequest, announce("one"), poll,
		announce("two"), poll, announce("two"), poll, answer(1, "that"), closeRequest, announce("two"), poll)
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	if want := "one 0|||two 1|two 1|"; strings.Join(open, "|") != want {
		t.Errorf("open requests = %q, want %q", strings.Join(open, "|"), want)
	}
	for _, err := range answers {
		if err != nil {
			t.Errorf("answer failed with %v", err)
		}
	}
}
