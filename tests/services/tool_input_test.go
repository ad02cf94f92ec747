package services

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/tests/harness"
)

// serveTables serves an MCP server whose tool requires user input, the number of seats, before it books a table. It returns its URL.
func serveTables(t *testing.T, booked *atomic.Int64) string {
	t.Helper()
	s := server.NewMCPServer("tables", "1")
	s.AddTool(mcp.NewTool("book"), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		switch answer := server.ElicitationResponse(req.Params.InputResponses, "seats"); {
		case req.Params.RequestState == "":
			return server.NewInputRequestBuilder("later").ToolResult(), nil
		case answer == nil:
			return server.NewInputRequestBuilder("asked").Elicit("seats", mcp.ElicitationParams{Message: "For how many?", RequestedSchema: map[string]any{
				"type": "object", "properties": map[string]any{"n": map[string]any{"type": "integer"}}, "required": []string{"n"}}}).ToolResult(), nil
		case req.Params.RequestState != "asked":
			return mcp.NewToolResultError("the state is " + req.Params.RequestState), nil
		case answer.Action != mcp.ElicitationResponseActionAccept:
			return mcp.NewToolResultText("not booked: " + string(answer.Action)), nil
		default:
			booked.Add(1)
			return mcp.NewToolResultText(fmt.Sprintf("booked for %v", answer.Content.(map[string]any)["n"])), nil
		}
	})
	web := httptest.NewServer(server.NewStreamableHTTPServer(s))
	t.Cleanup(web.Close)
	return web.URL + "/mcp"
}

// TestEndToEndToolAsks checks that a run waits for user input that a server requires before its response, even if the worker is replaced.
func TestEndToEndToolAsks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer map[string]any
		events int
		want   string
		booked int64
	}{
		"accepted":                {answer: map[string]any{"result": map[string]any{"n": 4}}, want: "booked for 4", booked: 1},
		"accepted in a later run": {answer: map[string]any{"result": map[string]any{"n": 4}}, events: 1, want: "booked for 4", booked: 1},
		"declined":                {answer: map[string]any{"error": "we stay at home"}, want: "not booked: decline"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var booked atomic.Int64
			h, replace := toolWorker(t, tool.Connection{URL: serveTables(t, &booked)})
			f := withTools(harness.OneAgent(), "book")
			run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: f}, MaxEvents: tc.events, Script: harness.Script(t, `rules:
- {turn: 1, call: [{tool: book}]}
- {contains: "`+tc.want+`", say: done}
- {say: something else}`)})
			q := h.WaitForRequests(t, run.GetID(), 1)[0]
			if q.Kind != contract.RequestToolResult || q.Text != "book asks: For how many?" || q.Tool != "book" {
				t.Errorf("request = %+v", q)
			}
			replace()
			if _, err := h.Update(t, run.GetID(), q.Kind, map[string]any{"id": q.ID, "result": map[string]any{"n": "four"}}); err == nil || !strings.Contains(err.Error(), "integer") {
				t.Errorf("invalid answer: error = %v", err)
			}
			tc.answer["id"] = q.ID
			if _, err := h.Update(t, run.GetID(), q.Kind, tc.answer); err != nil {
				t.Fatal(err)
			}
			out, err := harness.Result(t, run)
			if err != nil {
				t.Fatal(err)
			}
			if *out.ResultText != "done" || booked.Load() != tc.booked {
				t.Errorf("result text = %q after %d bookings", *out.ResultText, booked.Load())
			}
		})
	}
}
