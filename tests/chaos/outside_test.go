package chaos

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
	"weft/tests/programs"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// Moments at which a fault is injected.
const (
	atRequest   = "request" // a call has been received but not answered
	afterAnswer = "answer"  // a call has been answered
	atEvent     = "event"   // the histories of the tree have n events
	atServer    = "server"  // n calls have been received; the server is killed, not the worker
)

// moment is the n-th moment of its kind in a run.
type moment struct {
	kind string
	n    int
}

func (m moment) String() string { return fmt.Sprintf("%s %d", m.kind, m.n) }

// fault is a fault that is injected once, at one moment.
type fault struct {
	moment
	inject func()
	once   sync.Once
}

// at injects the fault if it is due at m, and reports whether it is.
func (f *fault) at(m moment) bool {
	if f == nil || f.moment != m {
		return false
	}
	f.once.Do(f.inject)
	return true
}

// cancel cancels the fault and reports whether it was still pending.
func (f *fault) cancel() (inTime bool) {
	if f == nil {
		return true
	}
	f.once.Do(func() { inTime = true })
	return inTime
}

// request is one received call.
type request struct {
	// generation is that of the worker process that sent it.
	generation string
	// key is the idempotency key; empty for tools/list and tasks/get, which have none.
	key string
	// what is the shortened request; body is its hash.
	what, body string
	// keyless marks requests without a key, noRetry calls that must not be repeated.
	keyless, noRetry bool
}

// services has the fake services of one lane: a model server and MCP servers. The path of a
// request begins with the generation of the worker that sends it.
type services struct {
	url   string
	tools http.Handler

	mu     sync.Mutex
	jobs   *programs.TaskServer // one for each run
	flow   *chaosFlow
	run    string
	fault  *fault
	onCall func()
	log    []request
}

func newServices(t testing.TB) *services {
	s := server.NewMCPServer("chaos", "1", server.WithToolCapabilities(false))
	declared := map[string]mcp.ToolOption{"search": mcp.WithReadOnlyHintAnnotation(true), "pay": mcp.WithIdempotentHintAnnotation(true),
		"send": mcp.WithIdempotentHintAnnotation(false)}
	for name, hint := range declared {
		s.AddTool(mcp.NewTool(name, mcp.WithNumber("n"), hint), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			time.Sleep(10 * time.Millisecond)
			return mcp.NewToolResultText(fmt.Sprintf("%s found %d", name, req.GetInt("n", -1))), nil
		})
	}
	o := &services{tools: server.NewStreamableHTTPServer(s)}
	srv := httptest.NewServer(http.HandlerFunc(o.serve))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	o.url = srv.URL
	return o
}

// reset resets the log for the next run.
func (o *services) reset(f *chaosFlow, id string, pending *fault) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flow, o.run, o.fault, o.onCall, o.log = f, id, pending, nil, nil
	o.jobs = &programs.TaskServer{Modern: true, States: []string{"working", "completed"}, PollMillis: 100}
}

// runID returns the workflow id of the current run.
func (o *services) runID() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.run
}

// onRequest sets a function that is called for each request.
func (o *services) onRequest(fn func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.onCall = fn
}

// requests returns the requests since reset.
func (o *services) requests() []request {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]request(nil), o.log...)
}

func (o *services) record(s request) (n int, pending *fault, f *chaosFlow) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.log = append(o.log, s)
	if o.onCall != nil {
		o.onCall()
	}
	return len(o.log), o.fault, o.flow
}

func (o *services) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the worker was killed while it wrote
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	generation, service, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	call := request{generation: generation}
	model := strings.HasPrefix(service, "v1/")
	if model {
		// Session ids, which contain the id of the run, occur in the messages and tool calls of a model.
		body = replaceRunID(body, o.runID())
		call.describeModel(r, body)
	}
	tools := o.server(service)
	if !model && !call.describeTool(service, body) {
		tools.ServeHTTP(w, r) // the handshake and the notification stream
		return
	}
	n, pending, f := o.record(call)
	if pending.at(moment{atRequest, n}) {
		panic(http.ErrAbortHandler)
	}
	if model {
		f.complete(runIDWriter{w, o.runID()}, body)
	} else {
		tools.ServeHTTP(w, r)
	}
	if fl, ok := w.(http.Flusher); ok {
		fl.Flush()
	}
	pending.at(moment{afterAnswer, n})
}

