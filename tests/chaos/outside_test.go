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

// Moments at which a blow falls.
const (
	atRequest   = "request" // a call has come and is not answered
	afterAnswer = "answer"  // a call has been answered
	atEvent     = "event"   // the tree's histories have so many events
	atServer    = "server"  // so many calls have come; the server is hit, not the worker
)

// moment is a moment of a run: the n-th of its kind.
type moment struct {
	kind string
	n    int
}

func (m moment) String() string { return fmt.Sprintf("%s %d", m.kind, m.n) }

// blow falls once, at one moment.
type blow struct {
	moment
	fall func()
	once sync.Once
}

// when strikes if the blow is meant for this moment, and says so.
func (b *blow) when(m moment) bool {
	if b == nil || b.moment != m {
		return false
	}
	b.once.Do(b.fall)
	return true
}

// callOff keeps a blow from falling later, or says that it has fallen.
func (b *blow) callOff() (inTime bool) {
	if b == nil {
		return true
	}
	b.once.Do(func() { inTime = true })
	return inTime
}

// seen is one call that came.
type seen struct {
	// generation is the worker process that made it.
	generation string
	// key is the idempotency key; empty for a listing of tools and a look at a task, which have none.
	key string
	// what is the request, shortened; body its hash.
	what, body string
	// listing marks these, never a call that must not be repeated.
	listing, never bool
}

// outside is the world outside of one lane: a model server and two MCP servers. The path of
// a request begins with the generation of the worker that makes it.
type outside struct {
	url   string
	tools http.Handler

	mu   sync.Mutex
	jobs *programs.TaskServer // one for each run
	flow *chaosFlow
	run  string
	blow *blow
	pass func()
	log  []seen
}

func newOutside(t testing.TB) *outside {
	s := server.NewMCPServer("chaos", "1", server.WithToolCapabilities(false))
	declared := map[string]mcp.ToolOption{"search": mcp.WithReadOnlyHintAnnotation(true), "pay": mcp.WithIdempotentHintAnnotation(true),
		"send": mcp.WithIdempotentHintAnnotation(false)}
	for name, hint := range declared {
		s.AddTool(mcp.NewTool(name, mcp.WithNumber("n"), hint), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			time.Sleep(10 * time.Millisecond)
			return mcp.NewToolResultText(fmt.Sprintf("%s found %d", name, req.GetInt("n", -1))), nil
		})
	}
	o := &outside{tools: server.NewStreamableHTTPServer(s)}
	srv := httptest.NewServer(http.HandlerFunc(o.serve))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	o.url = srv.URL
	return o
}

// expect begins the log of a run with an id.
func (o *outside) expect(f *chaosFlow, id string, b *blow) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flow, o.run, o.blow, o.pass, o.log = f, id, b, nil, nil
	o.jobs = &programs.TaskServer{Modern: true, States: []string{"working", "completed"}, PollMillis: 100}
}

// under is the id of the run whose calls come.
func (o *outside) under() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.run
}

// each makes fn hear of each call, besides.
func (o *outside) each(fn func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pass = fn
}

// came lists the calls since expect.
func (o *outside) came() []seen {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]seen(nil), o.log...)
}

func (o *outside) note(s seen) (n int, b *blow, f *chaosFlow) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.log = append(o.log, s)
	if o.pass != nil {
		o.pass()
	}
	return len(o.log), o.blow, o.flow
}

func (o *outside) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the worker was killed while it wrote
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	generation, service, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	s := seen{generation: generation}
	model := strings.HasPrefix(service, "v1/")
	if model {
		// A model is told the ids of sessions, and tells them again.
		body = anyRun(body, o.under())
		s.describeModel(r, body)
	}
	tools := o.server(service)
	if !model && !s.describeTool(service, body) {
		tools.ServeHTTP(w, r) // the handshake and the listening stream
		return
	}
	n, b, f := o.note(s)
	if b.when(moment{atRequest, n}) {
		panic(http.ErrAbortHandler)
	}
	if model {
		f.complete(naming{w, o.under()}, body)
	} else {
		tools.ServeHTTP(w, r)
	}
	if fl, ok := w.(http.Flusher); ok {
		fl.Flush()
	}
	b.when(moment{afterAnswer, n})
}

// server is the MCP server of a path; that of carts is told what they ship.
func (o *outside) server(service string) http.Handler {
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

func (s *seen) describeModel(r *http.Request, body []byte) {
	s.key = r.Header.Get("Idempotency-Key")
	s.what, s.body = "model", hash(body)
}

// describeTool reports whether the request is one that counts.
func (s *seen) describeTool(service string, body []byte) bool {
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
		s.what, s.listing = in.Method, true
		return true
	case "tools/call":
		s.key, s.never = in.Params.Meta.Key, service == "mail" || service == "jobs" || in.Params.Name == "ship"
		s.what = in.Params.Name + " " + string(in.Params.Arguments)
		s.body = hash([]byte(s.what))
		return true
	}
	return false
}

// naming writes the run's id where all runs have the same.
type naming struct {
	http.ResponseWriter
	run string
}

func (n naming) Write(b []byte) (int, error) {
	_, err := n.ResponseWriter.Write(bytes.ReplaceAll(b, []byte(noRun), []byte(n.run)))
	return len(b), err
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6])
}

// completion is a request of the wire format of OpenAI-compatible servers.
type completion struct {
	Messages []struct {
		Role    string
		Content any
	}
}

// complete answers as the flow's model.
func (f *chaosFlow) complete(w http.ResponseWriter, body []byte) {
	var in completion
	if err := json.Unmarshal(body, &in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	t, who := in.talk(f)
	answer, ok := f.say[who]
	if !ok {
		http.Error(w, "nobody answers as "+who, http.StatusBadRequest)
		return
	}
	time.Sleep(15 * time.Millisecond) // branches overlap
	said := answer(t)
	delta := map[string]any{"role": "assistant", "content": said.text}
	finish := "stop"
	if len(said.calls) > 0 {
		finish = "tool_calls"
		var list []any
		for i, c := range said.calls {
			list = append(list, map[string]any{"index": i, "id": fmt.Sprintf("call_%d_%d", t.turn, i), "type": "function",
				"function": map[string]any{"name": c.tool, "arguments": c.arguments}})
		}
		delta["tool_calls"] = list
	}
	// The tokens count the conversation's bytes: usage is the same only if all that was
	// shown is.
	raw, err := json.Marshal(map[string]any{"model": "m", "choices": []any{map[string]any{"delta": delta, "finish_reason": finish}},
		"usage": map[string]any{"prompt_tokens": len(body), "completion_tokens": len(said.text)}})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", raw)
}

// talk reads what the model is shown, and as whom it answers.
func (c *completion) talk(f *chaosFlow) (t talk, who string) {
	t.turn, who = 1, "judge"
	for _, m := range c.Messages {
		content := contentOf(m.Content)
		switch m.Role {
		case "system":
			for mark := range f.say {
				if strings.HasPrefix(mark, "[") && strings.Contains(content, mark) {
					who = mark
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
	return t, who
}

// contentOf is a content's text, be it a string or a list of parts.
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
