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

// shortValues returns a state of n values that are too short to be offloaded; each branch gets a copy.
func shortValues(n, bytes int) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for i := range n {
		out[fmt.Sprintf("k%04d", i)] = json.RawMessage(`"` + strings.Repeat("v", bytes) + `"`)
	}
	return out
}

// TestEndToEndQueryWithCommands has one workflow task with a large query result, two branches with large inputs and
// a rejected large Update. Together they exceed what the server accepts in one request: sent as one, they would make it
// terminate the run.
func TestEndToEndQueryWithCommands(t *testing.T) {
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
	run := v.start(t, h.Client, contract.RunInput{Flow: contract.FlowRef{Plan: f}, State: shortValues(880, 980), Script: long})
	waitTwo := func(kind enumspb.EventType) {
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
	waitTwo(enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
	flows.Stop()
	waitTwo(enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED)

	var wg sync.WaitGroup
	var page contract.ContentPage
	var queryErr, updateErr error
	wg.Go(func() {
		queryErr = eventually(func(ctx context.Context) error {
			got, err := h.Client.QueryWorkflow(ctx, run.GetID(), run.GetRunID(), contract.QueryContent, contract.ContentQuery{SHA: contract.SHA(long)})
			if err != nil {
				return err
			}
			return got.Get(&page)
		})
	})
	wg.Go(func() {
		_, updateErr = h.Update(t, run.GetID(), contract.RequestToolResult, map[string]any{"id": "nobody's", "result": strings.Repeat("x", 1_040_000)})
	})
	time.Sleep(time.Second) // by now, the server should have received both
	v.startWorker(t, true, false)
	out, err := harness.Result(t, run)
	if err != nil || *out.ResultText != "done" || out.Usage.Calls != 5 {
		t.Errorf("run ended with %+v, %v", out, err)
	}
	wg.Wait()
	if queryErr != nil {
		t.Fatal(queryErr)
	}
	if page.Total != len(long) || harness.ErrorType(updateErr) != contract.ClassUnknownRequest {
		t.Errorf("query result has %d bytes of %d, Update error = %v", page.Total, len(long), updateErr)
	}
}

// TestEndToEndLargeToolLists uses connections whose tool lists together exceed the limit of a history. It checks that
// they are offloaded to a store, and that without one the run fails before the server terminates it.
func TestEndToEndLargeToolLists(t *testing.T) {
	if !fullSize {
		t.Skip("run by make sizes")
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
	for name, withStore := range map[string]bool{"with a store": true, "without a store": false} {
		t.Run(name, func(t *testing.T) {
			v := newStoreEnv(t)
			if v.tools = tools; !withStore {
				v.settings = store.Settings{}
			}
			v.startWorker(t, true, true)
			c := v.dial(t)
			run := v.start(t, c, in)
			out, err := harness.Result(t, run)
			if withStore {
				if err != nil || *out.ResultText != "done" {
					t.Errorf("run ended with %.300v, %v", out, err)
				}
				return
			}
			f := contract.FailureOf(err)
			if f == nil || f.Class != contract.ClassTooLarge || !strings.Contains(f.Text, `connection "c`) || !strings.Contains(f.Text, "go into the run's history beside") ||
				!strings.HasPrefix(f.At, "flow.json:") || !strings.Contains(f.Remedy, "store.dir") {
				t.Errorf("run ended with %.300v, %+v", out, f)
			}
			if h := historyBytes(t, c, run.GetID(), run.GetRunID()); h > 4<<20 {
				t.Errorf("history has %d bytes, want at most 4 MiB", h)
			}
		})
	}
}
