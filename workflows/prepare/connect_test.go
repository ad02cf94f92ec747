package prepare

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/runtime"
	"weft/workflows/workflowtest"
)

// TestListToolsRetries checks how long listing the tools of an unavailable server is retried: by the connection's retry policy,
// else as long as any call, or only briefly if the run fails on errors instead of waiting for an operator.
func TestListToolsRetries(t *testing.T) {
	tests := map[string]struct {
		retry   *plan.Retry
		onError string
		// up is the attempt that succeeds, 0 if none does.
		up, attempts int
		within       time.Duration
	}{
		"retry policy":                                   {retry: &plan.Retry{Attempts: 2, FirstMillis: 10, Factor: 2, MostMillis: 100}, attempts: 3, within: time.Second},
		"retry policy, on_error fail":                    {retry: &plan.Retry{Attempts: 11, FirstMillis: 10, Factor: 1, MostMillis: 10}, onError: contract.OnErrorFail, attempts: 12, within: time.Second},
		"retry policy without retries":                   {retry: &plan.Retry{Factor: 1}, attempts: 1, within: time.Second},
		"no retry policy":                                {up: 9, attempts: 9, within: time.Hour},
		"no retry policy, on_error fail":                 {onError: contract.OnErrorFail, attempts: listAttempts, within: time.Minute},
		"no retry policy, on_error fail, available soon": {onError: contract.OnErrorFail, up: 4, attempts: 4, within: time.Minute},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			env := workflowtest.Env()
			attempts := 0
			env.RegisterActivityWithOptions(func(context.Context, contract.CatalogueInput) (*contract.CatalogueResult, error) {
				if attempts++; attempts == tc.up {
					return &contract.CatalogueResult{}, nil
				}
				return nil, (&contract.Failure{Class: contract.ClassUnavailable, Text: "connection refused"}).ApplicationError()
			}, activity.RegisterOptions{Name: contract.ActivityListTools})
			var err error
			var took time.Duration
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				p := &Preparation{Run: runtime.New(ctx)}
				p.Run.Shared.OnError = tc.onError
				p.Run.Flow = &plan.Flow{Policy: plan.DefaultPolicy, Connections: []plan.Connection{{ID: "web", Kind: plan.ConnectionMCP, Retry: tc.retry}},
					Nodes: []plan.Node{{ID: "n", Kind: plan.KindTool, Tool: &plan.Tool{Name: "find", As: "find", Connection: "web"}}}}
				began := workflow.Now(ctx)
				err = p.Connect(ctx)
				took = workflow.Now(ctx).Sub(began)
				return nil
			})
			if env.GetWorkflowError() != nil {
				t.Fatal(env.GetWorkflowError())
			}
			if attempts != tc.attempts || took > tc.within || tc.up > 0 != (err == nil) || err != nil && !strings.Contains(err.Error(), "connection refused") {
				t.Errorf("%d attempts in %s, want %d: %v", attempts, took, tc.attempts, err)
			}
		})
	}
}

// TestToolboxOfUndefinedAgent checks the error for a toolbox that connects to an agent that the document does not define.
func TestToolboxOfUndefinedAgent(t *testing.T) {
	env := workflowtest.Env()
	env.RegisterActivityWithOptions(func(_ context.Context, in contract.CatalogueInput) (*contract.CatalogueResult, error) {
		return &contract.CatalogueResult{Resolved: in.Connection}, nil
	}, activity.RegisterOptions{Name: contract.ActivityListTools})
	var err error
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		p := &Preparation{Run: runtime.New(ctx)}
		p.Run.Flow = &plan.Flow{Policy: plan.DefaultPolicy, Connections: []plan.Connection{{ID: "helper", Kind: plan.ConnectionAgent, Agent: "gone"}},
			Nodes: []plan.Node{{ID: "n", Kind: plan.KindAgent, Agent: &plan.Agent{Toolboxes: &plan.Toolboxes{Connections: []string{"helper"}, All: true}}}}}
		err = p.Connect(ctx)
		return nil
	})
	if env.GetWorkflowError() != nil {
		t.Fatal(env.GetWorkflowError())
	}
	if err == nil || !strings.Contains(err.Error(), `connection "helper" runs the agent "gone", which the document does not define`) {
		t.Errorf("error is %v", err)
	}
}

// TestToolboxToolNames checks that tools get distinct names even if theirs differ only in characters that providers reject.
func TestToolboxToolNames(t *testing.T) {
	wants := []*requiredConnection{
		{resolved: contract.ResolvedConnection{ID: "a"}, toolNames: []string{"get.item", "get_item", "get/item", "find"}},
		{resolved: contract.ResolvedConnection{ID: "b"}, toolNames: []string{"find", "get_item", strings.Repeat("x", 70)}},
	}
	a := &plan.Agent{Tools: []plan.Tool{{Name: "own", As: "own"}}, Toolboxes: &plan.Toolboxes{Connections: []string{"a", "b"}, All: true}}
	addToolboxTools(a, wants)
	var got []string
	seen := map[string]bool{}
	for _, tool := range a.Tools {
		got = append(got, tool.Connection+":"+tool.Name[:min(len(tool.Name), 8)])
		if seen[tool.As] || len(tool.As) > maxToolName || unsafeChars.MatchString(tool.As) {
			t.Errorf("tool %q has the name %q", tool.Name, tool.As)
		}
		seen[tool.As] = true
	}
	if want := ":own a:get.item a:get_item a:get/item a:find b:xxxxxxxx"; strings.Join(got, " ") != want {
		t.Errorf("tools are %s, want %s", strings.Join(got, " "), want)
	}
}
