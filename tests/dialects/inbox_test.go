package dialects

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/workflows/plan"
	"weft/workflows/runtime"
)

// later runs steps at moments of a run. The check of an answer takes two seconds, in
// which virtual time does not hurry: tests that use it are not parallel.
func later(at map[time.Duration]func(env *testsuite.TestWorkflowEnvironment)) func(worker.ActivityRegistry) worker.ActivityRegistry {
	return func(r worker.ActivityRegistry) worker.ActivityRegistry {
		env := r.(*testsuite.TestWorkflowEnvironment)
		for when, step := range at {
			harness.AtTime(env, when, func() { step(env) })
		}
		return slowCheck{env}
	}
}

// slowCheck is a worker that checks answers slowly.
type slowCheck struct {
	*testsuite.TestWorkflowEnvironment
}

// RegisterActivityWithOptions puts a slow check in the place of the real one.
func (s slowCheck) RegisterActivityWithOptions(fn any, o activity.RegisterOptions) {
	if o.Name == contract.ActivityValidateAnswer {
		fn = func(ctx context.Context, _ contract.ValidateAnswerInput) (*contract.ValidateAnswerResult, error) {
			select {
			case <-time.After(2 * time.Second):
				return &contract.ValidateAnswerResult{}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
	s.TestWorkflowEnvironment.RegisterActivityWithOptions(fn, o)
}

// ask sends an Update to a run and keeps what it gives.
func ask(env *testsuite.TestWorkflowEnvironment, name string, answer any, out *error) {
	env.UpdateWorkflow(name, "", &testsuite.TestUpdateCallback{OnAccept: func() {}, OnReject: func(err error) { *out = err },
		OnComplete: func(_ any, err error) { *out = err }}, answer)
}

// openOf is the only open request of a run.
func openOf(t *testing.T, env *testsuite.TestWorkflowEnvironment) contract.Request {
	t.Helper()
	var s contract.Status
	harness.Query(t, env, contract.QueryStatus, &s)
	if len(s.Requests) != 1 {
		t.Fatalf("open: %+v", s.Requests)
	}
	return s.Requests[0]
}

// longResult is longer than what is checked in a workflow task.
var longResult = strings.Repeat("a", runtime.LocalBytes)

// TestMessageAtTheEnd reports a message as unread that came while the run waited for
// the check of a late answer.
func TestMessageAtTheEnd(t *testing.T) {
	var late, message error
	p := harness.TestRun{Document: harness.OneNode(harness.ClientTools), Script: `rules: [{turn: 1, call: [{tool: look_up}]}, {say: done}]`,
		SetInput: func(in *contract.RunInput) { in.DataConnections = harness.ClientConnection("look_up", 300) },
		Wrap: later(map[time.Duration]func(*testsuite.TestWorkflowEnvironment){
			299500 * time.Millisecond: func(env *testsuite.TestWorkflowEnvironment) {
				ask(env, "tool_result", map[string]any{"id": openOf(t, env).ID, "result": longResult}, &late)
			},
			300800 * time.Millisecond: func(env *testsuite.TestWorkflowEnvironment) {
				ask(env, "message", map[string]any{"text": "wait"}, &message)
			},
		})}.Execute(t)
	if p.Err != nil || message != nil || len(p.Result.UnreadMessages) != 1 || p.Result.UnreadMessages[0].Text != "wait" {
		t.Errorf("%+v, %v, message %v", p.Result, p.Err, message)
	}
	if late == nil {
		t.Error("an answer that came too late was taken")
	}
}

// TestCancelBeforeContinueAsNew cancels a run that waits for a check before it continues as
// new.
func TestCancelBeforeContinueAsNew(t *testing.T) {
	var late error
	p := harness.TestRun{Document: harness.OneNode(harness.ClientTools), Script: `rules: [{turn: 1, call: [{tool: look_up}]}, {say: done}]`,
		SetInput: func(in *contract.RunInput) { in.DataConnections = harness.ClientConnection("look_up", 0) },
		Wrap: later(map[time.Duration]func(*testsuite.TestWorkflowEnvironment){
			300 * time.Second: func(env *testsuite.TestWorkflowEnvironment) {
				ask(env, "tool_result", map[string]any{"id": openOf(t, env).ID, "result": longResult}, &late)
			},
			300500 * time.Millisecond: func(env *testsuite.TestWorkflowEnvironment) { env.SignalWorkflow(contract.SignalYield, nil) },
			301 * time.Second:         func(env *testsuite.TestWorkflowEnvironment) { env.CancelWorkflow() },
		})}.Execute(t)
	if err := p.Env.GetWorkflowError(); workflow.IsContinueAsNewError(err) || !contract.Cancelled(err) {
		t.Errorf("the run ends with %v", err)
	}
}

// TestLargeTimeout takes a limit that is longer than a time can say for a long one.
func TestLargeTimeout(t *testing.T) {
	f := harness.AskFlow()
	f.Nodes, f.Edges = f.Nodes[:1], []plan.Edge{f.Edges[0], {ID: "e2", From: "ask", To: plan.End}}
	f.Nodes[0].Ask.Timeout, f.Nodes[0].Exit = 1<<40, true
	var answered error
	p := harness.TestRun{SetInput: func(in *contract.RunInput) { in.Flow = contract.FlowRef{Plan: f} },
		Wrap: later(map[time.Duration]func(*testsuite.TestWorkflowEnvironment){
			300 * time.Second: func(env *testsuite.TestWorkflowEnvironment) {
				ask(env, "message", map[string]any{"id": openOf(t, env).ID, "text": "blue"}, &answered)
			},
		})}.Execute(t)
	if p.Err != nil || answered != nil || *p.Result.ResultText != "blue" {
		t.Errorf("%+v, %v, %v", p.Result, p.Err, answered)
	}
}

// TestStatusOfManyRequests shows a run that waits for more than one answer of a query holds.
func TestStatusOfManyRequests(t *testing.T) {
	branches := []string{"b1", "b2", "b3"}
	f := harness.FanIn("many", branches...)
	for i := range f.Nodes {
		if f.Nodes[i].ID != "join" {
			f.Nodes[i].Agent.Tools = []plan.Tool{{Name: "look_up", As: "look_up", Connection: "web"}}
			f.Nodes[i].Agent.MaxCalls = 200
		}
	}
	call := `{tool: look_up, arguments: {q: ` + strings.Repeat("x", 15<<10) + `}}`
	calls := strings.Repeat(call+",", 99) + call
	var s contract.Status
	tries := 0
	var look func(env *testsuite.TestWorkflowEnvironment)
	// Virtual time does not wait for branches that are at work: one looks until they have asked.
	look = func(env *testsuite.TestWorkflowEnvironment) {
		s = contract.Status{}
		harness.Query(t, env, contract.QueryStatus, &s)
		if tries++; len(s.Requests)+s.MoreRequests < 300 && tries < 5000 {
			time.Sleep(10 * time.Millisecond)
			env.RegisterDelayedCallback(func() { look(env) }, 100*time.Millisecond)
		}
	}
	harness.TestRun{Script: `rules: [{turn: 1, node: join, say: done}, {turn: 1, call: [` + calls + `]}, {say: done}]`,
		SetInput: func(in *contract.RunInput) {
			in.Flow, in.DataConnections = contract.FlowRef{Plan: f}, harness.ClientConnection("look_up", 3600)
		},
		Wrap: later(map[time.Duration]func(*testsuite.TestWorkflowEnvironment){time.Minute: look})}.Execute(t)
	if len(s.Requests) < 30 || len(s.Requests)+s.MoreRequests != 300 {
		t.Errorf("%d requests and %d more", len(s.Requests), s.MoreRequests)
	}
	size := len(harness.EncodeJSON(t, s))
	if size > 1900<<10 {
		t.Errorf("the status has %d bytes", size)
	}
}
