package harness

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"weft/activities/tool"
)

// URL offers the run's tools over MCP.
func (r TestRun) URL(t *testing.T) string {
	t.Helper()
	mcpServer := server.NewMCPServer("web", "1", server.WithToolCapabilities(false))
	for name, fn := range r.Tools {
		mcpServer.AddTool(mcp.NewTool(name), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			args, err := json.Marshal(req.GetArguments())
			if err != nil {
				return nil, err
			}
			text, failed := fn(string(args))
			res := mcp.NewToolResultText(text)
			res.IsError = failed
			if file := r.Pictures[name]; file != nil {
				res.Content = append(res.Content, mcp.NewImageContent(base64.StdEncoding.EncodeToString(file), "image/png"))
			}
			return res, nil
		})
	}
	handler := server.NewStreamableHTTPServer(mcpServer)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		if (r.Denied || r.Expired != nil && r.Expired.Load()) && strings.Contains(string(body), "tools/call") {
			http.Error(w, "expired", http.StatusUnauthorized)
			return
		}
		q.Body = io.NopCloser(bytes.NewReader(body))
		handler.ServeHTTP(w, q)
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// OpenTools offers the run's tools over MCP and returns how to reach them.
func (r TestRun) OpenTools(t *testing.T) *tool.Tools {
	t.Helper()
	settings := r.ToolSettings
	settings.Functions, settings.MaxResultBytes = r.Functions, cmp.Or(settings.MaxResultBytes, 10_000)
	settings.Connections = map[string]tool.Connection{"web": {URL: r.URL(t)}}
	maps.Copy(settings.Connections, r.ToolSettings.Connections)
	tools, err := tool.Open(settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tools.Close)
	return tools
}
