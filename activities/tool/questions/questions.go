// Package questions answers the requests that servers send to their client during a call, in protocol versions up to 2025-11-25.
package questions

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
	// maxOpen is how many requests of a server wait for their answers at a time; more are refused.
	maxOpen = 16
	// runGrace is for the run to say by itself that nobody has answered in time.
	runGrace = 30 * time.Second
)

// ErrLater is the error of an [Ask] whose question is answered later, outside of the call.
var ErrLater = errors.New("it is answered later")

// Request is one of a server's. Notifications have no id.
type Request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// Server is what asks: the server of one session.
type Server struct {
	Policy

	mu    sync.Mutex
	calls []*Call
	open  map[string]*openRequest // by the request's id
	// opened are URLs that the server has told were opened, by its names: that can overtake the request. At most maxOpen.
	opened []string
}

type openRequest struct {
	// ended is done where the server wants no answer any more.
	ended context.Context
	end   context.CancelFunc
	// elicitation is the server's name of a URL that is to be opened; opened: the server says that it was.
	elicitation string
	opened      bool
}

// Ask has a person, or the run's model, answer the n-th question of a call within a time. The question's key is the request's id.
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
		s.calls = slices.DeleteFunc(s.calls, func(other *Call) bool { return other == c })
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

// Answer answers a request, as JSON-RPC; nil: it is answered later, or is a repeated one, whose answer is on its way. ctx is that of
// the stream that brought it.
func (s *Server) Answer(ctx context.Context, r *Request) []byte {
	result, wrong := s.result(ctx, r)
	switch {
	case wrong != nil:
		text, _ := json.Marshal(wrong.Text) // a text
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, r.ID, wrong.Code, text)
	case result == nil:
		return nil
	}
	return Response(string(r.ID), result)
}

func (s *Server) result(ctx context.Context, r *Request) (json.RawMessage, *Refusal) {
	if r.Method == string(mcp.MethodPing) {
		return json.RawMessage("{}"), nil
	}
	q, wrong := s.Read(r.Method, r.Params)
	if wrong != nil || q.Answer != nil {
		return q.Answer, wrong
	}
	open, fresh := s.begin(r)
	switch {
	case open == nil:
		return nil, refuse(mcp.INVALID_REQUEST, "too many requests wait for answers")
	case !fresh:
		return nil, nil
	}
	defer s.end(r)
	q.Key = string(r.ID)
	return s.ask(ctx, open, &q)
}

// Response is the answer to a request with an id, as JSON-RPC.
func Response(id string, result json.RawMessage) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

// begin opens a request, unless too many are open. It is not fresh where it was open already.
func (s *Server) begin(r *Request) (_ *openRequest, fresh bool) {
	var params struct {
		ElicitationID string `json:"elicitationId"`
	}
	_ = json.Unmarshal(r.Params, &params) // others have none
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
	open := &openRequest{elicitation: params.ElicitationID}
	open.ended, open.end = context.WithCancel(context.Background())
	if open.elicitation != "" && slices.Contains(s.opened, open.elicitation) {
		open.opened = true
		open.end()
	}
	s.open[string(r.ID)] = open
	return open, true
}

func (s *Server) end(r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, string(r.ID))
}

// Notify takes a notification: that the server has cancelled a request, or that a URL was opened for which it has asked.
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
			open.end()
		}
	case string(mcp.MethodNotificationElicitationComplete):
		s.opened = append(s.opened[max(0, len(s.opened)-maxOpen):], params.ElicitationID)
		for _, open := range s.open {
			if open.elicitation != "" && open.elicitation == params.ElicitationID {
				open.opened = true
				open.end()
			}
		}
	}
}

