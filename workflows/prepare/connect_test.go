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

// TestListingIsRepeated lists tools of a server that is down: as often as the connection's retry policy says, else for as long as
// any call is repeated, or a short time where the run fails instead of waiting for an operator.
func TestListingIsRepeated(t *testing.T) {
	tests := map[string]struct {
		retry   *plan.Retry
		onError string
		// up is the attempt at which the server is up, 0 if it never is.
		up, attempts int
		within       time.Duration
	}{
		"a policy":                       {retry: &plan.Retry{Attempts: 2, FirstMillis: 10, Factor: 2, MostMillis: 100}, attempts: 3, within: time.Second},
		"a policy of a run that fails":   {retry: &plan.Retry{Attempts: 11, FirstMillis: 10, Factor: 1, MostMillis: 10}, onError: contract.OnErrorFail, attempts: 12, within: time.Second},
		"no repetition":                  {retry: &plan.Retry{Factor: 1}, attempts: 1, within: time.Second},
		"no policy":                      {up: 9, attempts: 9, within: time.Hour},
		"no policy of a run that fails":  {onError: contract.OnErrorFail, attempts: listAttempts, within: time.Minute},
		"no policy, and the server soon": {onError: contract.OnErrorFail, up: 4, attempts: 4, within: time.Minute},
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

// TestToolboxOfAgentThatIsMissing names a connection with an agent as a toolbox, where the document does not hold the agent.
func TestToolboxOfAgentThatIsMissing(t *testing.T) {
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

// TestOfferedNames gives tools whose names differ only in characters that not all providers take names of their own.
func TestOfferedNames(t *testing.T) {
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
			t.Errorf("%q is called %q", tool.Name, tool.As)
		}
		seen[tool.As] = true
	}
	if want := ":own a:get.item a:get_item a:get/item a:find b:xxxxxxxx"; strings.Join(got, " ") != want {
		t.Errorf("tools are %s, want %s", strings.Join(got, " "), want)
	}
}
