// Package serverrequest answers the requests that servers send to their client during a call, in protocol versions up to 2025-11-25.
package serverrequest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"weft/activities/contract"
)

const (
	// maxOpen is the maximum number of open requests of a server; further requests are refused.
	maxOpen = 16
	// runGrace is the additional time for the run to report that a request has expired.
	runGrace = 30 * time.Second
)

// ErrAnsweredLater is returned by an [Ask] if the request is answered later, outside of the call.
var ErrAnsweredLater = errors.New("the request is answered later")

// Request is a JSON-RPC request of a server. A notification has no id.
type Request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// Server answers the requests of the server of one session.
type Server struct {
	Policy

	mu    sync.Mutex
	calls []*Call
	open  map[string]*openRequest // by the request's id
	// openedURLs are the ids of elicitations whose completion the server has reported, which it may do before the request is
	// processed. It has about maxOpen entries.
	openedURLs []string
}

type openRequest struct {
	// ctx is done when the server no longer requires an answer.
	ctx    context.Context
	cancel context.CancelFunc
	// elicitationID identifies a URL for the user to open; opened means that the server has reported that it was opened.
	elicitationID string
	opened        bool
}

// Ask gets the answer to the n-th request of a call from a user or the run's model, within a time limit. q.Key is the request's id.
type Ask func(ctx context.Context, n int, q contract.ToolQuestion, within time.Duration) (*contract.ServerAnswer, error)

// Call is a call in progress, during which the server may send requests.
type Call struct {
	ctx   context.Context
	run   string
	ask   Ask
	clock *Clock
	n     int
	notes []string
}

type callKey struct{}

// BeginCall registers a call of a run until end is called, and returns a context with the call. ctx has the call's [Clock]. If
// ask is nil, requests that need a user or a model are refused.
func (s *Server) BeginCall(ctx context.Context, run string, ask Ask) (_ context.Context, c *Call, end func()) {
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
		s.calls = slices.DeleteFunc(s.calls, func(other *Call) bool { return other == c })
	}
}

// Notes returns text that informs the model of requests that were not answered in time.
func (c *Call) Notes() string {
	c.clock.mu.Lock()
	defer c.clock.mu.Unlock()
	return strings.Join(c.notes, "")
}

// callFor returns the call to which a server's request belongs: the call in whose response stream it was sent or, if it was not
// sent in one, the last call in progress. It returns nil if calls of several runs are in progress, because a run must not answer
// for another.
func (s *Server) callFor(ctx context.Context) *Call {
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

// Answer returns the JSON-RPC response to a request. It returns nil if the request is answered later, or repeats one that is
// still open. ctx is the context of the stream in which the request was sent.
func (s *Server) Answer(ctx context.Context, r *Request) []byte {
	result, refusal := s.result(ctx, r)
	switch {
	case refusal != nil:
		text, _ := json.Marshal(refusal.Text) // cannot fail for a string
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, r.ID, refusal.Code, text)
	case result == nil:
		return nil
	}
	return Response(string(r.ID), result)
}

func (s *Server) result(ctx context.Context, r *Request) (json.RawMessage, *Refusal) {
	if r.Method == string(mcp.MethodPing) {
		return json.RawMessage("{}"), nil
	}
	q, refusal := s.Parse(r.Method, r.Params)
	if refusal != nil || q.Answer != nil {
		return q.Answer, refusal
	}
	open, isNew := s.beginRequest(r)
	switch {
	case open == nil:
		return nil, refuse(mcp.INVALID_REQUEST, "too many open requests")
	case !isNew:
		return nil, nil
	}
	defer s.endRequest(r)
	q.Key = string(r.ID)
	return s.obtainAnswer(ctx, open, &q)
}

// Response returns the JSON-RPC response to the request with an id.
func Response(id string, result json.RawMessage) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

// beginRequest opens a request. It returns nil if too many requests are open. isNew is false if the request was open already.
func (s *Server) beginRequest(r *Request) (_ *openRequest, isNew bool) {
	var params struct {
		ElicitationID string `json:"elicitationId"`
	}
	_ = json.Unmarshal(r.Params, &params) // other requests have no elicitation id
	s.mu.Lock()
	defer s.mu.Unlock()
	if open := s.open[string(r.ID)]; open != nil {
		return open, false
	}
	if len(s.open) >= maxOpen {
		return nil, false
	}
	if s.open == nil {
		s.open = map[string]*openRequest{}
	}
	open := &openRequest{elicitationID: params.ElicitationID}
	open.ctx, open.cancel = context.WithCancel(context.Background())
	if open.elicitationID != "" && slices.Contains(s.openedURLs, open.elicitationID) {
		open.opened = true
		open.cancel()
	}
	s.open[string(r.ID)] = open
	return open, true
}

func (s *Server) endRequest(r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, string(r.ID))
}

