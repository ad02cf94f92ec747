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

// atTimes runs steps at times of a run. Validating an answer takes two seconds of real
// time, in which virtual time does not skip ahead: tests that use it are not parallel.
func atTimes(at map[time.Duration]func(env *testsuite.TestWorkflowEnvironment)) func(worker.ActivityRegistry) worker.ActivityRegistry {
	return func(r worker.ActivityRegistry) worker.ActivityRegistry {
		env := r.(*testsuite.TestWorkflowEnvironment)
		for when, step := range at {
			harness.AtTime(env, when, func() { step(env) })
		}
		return slowCheck{env}
	}
}

// slowCheck is an environment in which validating an answer takes two seconds.
type slowCheck struct {
	*testsuite.TestWorkflowEnvironment
}

// RegisterActivityWithOptions replaces the activity that validates answers.
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

// sendUpdate sends an Update to a run and stores its error in out.
func sendUpdate(env *testsuite.TestWorkflowEnvironment, name string, answer any, out *error) {
	env.UpdateWorkflow(name, "", &testsuite.TestUpdateCallback{OnAccept: func() {}, OnReject: func(err error) { *out = err },
		OnComplete: func(_ any, err error) { *out = err }}, answer)
}

// openRequest returns the only open request of a run.
func openRequest(t *testing.T, env *testsuite.TestWorkflowEnvironment) contract.Request {
	t.Helper()
	var s contract.Status
	harness.Query(t, env, contract.QueryStatus, &s)
	if len(s.Requests) != 1 {
		t.Fatalf("open requests = %+v, want one", s.Requests)
	}
	return s.Requests[0]
}

// longResult is too long to be validated in a workflow task.
var longResult = strings.Repeat("a", runtime.LocalBytes)

// TestMessageAtTheEnd checks that a message is reported as unread if it arrives while the
// run waits for the validation of a late answer.
func TestMessageAtTheEnd(t *testing.T) {
	var late, message error
	p := harness.TestRun{Document: harness.OneNode(harness.ClientTools), Script: `rules: [{turn: 1, call: [{tool: look_up}]}, {say: done}]`,
		SetInput: func(in *contract.RunInput) { in.DataConnections = harness.ClientConnection("look_up", 300) },
		Wrap: atTimes(map[time.Duration]func(*testsuite.TestWorkflowEnvironment){
			299500 * time.Millisecond: func(env *testsuite.TestWorkflowEnvironment) {
				sendUpdate(env, "tool_result", map[string]any{"id": openRequest(t, env).ID, "result": longResult}, &late)
			},
			300800 * time.Millisecond: func(env *testsuite.TestWorkflowEnvironment) {
				sendUpdate(env, "message", map[string]any{"text": "wait"}, &message)
			},
		})}.Execute(t)
	if p.Err != nil || message != nil || len(p.Result.UnreadMessages) != 1 || p.Result.UnreadMessages[0].Text != "wait" {
		t.Errorf("result = %+v, %v; message: %v", p.Result, p.Err, message)
	}
	if late == nil {
		t.Error("a late answer was accepted")
	}
}

// TestCancelBeforeContinueAsNew checks that a run can be cancelled while it waits for a
// validation before it continues as new.
func TestCancelBeforeContinueAsNew(t *testing.T) {
	var late error
	p := harness.TestRun{Document: harness.OneNode(harness.ClientTools), Script: `rules: [{turn: 1, call: [{tool: look_up}]}, {say: done}]`,
		SetInput: func(in *contract.RunInput) { in.DataConnections = harness.ClientConnection("look_up", 0) },
		Wrap: atTimes(map[time.Duration]func(*testsuite.TestWorkflowEnvironment){
			300 * time.Second: func(env *testsuite.TestWorkflowEnvironment) {
				sendUpdate(env, "tool_result", map[string]any{"id": openRequest(t, env).ID, "result": longResult}, &late)
			},
			300500 * time.Millisecond: func(env *testsuite.TestWorkflowEnvironment) { env.SignalWorkflow(contract.SignalYield, nil) },
			301 * time.Second:         func(env *testsuite.TestWorkflowEnvironment) { env.CancelWorkflow() },
		})}.Execute(t)
	if err := p.Env.GetWorkflowError(); workflow.IsContinueAsNewError(err) || !contract.Cancelled(err) {
		t.Errorf("run ended with %v, want a cancellation", err)
	}
}

// TestLargeTimeout checks that a timeout which overflows time.Duration is treated as a long one.
func TestLargeTimeout(t *testing.T) {
	f := harness.AskFlow()
	f.Nodes, f.Edges = f.Nodes[:1], []plan.Edge{f.Edges[0], {ID: "e2", From: "ask", To: plan.End}}
	f.Nodes[0].Ask.Timeout, f.Nodes[0].Exit = 1<<40, true
	var answered error
	p := harness.TestRun{SetInput: func(in *contract.RunInput) { in.Flow = contract.FlowRef{Plan: f} },
		Wrap: atTimes(map[time.Duration]func(*testsuite.TestWorkflowEnvironment){
			300 * time.Second: func(env *testsuite.TestWorkflowEnvironment) {
				sendUpdate(env, "message", map[string]any{"id": openRequest(t, env).ID, "text": "blue"}, &answered)
			},
		})}.Execute(t)
	if p.Err != nil || answered != nil || *p.Result.ResultText != "blue" {
		t.Errorf("result = %+v, %v; answer: %v", p.Result, p.Err, answered)
	}
}

// TestStatusOfManyRequests checks that the status counts open requests which would exceed the size limit of a query result.
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
	polls := 0
	var poll func(env *testsuite.TestWorkflowEnvironment)
	// Virtual time does not wait for running branches, so poll until all requests are open.
	poll = func(env *testsuite.TestWorkflowEnvironment) {
		s = contract.Status{}
		harness.Query(t, env, contract.QueryStatus, &s)
		if polls++; len(s.Requests)+s.MoreRequests < 300 && polls < 5000 {
			time.Sleep(10 * time.Millisecond)
			env.RegisterDelayedCallback(func() { poll(env) }, 100*time.Millisecond)
		}
	}
	harness.TestRun{Script: `rules: [{turn: 1, node: join, say: done}, {turn: 1, call: [` + calls + `]}, {say: done}]`,
		SetInput: func(in *contract.RunInput) {
			in.Flow, in.DataConnections = contract.FlowRef{Plan: f}, harness.ClientConnection("look_up", 3600)
		},
		Wrap: atTimes(map[time.Duration]func(*testsuite.TestWorkflowEnvironment){time.Minute: poll})}.Execute(t)
	if len(s.Requests) < 30 || len(s.Requests)+s.MoreRequests != 300 {
		t.Errorf("status has %d requests and %d more, want 300 in total", len(s.Requests), s.MoreRequests)
	}
	size := len(harness.EncodeJSON(t, s))
	if size > 1900<<10 {
		t.Errorf("status has %d bytes", size)
	}
}