// server returns the MCP server for a path. For carts it only accepts the reports of [serveCart].
func (o *services) server(service string) http.Handler {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch service {
	case "jobs":
		return o.jobs
	case "cart":
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	}
	return o.tools
}

func (s *request) describeModel(r *http.Request, body []byte) {
	s.key = r.Header.Get("Idempotency-Key")
	s.what, s.body = "model", hash(body)
}

// describeTool describes an MCP request and reports whether it counts as a call.
func (s *request) describeTool(service string, body []byte) bool {
	var in struct {
		Method string
		Params struct {
			Name      string
			Arguments json.RawMessage
			Meta      struct {
				Key string `json:"weft/idempotency-key"`
			} `json:"_meta"`
		}
	}
	if len(body) == 0 || json.Unmarshal(body, &in) != nil {
		return false
	}
	switch in.Method {
	case "tools/list", "tasks/get":
		s.what, s.keyless = in.Method, true
		return true
	case "tools/call":
		s.key, s.noRetry = in.Params.Meta.Key, service == "mail" || service == "jobs" || in.Params.Name == "ship"
		s.what = in.Params.Name + " " + string(in.Params.Arguments)
		s.body = hash([]byte(s.what))
		return true
	}
	return false
}

// runIDWriter replaces [anyRunID] in a response with the run's id.
type runIDWriter struct {
	http.ResponseWriter
	run string
}

func (n runIDWriter) Write(b []byte) (int, error) {
	_, err := n.ResponseWriter.Write(bytes.ReplaceAll(b, []byte(anyRunID), []byte(n.run)))
	return len(b), err
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6])
}

// completion is a request in the OpenAI-compatible wire format.
type completion struct {
	Messages []struct {
		Role    string
		Content any
	}
}

// complete answers a request with the flow's model.
func (f *chaosFlow) complete(w http.ResponseWriter, body []byte) {
	var in completion
	if err := json.Unmarshal(body, &in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	t, model := in.conversation(f)
	answer, ok := f.models[model]
	if !ok {
		http.Error(w, "no model for "+model, http.StatusBadRequest)
		return
	}
	time.Sleep(15 * time.Millisecond) // branches overlap
	reply := answer(t)
	delta := map[string]any{"role": "assistant", "content": reply.text}
	finish := "stop"
	if len(reply.calls) > 0 {
		finish = "tool_calls"
		var list []any
		for i, c := range reply.calls {
			list = append(list, map[string]any{"index": i, "id": fmt.Sprintf("call_%d_%d", t.turn, i), "type": "function",
				"function": map[string]any{"name": c.tool, "arguments": c.arguments}})
		}
		delta["tool_calls"] = list
	}
	// The token counts are the bytes of the conversation, so usage is equal only if all
	// messages are.
	raw, err := json.Marshal(map[string]any{"model": "m", "choices": []any{map[string]any{"delta": delta, "finish_reason": finish}},
		"usage": map[string]any{"prompt_tokens": len(body), "completion_tokens": len(reply.text)}})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", raw)
}

// conversation returns the conversation and the key of the model that answers it.
func (c *completion) conversation(f *chaosFlow) (t conversation, model string) {
	t.turn, model = 1, "judge"
	for _, m := range c.Messages {
		content := contentOf(m.Content)
		switch m.Role {
		case "system":
			for mark := range f.models {
				if strings.HasPrefix(mark, "[") && strings.Contains(content, mark) {
					model = mark
				}
			}
			continue
		case "user":
			t.users = append(t.users, content)
		case "tool":
			t.replies = append(t.replies, content)
		case "assistant":
			t.turn++
		}
		t.last = content
	}
	return t, model
}

// contentOf returns the text of a content, which is a string or a list of parts.
func contentOf(v any) string {
	switch c := v.(type) {
	case string:
		return c
	case []any:
		var b strings.Builder
		for _, p := range c {
			if m, ok := p.(map[string]any); ok {
				s, _ := m["text"].(string)
				b.WriteString(s)
			}
		}
		return b.String()
	}
	return ""
}
