package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"weft/workflows/plan"
)

// listen serves on a free loopback port.
func listen(h http.Handler) (*http.Server, string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = srv.Serve(l) }() // ends with Close
	return srv, "http://" + l.Addr().String(), nil
}

// toolServer is an MCP server with the agent loop's tool.
type toolServer struct {
	http *http.Server
	url  string
}

// serveTools serves a tool that returns half of what a turn adds.
func serveTools() (*toolServer, error) {
	s := server.NewMCPServer("bench", "1")
	schema := json.RawMessage(`{"type":"object","properties":{"text":{"type":"string","description":"the note"}},"required":["text"]}`)
	answer := strings.Repeat("r", turnBytes/2)
	s.AddTool(mcp.NewToolWithRawSchema(toolName, "keeps a note", schema), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(answer), nil
	})
	h, url, err := listen(server.NewStreamableHTTPServer(s))
	return &toolServer{h, url + "/mcp"}, err
}

func (s *toolServer) close() { _ = s.http.Close() }

// modelServer implements the API of OpenAI-compatible servers. It counts calls by their
// idempotency key, and blocks the first attempt of one of them until its caller has
// disconnected.
type modelServer struct {
	http        *http.Server
	url         string
	calls, hold int
	// held is closed when the call that blocks has arrived.
	held chan struct{}

	mu   sync.Mutex
	keys map[string]int
	// again is when the blocked call was repeated, next when the following call arrived.
	again, next time.Time
}

// callTime is the duration of each call.
const callTime = 10 * time.Millisecond

func serveModel(calls, hold int) (*modelServer, error) {
	m := &modelServer{calls: calls, hold: hold, held: make(chan struct{}), keys: map[string]int{}}
	var err error
	m.http, m.url, err = listen(m)
	m.url += "/v1"
	return m, err
}

func (m *modelServer) close() { _ = m.http.Close() }

// tally is what a model server has counted.
type tally struct {
	// calls is the number of distinct calls, repeated the number of repetitions.
	calls, repeated int
	again, next     time.Time
}

func (m *modelServer) counts() tally {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := tally{calls: len(m.keys), again: m.again, next: m.next}
	for _, n := range m.keys {
		t.repeated += n - 1
	}
	return t
}

// ServeHTTP answers the n-th call of a conversation by the number of answers in it.
func (m *modelServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Messages []struct{ Role string }
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	turn := 1
	for _, msg := range in.Messages {
		if msg.Role == "assistant" {
			turn++
		}
	}
	wait := time.After(callTime)
	if m.note(r.Header.Get("Idempotency-Key"), turn) {
		wait = nil
	}
	select {
	case <-wait:
	case <-r.Context().Done():
		return
	}
	delta, finish := map[string]any{"content": "done"}, "stop"
	if turn < m.calls {
		finish = "tool_calls"
		delta = map[string]any{"tool_calls": []any{map[string]any{"index": 0, "id": fmt.Sprintf("call_%d", turn), "type": "function",
			"function": map[string]any{"name": plan.BuiltinListStateKeys, "arguments": "{}"}}}}
	}
	raw, err := json.Marshal(map[string]any{"model": "m", "choices": []any{map[string]any{"delta": delta, "finish_reason": finish}}})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", raw)
}

// note counts a call and reports whether it is the one that blocks.
func (m *modelServer) note(key string, turn int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keys[key]++
	if turn == m.hold+1 && m.next.IsZero() {
		m.next = time.Now()
	}
	if turn != m.hold {
		return false
	}
	if m.keys[key] == 1 {
		close(m.held)
		return true
	}
	if m.again.IsZero() {
		m.again = time.Now()
	}
	return false
}
