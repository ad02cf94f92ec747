package services

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/tests/harness"
)

// browser is an MCP server that keeps one page per session.
type browser struct {
	mu     sync.Mutex
	pages  map[string]string
	opened chan struct{}
	// lost makes the server forget the first session.
	lost atomic.Bool
}

func (b *browser) start(t *testing.T) string {
	t.Helper()
	s := server.NewMCPServer("browser", "1")
	s.AddTool(mcp.NewTool("open"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.pages[server.ClientSessionFromContext(ctx).SessionID()] = "harbour"
		close(b.opened)
		return mcp.NewToolResultText("opened"), nil
	})
	s.AddTool(mcp.NewTool("where"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		return mcp.NewToolResultText("at " + b.pages[server.ClientSessionFromContext(ctx).SessionID()]), nil
	})
	inner, first := server.NewStreamableHTTPServer(s), atomic.Pointer[string]{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte("server/discover")) { // part of a protocol version without sessions
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if id := r.Header.Get("Mcp-Session-Id"); id != "" {
			first.CompareAndSwap(nil, &id)
			if b.lost.Load() && id == *first.Load() {
				http.Error(w, "unknown session", http.StatusNotFound)
				return
			}
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	return web.URL + "/mcp"
}

// TestEndToEndToolSessions replaces the only worker between two calls of a stateful server. It checks that the next worker
// continues the session, or that the model is informed that it was lost.
func TestEndToEndToolSessions(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"continued": false, "told": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &browser{pages: map[string]string{}, opened: make(chan struct{})}
			h, replace := toolWorker(t, tool.Connection{URL: b.start(t)})
			f := withTools(harness.OneAgent(), "open", "where")
			run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: f}, Script: harness.Script(t, `rules:
- {turn: 1, call: [{tool: open}]}
- {turn: 2, delay: 2s, call: [{tool: where}]}
- {contains: at harbour, say: continued}
- {contains: session with this tool's server was lost, say: told}
- {say: neither}`)})
			<-b.opened
			b.lost.Store(lost)
			replace()
			out, err := harness.Result(t, run)
			if err != nil {
				t.Fatal(err)
			}
			if *out.ResultText != name {
				t.Errorf("result text = %q, want %q", *out.ResultText, name)
			}
		})
	}
}
