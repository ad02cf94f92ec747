package harness

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// ProgramFolder writes a folder with one procedural agent and its script.
func ProgramFolder(t *testing.T, script string) string {
	t.Helper()
	dir := t.TempDir()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text), Mode: 0o755} }
	err := os.CopyFS(dir, fstest.MapFS{
		"agents/greeter/agent.json": file(`{"name":"greeter","description":"Greets","type":"procedural","script":"greet"}`),
		"scripts/greet/script.json": file(`{"name":"greet","description":"Greets","script_file":"greet.sh","parameters_schema":{"type":"object","required":["who"],` +
			`"properties":{"who":{"type":"string"},"loud":{"type":"boolean"}},"additionalProperties":false}}`),
		"scripts/greet/greet.sh": file("#!/bin/sh\n" + script),
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// RequestHeaders records the headers of the requests to a server.
type RequestHeaders struct {
	mu  sync.Mutex
	All []http.Header
}

// Missing returns the expected headers that a request lacked.
func (s *RequestHeaders) Missing(want map[string]string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, h := range s.All {
		for name, value := range want {
			if h.Get(name) != value {
				out = append(out, name+": "+h.Get(name))
			}
		}
	}
	return out
}

// NewToolServer starts an MCP server with two tools.
func NewToolServer(t *testing.T) (address string, seen *RequestHeaders) {
	t.Helper()
	s := server.NewMCPServer("shelf", "1", server.WithToolCapabilities(false))
	for _, name := range []string{"put", "take"} {
		s.AddTool(mcp.NewTool(name), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText(name + " done"), nil
		})
	}
	seen = &RequestHeaders{}
	handler := server.NewStreamableHTTPServer(s)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.mu.Lock()
		seen.All = append(seen.All, r.Header.Clone())
		seen.mu.Unlock()
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	return web.URL, seen
}

// WebhookSecrets are the secrets that sign webhooks in tests.
var WebhookSecrets = []string{"whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32))}