// ask has a question answered. Without a result and a refusal it is answered later.
func (s *Server) ask(ctx context.Context, open *openRequest, q *contract.ToolQuestion) (json.RawMessage, *Refusal) {
	c := s.asking(ctx)
	if c == nil || c.ask == nil {
		return nil, refuse(mcp.INVALID_REQUEST, "it cannot be told which call asks, or nobody can be asked for it; the connection needs session: run")
	}
	within := c.clock.pause()
	defer c.clock.resume()
	c.clock.mu.Lock()
	c.n++
	n := c.n
	c.clock.mu.Unlock()
	bound := within
	if q.Sampling == nil {
		bound += runGrace
	}
	asking, cancel := context.WithTimeout(c.ctx, bound)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	defer context.AfterFunc(open.ended, cancel)()
	a := &contract.ServerAnswer{Result: json.RawMessage(`{"action":"cancel"}`), Expired: true}
	var err error
	if within > 0 {
		a, err = c.ask(asking, n, *q, within)
	}
	s.mu.Lock()
	opened := open.opened
	s.mu.Unlock()
	if opened && (err != nil || a.Expired) {
		return json.RawMessage(`{"action":"accept"}`), nil
	}
	if err != nil && q.Sampling != nil && errors.Is(asking.Err(), context.DeadlineExceeded) {
		a, err = &contract.ServerAnswer{Expired: true}, nil
	}
	return s.outcome(c, q, a, err)
}

// outcome is what the server gets of an answer.
func (s *Server) outcome(c *Call, q *contract.ToolQuestion, a *contract.ServerAnswer, err error) (json.RawMessage, *Refusal) {
	switch {
	case errors.Is(err, ErrLater):
		return nil, nil
	case err != nil:
		return nil, refuse(mcp.INTERNAL_ERROR, "nobody could be asked: %s", s.Text(err.Error()))
	case a.Problem != "":
		return nil, refuse(mcp.INVALID_REQUEST, "%s", a.Problem)
	case a.Expired && q.Sampling != nil:
		return nil, refuse(mcp.INTERNAL_ERROR, "the model did not answer in time")
	case a.Expired:
		c.note("asked %q during the call, and nobody answered in time", q.Text)
	}
	return a.Result, nil
}

// note adds to what the model is told.
func (c *Call) note(format string, args ...any) {
	c.clock.mu.Lock()
	defer c.clock.mu.Unlock()
	c.notes = append(c.notes, "\n[the tool "+fmt.Sprintf(format, args...)+"]")
}

// Clock bounds a call: by its own time, which stands still while somebody is asked, and by the time for that.
type Clock struct {
	mu        sync.Mutex
	own, hold time.Duration // what is left; own is 0 where nothing bounds it
	asked     int
	since     time.Time
	timer     *time.Timer
	end       context.CancelCauseFunc
}

type clockKey struct{}

// WithClock returns a context that ends after own, the time not counted in which somebody is asked, hold at most; own is 0
// where nothing bounds the call. Its cause is [context.DeadlineExceeded] then.
func WithClock(ctx context.Context, own, hold time.Duration) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	c := &Clock{own: own, hold: hold, end: end}
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

// clockOf is the clock of a context; one that bounds nothing, and has no time for questions, where it has none.
func clockOf(ctx context.Context) *Clock {
	if c, ok := ctx.Value(clockKey{}).(*Clock); ok {
		return c
	}
	return &Clock{}
}

// start lets the call's own time go on. The lock is held, or nobody else knows the clock yet.
func (c *Clock) start() {
	if c.since = time.Now(); c.own > 0 {
		c.timer = time.AfterFunc(c.own, func() { c.end(context.DeadlineExceeded) })
	}
}

// pause stops the call's own time, and returns how long somebody may be asked.
func (c *Clock) pause() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.asked++; c.asked > 1 {
		return c.hold - now.Sub(c.since)
	}
	if c.timer != nil && c.timer.Stop() {
		c.own = max(c.own-now.Sub(c.since), 1)
	}
	c.since = now
	return c.hold
}

func (c *Clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked--; c.asked == 0 {
		c.hold -= time.Since(c.since)
		c.start()
	}
}
