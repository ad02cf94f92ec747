// Package questions answers the requests that servers send to their client during a call, in protocol versions up to 2025-11-25.
package questions

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"weft/activities/contract"
)

const (
	// maxOpen is how many requests of a server wait for their answers at a time; more are refused.
	maxOpen = 16
	// maxBytes bounds what a server asks.
	maxBytes = 64 << 10
)

// Request is one of a server's.
type Request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// Server is what asks: the server of one session.
type Server struct {
	// Text takes secrets out of texts.
	Text func(string) string

	mu    sync.Mutex
	calls []*Call
	open  map[string]context.CancelFunc // by the request's id
}

// Ask has somebody answer the n-th question of a call, within a time.
type Ask func(ctx context.Context, n int, q contract.ToolQuestion, within time.Duration) (*contract.ServerAnswer, error)

// Call is one that the server holds.
type Call struct {
	ctx   context.Context
	run   string
	ask   Ask
	clock *Clock
	n     int
	notes []string
}

type callKey struct{}

// Begin adds a call of a run, until end. ctx, from then on with the call, has the call's [Clock]. Without ask nothing is
// answered.
func (s *Server) Begin(ctx context.Context, run string, ask Ask) (_ context.Context, c *Call, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	c = &Call{run: run, ask: ask, clock: clockOf(ctx)}
	ctx = context.WithValue(ctx, callKey{}, c)
	c.ctx = ctx
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, c)
	return ctx, c, func() {
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		for i := range s.calls {
			if s.calls[i] == c {
				s.calls = append(s.calls[:i:i], s.calls[i+1:]...)
				break
			}
		}
	}
}

// Notes say what was asked and not answered in time, for the model.
func (c *Call) Notes() string {
	c.clock.mu.Lock()
	defer c.clock.mu.Unlock()
	return strings.Join(c.notes, "")
}

// asking is the call for which a server asks: the one in whose answer's stream it does. Otherwise it is the last one in
// progress, unless calls of several runs are: one must not answer for another.
func (s *Server) asking(ctx context.Context) *Call {
	if c, ok := ctx.Value(callKey{}).(*Call); ok {
		return c
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var last *Call
	for _, c := range s.calls {
		if last != nil && last.run != c.run {
			return nil
		}
		last = c
	}
	return last
}

// Answer answers a request, as JSON-RPC; nil: it is a repeated one, whose answer is on its way. ctx is that of the stream that
// brought it.
func (s *Server) Answer(ctx context.Context, r *Request) []byte {
	result, code, text := json.RawMessage("{}"), 0, ""
	switch r.Method {
	case string(mcp.MethodPing):
	case string(mcp.MethodElicitationCreate):
		ctx, done, repeated := s.begin(ctx, string(r.ID))
		if repeated {
			return nil
		}
		defer done()
		if result, code, text = nil, mcp.INVALID_REQUEST, "too many requests wait for answers"; ctx != nil {
			result, code, text = s.elicit(ctx, r)
		}
	default:
		code, text = mcp.METHOD_NOT_FOUND, "this client has no such method"
	}
	if text == "" {
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, r.ID, result)
	}
	encoded, _ := json.Marshal(text) // a text
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, r.ID, code, encoded)
}

// begin opens a request. ctx is nil where too many are open.
func (s *Server) begin(ctx context.Context, id string) (_ context.Context, done func(), repeated bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[id] != nil {
		return nil, nil, true
	}
	if len(s.open) >= maxOpen {
		return nil, func() {}, false
	}
	if s.open == nil {
		s.open = map[string]context.CancelFunc{}
	}
	ctx, cancel := context.WithCancel(ctx)
	s.open[id] = cancel
	return ctx, func() {
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, id)
	}, false
}

// Withdraw ends a request that the server has cancelled.
func (s *Server) Withdraw(id json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.open[string(id)]; cancel != nil {
		cancel()
	}
}

// elicit has a person answer. code and text are those of a refusal.
func (s *Server) elicit(ctx context.Context, r *Request) (result json.RawMessage, code int, text string) {
	q, text := s.question(r.Params)
	if text != "" {
		return nil, mcp.INVALID_PARAMS, text
	}
	c := s.asking(ctx)
	if c == nil || c.ask == nil {
		return nil, mcp.INVALID_REQUEST, "it cannot be told which call asks, or nobody can be asked for it; the connection needs session: run"
	}
	within := c.clock.pause()
	defer c.clock.resume()
	c.clock.mu.Lock()
	c.n++
	n := c.n
	c.clock.mu.Unlock()
	asking, cancel := context.WithCancel(c.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	a := &contract.ServerAnswer{Result: json.RawMessage(`{"action":"cancel"}`), Expired: true}
	if within > 0 {
		var err error
		if a, err = c.ask(asking, n, q, within); err != nil {
			return nil, mcp.INTERNAL_ERROR, "nobody could be asked: " + s.Text(err.Error())
		}
	}
	if a.Problem != "" {
		return nil, mcp.INVALID_REQUEST, a.Problem
	}
	if a.Expired {
		c.clock.mu.Lock()
		c.notes = append(c.notes, fmt.Sprintf("\n[the tool asked %q during the call, and nobody answered in time]", q.Text))
		c.clock.mu.Unlock()
	}
	return a.Result, 0, ""
}

// question reads the parameters of elicitation/create; problem says what is wrong with them.
func (s *Server) question(raw json.RawMessage) (q contract.ToolQuestion, problem string) {
	var p struct {
		Mode, Message, URL string
		RequestedSchema    json.RawMessage
	}
	if len(raw) > maxBytes {
		return q, fmt.Sprintf("the request has %d bytes, at most %d are taken", len(raw), maxBytes)
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return q, err.Error()
	}
	q = contract.ToolQuestion{Text: s.Text(p.Message), Schema: p.RequestedSchema}
	if p.Mode == "url" {
		at, err := url.Parse(p.URL)
		if err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" {
			return q, "url is not a http or https URL"
		}
		q.Schema, q.URL = nil, p.URL
	} else if len(p.RequestedSchema) == 0 {
		return q, "requestedSchema is missing"
	}
	return q, ""
}
