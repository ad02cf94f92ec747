package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/tests/harness"
)

// TestEndToEndHistoryBound checks that passing transcripts by reference keeps histories small: 500 model calls with
// 6 KiB of new conversation each, 40 tools of 2 KiB and a system prompt of 20 KiB need less than 6 MiB. If they were
// passed by value, the run would reach 50 MiB, at which Temporal terminates it. Without WEFT_SIZES, there are 100
// calls and the limit is a fifth.
func TestEndToEndHistoryBound(t *testing.T) {
	t.Parallel()
	calls := 100
	if fullSize {
		calls = 500
	}
	limit := 6 << 20 * calls / 500
	h := harness.NewWorker(t, 0)
	h.Worker.Stop()
	h.Worker = harness.RunWorker(t, h.Client, h.Queue, 0, fortyTools(t))
	t.Cleanup(h.Worker.Stop)
	var bindings []string
	for i := range 40 {
		bindings = append(bindings, fmt.Sprintf(`{"name":"tool%02d","data_connection_id":"web"}`, i))
	}
	doc := strings.Replace(harness.OneNode(fmt.Sprintf(`,"max_iterations":10000,"tools":[%s]`, strings.Join(bindings, ","))),
		`"do it"`, `"`+strings.Repeat("a long system prompt ", 1000)+`"`, 1)
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: doc, Name: "flow.json"}, Input: "go", Script: harness.Script(t, fmt.Sprintf(`rules:
- {turn: %d, say: done}
- {call: [{tool: tool07, arguments: {text: %s}}]}`, calls, strings.Repeat("x", 3<<10)))})
	if err := run.Get(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	got := historyBytes(t, h.Client, run.GetID(), run.GetRunID())
	byValue, lastCall := byValueBytes(t, h, run.GetID())
	t.Logf("%d model calls: %.2f MiB of history by reference; by value %.0f MiB, and Temporal would terminate the run at call %d",
		calls, float64(got)/(1<<20), float64(byValue)/(1<<20), lastCall)
	if got > limit {
		t.Errorf("history has %d bytes, want at most %d", got, limit)
	}
}

// byValueBytes returns the size of the same calls if each contained the complete conversation, the tools and the prompt,
// and the number of the call at which that exceeds Temporal's 50 MiB.
func byValueBytes(t *testing.T, h *harness.Worker, id string) (total, lastCall int) {
	var sizes []int
	for page := (contract.TranscriptPage{Total: 1}); len(sizes) < page.Total; {
		v, err := h.Client.QueryWorkflow(context.Background(), id, "", contract.QueryTranscript, contract.TranscriptQuery{Thread: "a#1", From: len(sizes)})
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Get(&page); err != nil {
			t.Fatal(err)
		}
		for _, m := range page.Messages {
			sizes = append(sizes, len(m))
		}
	}
	const profile = 40*(2<<10) + 20<<10
	conversation := 0
	for i, n := range sizes {
		if i%2 == 1 { // an assistant's message: its call contained all earlier ones
			total += conversation + profile + n
			if lastCall == 0 && total > 50<<20 {
				lastCall = (i + 1) / 2
			}
		}
		conversation += n
	}
	return total, lastCall
}

// fortyTools connects to a server of 40 tools, each with a description of 2 KiB and a result of 3 KiB.
func fortyTools(t *testing.T) *tool.Tools {
	t.Helper()
	s := server.NewMCPServer("forty", "1")
	for i := range 40 {
		schema, err := json.Marshal(map[string]any{"type": "object", "properties": map[string]any{
			"text": map[string]any{"type": "string", "description": strings.Repeat("d", 2<<10)}}})
		if err != nil {
			t.Fatal(err)
		}
		s.AddTool(mcp.NewToolWithRawSchema(fmt.Sprintf("tool%02d", i), "a tool", schema),
			func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return mcp.NewToolResultText(strings.Repeat("r", 3<<10)), nil
			})
	}
	web := httptest.NewServer(server.NewStreamableHTTPServer(s))
	t.Cleanup(web.Close)
	tools, err := tool.Open(tool.Settings{Connections: map[string]tool.Connection{"web": {URL: web.URL}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tools.Close)
	return tools
}

// historyBytes returns the size of a run's history as counted by Temporal.
func historyBytes(t testing.TB, c client.Client, id, run string) int {
	t.Helper()
	d, err := c.DescribeWorkflowExecution(context.Background(), id, run)
	if err != nil {
		t.Fatal(err)
	}
	return int(d.GetWorkflowExecutionInfo().GetHistorySizeBytes())
}
