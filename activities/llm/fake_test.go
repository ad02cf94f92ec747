package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
	"weft/activities/llm/wire"
)

const testKey = "sk-test-0123456789abcdef"

// server is a fake provider that records its requests.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	bodies  []string
	headers []http.Header
}

// serve starts a fake provider that answers with handle.
func serve(t *testing.T, handle http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && slices.Contains([]string{"/props", "/v1/models", "/api/v0/models", "/api/ps"}, r.URL.Path) {
			http.NotFound(w, r) // it does not report its models' state
			return
		}
		b, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.bodies, s.headers = append(s.bodies, string(b)), append(s.headers, r.Header.Clone())
		s.mu.Unlock()
		handle(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// calls returns the number of requests received.
func (s *server) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.bodies)
}

// sent decodes the last request.
func (s *server) sent(t *testing.T) map[string]any {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.bodies) == 0 {
		t.Fatal("no request received")
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(s.bodies[len(s.bodies)-1]), &v); err != nil {
		t.Fatalf("request is not JSON: %v", err)
	}
	return v
}

// openModel opens a model of a kind at a fake server, with short timeouts.
func openModel(t *testing.T, kind, url string, change ...func(*ProviderSettings)) *provider {
	t.Helper()
	set := ProviderSettings{Kind: kind, BaseURL: url + "/v1", Key: testKey, KeyName: "FAKE_API_KEY"}
	for _, f := range change {
		f(&set)
	}
	models, err := Open(Settings{Providers: map[string]ProviderSettings{"fake": set}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := models.get("fake/vendor/m-1")
	if err != nil {
		t.Fatal(err)
	}
	c := m.(*provider)
	c.firstByte, c.idle = 20*time.Second, time.Second
	return c
}

// unary disables streaming.
func unary(s *ProviderSettings) { s.Unary = true }

// answer returns a handler that responds with a status and a body.
func answer(status int, text string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// sse returns a handler that responds with a stream of events.
func sse(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events {
			fmt.Fprintf(w, "data: %s\n\n", e)
		}
	}
}

// text returns a streamed piece of text, and finish the last event.
func text(s string) string {
	return fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`, s)
}

func finish(reason string) string {
	return fmt.Sprintf(`{"choices":[{"index":0,"delta":{},"finish_reason":%q}]}`, reason)
}

const done = "[DONE]"

// completion returns a unary chat completion with a message.
func completion(message, finish string) string {
	return fmt.Sprintf(`{"model":"m-1-2026","choices":[{"index":0,"message":%s,"finish_reason":%q}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`, message, finish)
}

// hello returns a minimal conversation.
func hello() wire.Request {
	return wire.Request{System: "Answer in JSON.", Messages: []contract.Message{user("hello")}}
}

// newCall returns a copy of call with a conversation, tools and options.
func newCall(call *Call, in wire.Request, tools []llms.Tool, opts ...llms.CallOption) *Call {
	out := *call
	out.System, out.Messages = in.System, in.Messages
	out.Options = Options(append([]llms.CallOption{llms.WithTools(tools)}, opts...)...)
	return &out
}

// tools returns two tools.
func tools() []llms.Tool {
	var out []llms.Tool
	for _, n := range []string{"get", "put"} {
		out = append(out, llms.Tool{Type: "function", Function: &llms.FunctionDefinition{
			Name: n, Description: "d", Parameters: json.RawMessage(`{"type":"object","properties":{"k":{"type":"string","enum":["a"]}}}`),
		}})
	}
	return out
}

// ask calls generate with a timeout that no test should reach.
func ask(t *testing.T, m model, call *Call, opts ...llms.CallOption) (*Answer, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	return generate(ctx, m, newCall(call, hello(), nil, opts...))
}

// failureOf returns err as a failure. It fails the test if err is not one.
func failureOf(t *testing.T, err error) *contract.Failure {
	t.Helper()
	var f *contract.Failure
	if !errors.As(err, &f) {
		t.Fatalf("error %T %v, want a *contract.Failure", err, err)
	}
	return f
}

// checkContains checks that a text contains all pieces.
func checkContains(t *testing.T, text string, pieces ...string) {
	t.Helper()
	for _, p := range pieces {
		if !strings.Contains(text, p) {
			t.Errorf("%q does not mention %q", text, p)
		}
	}
}