// Notify processes a notification that the server has cancelled a request, or that a URL of a request was opened.
func (s *Server) Notify(method string, raw json.RawMessage) {
	var params struct {
		RequestID     json.RawMessage `json:"requestId"`
		ElicitationID string          `json:"elicitationId"`
	}
	if json.Unmarshal(raw, &params) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch method {
	case string(mcp.MethodNotificationCancelled):
		if open := s.open[string(params.RequestID)]; open != nil {
			open.cancel()
		}
	case string(mcp.MethodNotificationElicitationComplete):
		s.openedURLs = append(s.openedURLs[max(0, len(s.openedURLs)-maxOpen):], params.ElicitationID)
		for _, open := range s.open {
			if open.elicitationID != "" && open.elicitationID == params.ElicitationID {
				open.opened = true
				open.cancel()
			}
		}
	}
}

// obtainAnswer gets the answer to a request. If it returns neither a result nor a refusal, the request is answered later.
func (s *Server) obtainAnswer(ctx context.Context, open *openRequest, q *contract.ToolQuestion) (json.RawMessage, *Refusal) {
	c := s.callFor(ctx)
	if c == nil || c.ask == nil {
		return nil, refuse(mcp.INVALID_REQUEST, "the request cannot be assigned to a call, or the call accepts no requests; set session: run for the connection")
	}
	within := c.clock.pause()
	defer c.clock.resume()
	c.clock.mu.Lock()
	c.n++
	n := c.n
	c.clock.mu.Unlock()
	timeout := within
	if q.Sampling == nil {
		timeout += runGrace
	}
	askCtx, cancel := context.WithTimeout(c.ctx, timeout)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	defer context.AfterFunc(open.ctx, cancel)()
	a := &contract.ServerAnswer{Result: json.RawMessage(`{"action":"cancel"}`), Expired: true}
	var err error
	if within > 0 {
		a, err = c.ask(askCtx, n, *q, within)
	}
	s.mu.Lock()
	opened := open.opened
	s.mu.Unlock()
	if opened && (err != nil || a.Expired) {
		return json.RawMessage(`{"action":"accept"}`), nil
	}
	if err != nil && q.Sampling != nil && errors.Is(askCtx.Err(), context.DeadlineExceeded) {
		a, err = &contract.ServerAnswer{Expired: true}, nil
	}
	return s.outcome(c, q, a, err)
}

// outcome converts an answer to the result or the refusal for the server.
func (s *Server) outcome(c *Call, q *contract.ToolQuestion, a *contract.ServerAnswer, err error) (json.RawMessage, *Refusal) {
	switch {
	case errors.Is(err, ErrAnsweredLater):
		return nil, nil
	case err != nil:
		return nil, refuse(mcp.INTERNAL_ERROR, "the request could not be answered: %s", s.Redact(err.Error()))
	case a.Problem != "":
		return nil, refuse(mcp.INVALID_REQUEST, "%s", a.Problem)
	case a.Expired && q.Sampling != nil:
		return nil, refuse(mcp.INTERNAL_ERROR, "the model did not answer in time")
	case a.Expired:
		c.addNote("asked %q during the call, and nobody answered in time", q.Text)
	}
	return a.Result, nil
}

// addNote adds a note for the model.
func (c *Call) addNote(format string, args ...any) {
	c.clock.mu.Lock()
	defer c.clock.mu.Unlock()
	c.notes = append(c.notes, "\n[the tool "+fmt.Sprintf(format, args...)+"]")
}

// Clock limits the time of a call and, separately, the time of its requests, during which the call's own time is suspended.
type Clock struct {
	mu                 sync.Mutex
	callTime, waitTime time.Duration // remaining time of the call (0 means no limit) and of its requests
	waiting            int
	since              time.Time
	timer              *time.Timer
	end                context.CancelCauseFunc
}

type clockKey struct{}

// WithClock returns a context that is cancelled with cause [context.DeadlineExceeded] after callTime, not counting the time of
// the server's requests, which may take at most waitTime together. A callTime of 0 means no limit.
func WithClock(ctx context.Context, callTime, waitTime time.Duration) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	c := &Clock{callTime: callTime, waitTime: waitTime, end: end}
	c.start()
	return context.WithValue(ctx, clockKey{}, c), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.timer != nil {
			c.timer.Stop()
		}
		end(nil)
	}
}

// clockOf returns the clock of a context. If it has none, the clock does not limit the call and has no time for requests.
func clockOf(ctx context.Context) *Clock {
	if c, ok := ctx.Value(clockKey{}).(*Clock); ok {
		return c
	}
	return &Clock{}
}

// start resumes the call's own time. The lock is held, or the clock is not shared yet.
func (c *Clock) start() {
	if c.since = time.Now(); c.callTime > 0 {
		c.timer = time.AfterFunc(c.callTime, func() { c.end(context.DeadlineExceeded) })
	}
}

// pause suspends the call's own time, and returns the remaining time for requests.
func (c *Clock) pause() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.waiting++; c.waiting > 1 {
		return c.waitTime - now.Sub(c.since)
	}
	if c.timer != nil && c.timer.Stop() {
		c.callTime = max(c.callTime-now.Sub(c.since), 1)
	}
	c.since = now
	return c.waitTime
}

func (c *Clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting--; c.waiting == 0 {
		c.waitTime -= time.Since(c.since)
		c.start()
	}
}
