package fork

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/mocks"

	"weft/activities/contract"
	"weft/starter/runs"
	"weft/starter/runtree"
	"weft/worker/config"
	"weft/workflows/plan"
)

// TestForkSession checks that a session can only be forked at the start of its first turn.
func TestForkSession(t *testing.T) {
	tests := map[string]struct {
		step, past, set int
		want            string
	}{
		"at its start":       {step: 1},
		"at a later turn":    {step: 2, want: `is a session, whose sub-sessions cannot be copied to another run at scout#2; fork it at scout#1`},
		"after another node": {step: 1, past: 1, want: "is a session"},
		"with state values":  {step: 1, set: 1, want: "remove it"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := (&forking{run: &runs.Run{ID: "r"}}).wholeTurn(contract.Execution{Node: "scout", Step: tc.step}, tc.past, tc.set)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error = %v, want %q", err, tc.want)
			}
		})
	}
}

// TestForkWithoutWorker checks that a fork fails if no worker answers the query: nodes that make no calls are not in the history.
func TestForkWithoutWorker(t *testing.T) {
	flow := &plan.Flow{Name: "f", Nodes: []plan.Node{{ID: "say"}}}
	root := &runtree.Workflow{ID: "r", RunID: "1", Status: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, Flow: flow, Input: &contract.RunInput{Flow: contract.FlowRef{Plan: flow}}}
	c := &mocks.Client{}
	var left time.Duration
	c.On("QueryWorkflow", mock.Anything, "r", "1", contract.QueryStatus).Run(func(args mock.Arguments) {
		deadline, _ := args.Get(0).(context.Context).Deadline()
		left = time.Until(deadline)
	}).Return(nil, serviceerror.NewDeadlineExceeded("no worker"))
	run := &runs.Run{Connection: &runs.Connection{Temporal: &config.Temporal{Client: c}}, ID: "r", RunID: "1", Status: root.Status}
	_, err := Input(t.Context(), run, &runtree.Tree{Workflows: []*runtree.Workflow{root}}, Options{From: "say"})
	if !runs.Is[*runs.NoAnswerError](err) || left < 50*time.Second {
		t.Errorf("error = %v; time left for the query = %s", err, left)
	}
}
