package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	enumspb "go.temporal.io/api/enums/v1"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/tests/harness"
	"weft/worker/store"
	"weft/workflows/plan"
)

// keysOf is a state of n short values, which go to each branch as they are.
func keysOf(n, bytes int) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for i := range n {
		out[fmt.Sprintf("k%04d", i)] = json.RawMessage(`"` + strings.Repeat("v", bytes) + `"`)
	}
	return out
}

// TestEndToEndQueryBesideCommands has one workflow task answer a query at length, start two branches
// with long inputs and refuse a long Update: together that is more than the server takes of a worker
// at once, and it would terminate the run.
func TestEndToEndQueryBesideCommands(t *testing.T) {
	t.Parallel()
	v := newStoreEnv(t)
	v.settings = store.Settings{}
	h := &harness.Worker{Client: v.dial(t)}
	flows, _ := v.startWorker(t, true, false), v.startWorker(t, false, true)
	f := harness.GraphPlan("beside", []harness.GraphNode{{ID: "s"}, {ID: "b1"}, {ID: "b2"}, {ID: "join", Defer: true, Exit: true}}, []harness.GraphEdge{{Source: plan.Start, Target: "s"},
		{Source: "s", Target: "b1"}, {Source: "s", Target: "b2"}, {Source: "b1", Target: "join"}, {Source: "b2", Target: "join"}, {Source: "join", Target: plan.End}})
	f.Nodes[0].Agent.Builtins = plan.Builtins
	long := harness.Script(t, fmt.Sprintf(`rules:
- {node: nobody, say: "%s"}
- {node: s, turn: 1, call: [{tool: list_state_keys}]}
- {node: s, delay: 3s, say: done}
- {say: done}`, strings.Repeat("w", 1_048_000)))
	run := v.start(t, h.Client, contract.RunInput{Flow: contract.FlowRef{Plan: f}, State: keysOf(880, 980), Script: long})
	two := func(kind enumspb.EventType) {
		harness.WaitFor(t, "the second "+kind.String(), func() bool {
			n := 0
			for _, e := range harness.Events(t, h.Client, run.GetID(), run.GetRunID()) {
				if e.GetEventType() == kind {
					n++
				}
			}
			return n == 2
		})
	}
	two(enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
	flows.Stop()
	two(enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED)

	var all sync.WaitGroup
	var page contract.ContentPage
	all.Go(func() {
		harness.WaitFor(t, "the query", func() bool {
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
			defer cancel()
			got, err := h.Client.QueryWorkflow(ctx, run.GetID(), run.GetRunID(), contract.QueryContent, contract.ContentQuery{SHA: contract.SHA(long)})
			return err == nil && got.Get(&page) == nil
		})
	})
	var refused error
	all.Go(func() {
		_, refused = h.Update(t, run.GetID(), contract.RequestToolResult, map[string]any{"id": "nobody's", "result": strings.Repeat("x", 1_040_000)})
	})
	time.Sleep(time.Second) // the server has them by now, or they come one by one
	v.startWorker(t, true, false)
	out, err := harness.Result(t, run)
	if err != nil || *out.ResultText != "done" || out.Usage.Calls != 5 {
		t.Errorf("the run ended with %+v, %v", out, err)
	}
	all.Wait()
	if page.Total != len(long) || harness.ErrorType(refused) != contract.ClassUnknownRequest {
		t.Errorf("the query gives %d bytes of %d, the Update %v", page.Total, len(long), refused)
	}
}

// TestEndToEndLargeToolLists lists the tools of connections that are more together than a history
// holds: a store takes them, and without one the run fails before the server terminates it.
func TestEndToEndLargeToolLists(t *testing.T) {
	if !fullSize {
		t.Skip("make sizes runs it")
	}
	t.Parallel()
	const n = 30
	connections := map[string]tool.Connection{}
	var bound []string
	for i := range n {
		s := server.NewMCPServer("large", "1")
		s.AddTool(mcp.NewTool(fmt.Sprint("t", i), mcp.WithDescription(strings.Repeat("d", 1_850_000))), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText("called"), nil
		})
		web := httptest.NewServer(server.NewStreamableHTTPServer(s))
		t.Cleanup(web.Close)
		connections[fmt.Sprint("c", i)] = tool.Connection{URL: web.URL}
		bound = append(bound, fmt.Sprintf(`{"name":"t%d","data_connection_id":"c%d"}`, i, i))
	}
	tools, err := tool.Open(tool.Settings{Connections: connections})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tools.Close)
	in := contract.RunInput{Flow: contract.FlowRef{Text: harness.OneNode(`,"tools":[` + strings.Join(bound, ",") + `]`), Name: "flow.json"}, Script: harness.Script(t, `rules: [{say: done}]`)}
	for name, kept := range map[string]bool{"with a store": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			v := newStoreEnv(t)
			if v.tools = tools; !kept {
				v.settings = store.Settings{}
			}
			v.startWorker(t, true, true)
			c := v.dial(t)
			run := v.start(t, c, in)
			out, err := harness.Result(t, run)
			if kept {
				if err != nil || *out.ResultText != "done" {
					t.Errorf("the run ended with %.300v, %v", out, err)
				}
				return
			}
			f := contract.FailureOf(err)
			if f == nil || f.Class != contract.ClassTooLarge || !strings.Contains(f.Text, `connection "c`) || !strings.Contains(f.Text, "go into the run's history beside") ||
				!strings.HasPrefix(f.At, "flow.json:") || !strings.Contains(f.Remedy, "store.dir") {
				t.Errorf("the run ended with %.300v, %+v", out, f)
			}
			if h := historyBytes(t, c, run.GetID(), run.GetRunID()); h > 4<<20 {
				t.Errorf("its history holds %d bytes", h)
			}
		})
	}
}
