package dialects

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/tests/harness"
	"weft/workflows/plan"
)

// withoutLogin makes a connection refuse to list its tools until the operator answers the retry request.
type withoutLogin struct {
	worker.ActivityRegistry
	connection string
}

func (l withoutLogin) RegisterActivityWithOptions(fn any, o activity.RegisterOptions) {
	if list, ok := fn.(func(context.Context, contract.CatalogueInput, *contract.Grant) (*contract.CatalogueResult, error)); ok {
		fn = func(ctx context.Context, in contract.CatalogueInput, g *contract.Grant) (*contract.CatalogueResult, error) {
			if in.Connection.ID == l.connection && !strings.Contains(activity.GetInfo(ctx).ActivityID, "~") {
				return nil, (&contract.Failure{Class: contract.ClassDenied, Text: "the server wants a login", Remedy: "log in with: worker login " + l.connection}).ApplicationError()
			}
			return list(ctx, in, g)
		}
	}
	l.ActivityRegistry.RegisterActivityWithOptions(fn, o)
}

// TestLoginAtStart checks that a run waits for an operator if a connection that it needs requires a login when its tools are listed.
func TestLoginAtStart(t *testing.T) {
	t.Parallel()
	toolboxes := func(names ...string) *plan.Flow {
		f := harness.GraphPlan("boxes", []harness.GraphNode{{ID: "a", Exit: true}}, []harness.GraphEdge{{Source: plan.Start, Target: "a"}, {Source: "a", Target: plan.End}})
		f.Nodes[0].Agent.Toolboxes = &plan.Toolboxes{Connections: []string{"web", "crm"}, Names: names}
		return f
	}
	concurrent := specDoc(t, `
flow: {nodes: {s: {component_type: StartNode, inputs: [{title: xs, type: array, items: {type: integer}}]}, each: {component_type: ParallelMapNode, subflow: "@sub"}, e: {component_type: EndNode}},
  go: [s > each > e], data: [s.xs > each.iterated_x]}
sub: {nodes: {s1: {component_type: StartNode, inputs: [{title: x, type: integer}]}, c: {component_type: ToolNode, tool: {component_type: MCPTool, name: search, description: d, client_transport: {component_type: StreamableHTTPTransport, name: crm, url: "URL"}}}, e1: {component_type: EndNode}}, go: [s1 > c > e1]}`)
	tests := map[string]struct {
		document         string
		flow             *plan.Flow
		onError          string
		giveUp           bool
		connection, node string
		waits            int
		fails            string
	}{
		"a tool of the connection":         {document: harness.OneNode(harness.SearchTool), connection: "web", node: "a", waits: 1},
		"the operator gives up":            {document: harness.OneNode(harness.SearchTool), connection: "web", node: "a", waits: 1, giveUp: true, fails: contract.ClassDenied},
		"on_error is fail":                 {document: harness.OneNode(harness.SearchTool), connection: "web", onError: contract.OnErrorFail, fails: contract.ClassDenied},
		"a toolbox that may have the tool": {flow: toolboxes("search", "reserve"), connection: "crm", node: "a", waits: 1},
		"the operator gives up a toolbox":  {flow: toolboxes("search", "reserve"), connection: "crm", node: "a", waits: 1, giveUp: true, fails: contract.ClassConnection},
		"a toolbox that is not needed":     {flow: toolboxes("search"), connection: "crm"},
		"concurrent flows in a run":        {document: concurrent, connection: "crm", node: "c", waits: 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crm := harness.TestRun{Tools: map[string]func(string) (string, bool){
				"reserve": func(string) (string, bool) { return "reserved", false }, "search": func(string) (string, bool) { return "found", false }}}
			url := crm.ServeTools(t)
			var open []contract.Request
			p := harness.TestRun{Document: strings.ReplaceAll(tc.document, "URL", url), Script: `rules: [{turn: 1, call: [{tool: search}]}, {say: done}]`,
				Tools:        map[string]func(string) (string, bool){"search": func(string) (string, bool) { return "found", false }},
				ToolSettings: tool.Settings{AllowLoopback: true, Connections: map[string]tool.Connection{"crm": {URL: url}}},
				SetInput: func(in *contract.RunInput) {
					in.OnError = tc.onError
					if tc.flow != nil {
						in.Flow = contract.FlowRef{Plan: tc.flow}
					}
					if tc.document == concurrent {
						in.Input, in.Params = "", json.RawMessage(`{"xs":[1,2]}`)
					}
				},
				Wrap: func(r worker.ActivityRegistry) worker.ActivityRegistry { return withoutLogin{r, tc.connection} },
				Prepare: func(env *testsuite.TestWorkflowEnvironment) {
					harness.AtTime(env, time.Hour, func() {
						var s contract.Status
						harness.Query(t, env, contract.QueryStatus, &s)
						open = s.Requests
						for _, q := range open {
							env.SignalWorkflow(contract.RequestRetry, contract.RetryAnswer{ID: q.ID, GiveUp: tc.giveUp})
						}
					})
				},
			}.Execute(t)
			if len(open) != tc.waits {
				t.Fatalf("open requests = %+v, want %d", open, tc.waits)
			}
			for _, q := range open {
				if q.Kind != contract.RequestRetry || q.Failure.Class != contract.ClassDenied || q.Node != tc.node || !strings.Contains(q.Text, "worker login "+tc.connection) || tc.flow == nil && q.At == "" {
					t.Errorf("request = %+v", q)
				}
			}
			if p.Err == nil && tc.fails != "" || p.Err != nil && p.Err.Class != tc.fails {
				t.Errorf("run ended with %+v, want %q", p.Err, tc.fails)
			}
		})
	}
}
