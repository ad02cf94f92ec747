package tool

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"weft/activities/contract"
	"weft/activities/tool/lines"
	"weft/activities/tool/questions"
	"weft/activities/tool/render"
	"weft/activities/tool/tasks"
)

const (
	// metaKey is the field of _meta that carries the idempotency key.
	metaKey = "weft/idempotency-key"
	// keyHeader carries it over HTTP, in lower case: Go's transport repeats requests that have the canonical
	// name.
	keyHeader = "idempotency-key"
	// lossGrace lets an answer that came just before the connection ended win.
	lossGrace = 100 * time.Millisecond
	// maxTimeouts is how many consecutive calls may time out before a command is restarted.
	maxTimeouts = 3
)

// discardLog swallows the library's log, which quotes what servers say.
var discardLog = slog.New(slog.DiscardHandler)

// mcpTransport is a transport that has been made ready, with what ends it.
type mcpTransport struct {
	transport transport.Interface
	// lost is done when the server or the connection is gone.
	lost context.Context
	// asks answers what the server asks.
	asks *questions.Server
	// restarts: timeouts say that the server hangs, and a new one would not.
	restarts bool
	// explain adds to an error what is known of the server's end; may be nil.
	explain func(error) error
	// close ends what is behind the transport.
	close func()
	// respond sends the server an answer to a request of its own, outside of what the library does.
	respond func(ctx context.Context, message []byte) error
	// listen, if set, has what the server asks in the session's own stream heard until done.
	listen func(ctx context.Context) (done func())
}

// transports are the ways to an MCP server, by [Connection.Transport].
var transports = map[string]func(at *target) (*mcpTransport, error){
	TransportHTTP:  newHTTPTransport,
	TransportSSE:   newSSETransport,
	TransportStdio: newStdioTransport,
}

type session struct {
	at           *target
	mcpTransport *mcpTransport
	client       *client.Client
	isConfigured atomic.Bool
	timeouts     atomic.Int32
	tokens       atomic.Int64
	closing      sync.Once
	// own names the session where the server has no name for it.
	own string

	mu       sync.Mutex
	progress map[string]chan string // by progress token
}

// discoverTimeout is how long a server has to say, over HTTP, that it speaks the newest version of the protocol. Older servers refuse
// the question there; over stdio some ignore it, so that the library's five seconds apply.
const discoverTimeout = 30 * time.Second

// dialMCP starts the transport and initializes the session. ctx bounds only the start.
func dialMCP(ctx context.Context, at *target) (remote, error) {
	w, err := transports[at.conn.Transport](at)
	if err != nil {
		return nil, classifyDial(at, err)
	}
	var o []client.ClientOption
	if at.conn.Transport == TransportHTTP {
		o = append(o, client.WithDiscoverTimeout(discoverTimeout))
	}
	if at.continues() {
		o = append(o, client.WithSession())
	}
	s := &session{at: at, mcpTransport: w, client: client.NewClient(w.transport, o...), progress: map[string]chan string{}, own: rand.Text()}
	if err := s.begin(ctx); err != nil {
		if w.explain != nil {
			err = w.explain(err)
		}
		s.close()
		return nil, classifyDial(at, err)
	}
	return s, nil
}

func (s *session) begin(ctx context.Context) error {
	// Start's context is the stream's for SSE, so it must outlive ctx.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	inner := s.mcpTransport.close
	s.mcpTransport.close = func() { end(); inner() }
	ex := &exchange{}
	early := context.AfterFunc(s.mcpTransport.lost, end)
	err := s.client.Start(withExchange(life, ex))
	early()
	if err != nil {
		if cause := context.Cause(s.mcpTransport.lost); cause != nil {
			return cause
		}
		_, err = ex.judge(nil, err)
		return err
	}
	if !stop() {
		return ctx.Err()
	}
	s.client.OnNotification(s.notified)
	if s.at.continues() {
		s.mcpTransport.transport.(*rawHTTPTransport).SetProtocolVersion(s.at.session.Version)
		return nil
	}
	// The library waits for an answer, though the stream on which it would come has ended.
	shake, done := context.WithCancel(ctx)
	defer done()
	defer context.AfterFunc(s.mcpTransport.lost, func() { time.AfterFunc(lossGrace, done) })()
	hello := mcp.InitializeRequest{Params: mcp.InitializeParams{ClientInfo: mcp.Implementation{Name: "weft", Version: "1"},
		Capabilities: s.mcpTransport.asks.Capabilities()}}
	hello.Params.Capabilities.Extensions = map[string]any{tasks.Extension: struct{}{}}
	_, err = s.client.Initialize(shake, hello)
	if version := common(versionsOf(err)); version != "" {
		// It refuses the newest version instead of naming its own.
		hello.Params.ProtocolVersion = version
		_, err = s.client.Initialize(shake, hello)
	}
	if err != nil && shake.Err() != nil && ctx.Err() == nil {
		return context.Cause(s.mcpTransport.lost)
	}
	return err
}

func (s *session) usable(idle bool) bool {
	if s.mcpTransport.lost.Err() != nil {
		return false
	}
	return !s.mcpTransport.restarts || !idle || s.timeouts.Load() < maxTimeouts
}

// continues reports whether the target has a session of another worker's to go on with.
func (t *target) continues() bool { return t.session.ID != "" && t.conn.Transport == TransportHTTP }

// hasState reports whether the server has a session of this client's: over streamable HTTP it need not.
func (s *session) hasState() bool {
	return s.at.conn.Transport != TransportHTTP || s.mcpTransport.transport.GetSessionId() != ""
}

func (s *session) close() {
	s.closing.Do(func() {
		_ = s.client.Close()
		s.mcpTransport.close()
	})
}

// call makes one call. A server that wants parameters in headers refuses it, unexecuted, until its tools were
// listed.
func (s *session) call(ctx context.Context, in contract.ToolInput, m Meta) (Result, error) {
	switch {
	case in.TaskID != "":
		return s.task(ctx, &in)
	case in.Resource != "":
		return s.resource(ctx, in.Resource)
	}
	a, notes, err := s.callOnce(ctx, in, m)
	if err == nil && a.problem != nil && a.problem.Code == mcp.HEADER_MISMATCH && !s.isConfigured.Load() {
		if _, err := s.list(ctx, nil); err != nil {
			return Result{}, err
		}
		a, notes, err = s.callOnce(ctx, in, m)
	}
	if err != nil {
		return Result{}, err
	}
	var r Result
	if a.problem != nil {
		r, err = s.problem(a.problem)
	} else {
		r, err = s.reply(in.Name, a.result, in.Connection.WholeResults, in.Outputs)
	}
	r.Text += notes
	return r, err
}

func (s *session) callOnce(ctx context.Context, in contract.ToolInput, m Meta) (_ *answer, notes string, _ error) {
	req := mcp.CallToolRequest{Params: mcp.CallToolParams{Name: in.Name, Arguments: in.Arguments}}
	if keep := tasks.KeepMillis; in.AsTask {
		req.Params.Task = &mcp.TaskParams{TTL: &keep}
	}
	meta := &mcp.Meta{AdditionalFields: map[string]any{}}
	if m.IdempotencyKey != "" {
		meta.AdditionalFields[metaKey] = m.IdempotencyKey
		req.Header = http.Header{keyHeader: {m.IdempotencyKey}}
	}
	if m.Progress != nil {
		token, stop := s.follow(m.Progress)
		defer stop()
		meta.ProgressToken = token
	}
	if m.Progress != nil || m.IdempotencyKey != "" {
		req.Params.Meta = meta
	}
	ctx, call, end := s.hold(context.WithValue(ctx, inputKey{}, in.Input), m.Ask)
	defer end()
	a, err := s.ask(ctx, tasks.Request(s.client.CallTool, req))
	return a, call.Notes(), err
}

// hold has what the server asks during a call answered, until end.
func (s *session) hold(ctx context.Context, ask questions.Ask) (_ context.Context, call *questions.Call, end func()) {
	ctx, call, over := s.mcpTransport.asks.Begin(ctx, callerOf(ctx).Run, ask)
	if s.mcpTransport.listen == nil || ask == nil || mcp.IsModernProtocol(s.client.ProtocolVersion()) {
		return ctx, call, over
	}
	done := s.mcpTransport.listen(ctx)
	return ctx, call, func() { over(); done() }
}

// ask makes one request and returns the server's own bytes: the library loses numbers, parts of schemas, and
// results with an unknown part.
func (s *session) ask(ctx context.Context, send func(context.Context) error) (*answer, error) {
	run, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(s.mcpTransport.lost, func() {
		select {
		case <-time.After(lossGrace):
			cancel(context.Cause(s.mcpTransport.lost))
		case <-run.Done():
		}
	})
	defer stop()
	a := &answer{}
	err := send(context.WithValue(run, answerKey{}, a))
	if a.complete() {
		s.timeouts.Store(0)
		return a, nil
	}
	if d, ok := ctx.Deadline(); ok && time.Until(d) < 10*time.Millisecond {
		// The library's own timer ends with the deadline, and can win.
		<-ctx.Done()
	}
	switch {
	case err == nil:
		err = errNoResult
	case ctx.Err() != nil:
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			s.timeouts.Add(1)
		}
		return nil, ctx.Err()
	case run.Err() != nil:
		err = context.Cause(run)
	}
	if s.mcpTransport.explain != nil {
		err = s.mcpTransport.explain(err)
	}
	if sessionUnknown(err) {
		return nil, fmt.Errorf("%w: %w", errSessionUnknown, err)
	}
	return nil, err
}

// follow registers a receiver of progress texts. The connection's read loop does not wait for it.
func (s *session) follow(receive func(string)) (token string, stop func()) {
	token = fmt.Sprintf("weft-%d", s.tokens.Add(1))
	texts := make(chan string, 16)
	s.mu.Lock()
	s.progress[token] = texts
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for text := range texts {
			receive(text)
		}
	}()
	return token, func() {
		s.mu.Lock()
		delete(s.progress, token)
		close(texts)
		s.mu.Unlock()
		<-done
	}
}

func (s *session) notified(n mcp.JSONRPCNotification) {
	if n.Method != "notifications/progress" {
		raw, _ := json.Marshal(n.Params.AdditionalFields) // what was decoded can be encoded
		s.mcpTransport.asks.Notify(n.Method, raw)
		return
	}
	fields := n.Params.AdditionalFields
	token, _ := fields["progressToken"].(string)
	s.mu.Lock()
	defer s.mu.Unlock()
	texts := s.progress[token]
	if texts == nil {
		return
	}
	select {
	case texts <- s.at.secrets.text(short(progressText(fields))):
	default:
	}
}

func progressText(fields map[string]any) string {
	text := inDigits(fields["progress"])
	if total, ok := fields["total"]; ok {
		text += "/" + inDigits(total)
	}
	if message, _ := fields["message"].(string); message != "" {
		text += " " + message
	}
	return text
}

// inDigits is a number as people write it, 1500000 and not 1.5e+06.
func inDigits(v any) string {
	switch v := v.(type) {
	case nil:
		return "?"
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

// problem separates the tool's errors, for the model, from those of the connection.
func (s *session) problem(p *mcp.JSONRPCErrorDetails) (Result, error) {
	switch p.Code {
	case mcp.UNSUPPORTED_PROTOCOL_VERSION:
		return Result{}, fmt.Errorf("%w: %s", errSessionUnknown, p.Message)
	case mcp.PARSE_ERROR, mcp.INVALID_REQUEST, mcp.HEADER_MISMATCH, mcp.MISSING_REQUIRED_CLIENT_CAPABILITY:
		return Result{}, s.at.failure(contract.ClassBadRequest,
			fmt.Sprintf("the server refused the request (%d): %s", p.Code, p.Message), "")
	case lines.CodeTooLarge:
		return Result{}, s.at.tooLarge()
	case mcp.URL_ELICITATION_REQUIRED:
		asked, wrong := s.at.policy().URLs(p.Data)
		if wrong == nil {
			return Result{Text: "the server wants people to open URLs before it takes the call: " + p.Message, Failed: true,
				Input: &contract.InputRequired{Questions: asked, Anew: true}}, nil
		}
	}
	text := cmp.Or(p.Message, fmt.Sprintf("error %d", p.Code))
	if p.Data != nil {
		if data, err := json.Marshal(p.Data); err == nil && string(data) != `""` {
			text += " " + string(data)
		}
	}
	return Result{Text: text, Failed: true}, nil
}

// toolResult is a result of tools/call in the server's own bytes.
type toolResult struct {
	render.Result
	ResultType    string                       `json:"resultType"`
	InputRequests map[string]questions.Request `json:"inputRequests"`
	RequestState  string                       `json:"requestState"`
}

// inputRequired is what a server needs before it answers a call.
func (s *session) inputRequired(name string, r *toolResult) (Result, error) {
	asked, wrong := s.at.policy().ReadAll(r.InputRequests)
	switch {
	case wrong != nil:
		return Result{Text: fmt.Sprintf("tool %q asks what cannot be answered: %s", name, wrong.Text), Failed: true}, nil
	case len(asked) == 0 && r.RequestState == "":
		return Result{}, s.at.malformed("result of tool %q: it requires input, and has neither inputRequests nor a requestState", name)
	}
	return Result{Text: fmt.Sprintf("tool %q asks its caller for more input", name), Failed: true,
		Input: &contract.InputRequired{State: r.RequestState, Questions: asked}}, nil
}

// reply is a result as a text for models, or as its unabridged JSON.
func (s *session) reply(name string, raw []byte, whole bool, outputs []string) (Result, error) {
	var r toolResult
	if err := json.Unmarshal(raw, &r); err != nil {
		return Result{}, s.at.malformed("result of tool %q: %v", name, err)
	}
	if r.ResultType == string(mcp.ResultTypeInputRequired) {
		return s.inputRequired(name, &r)
	}
	if t := tasks.Created(raw); t != nil {
		return s.working(name, t), nil
	}
	out, err := Result{Failed: r.IsError, Links: r.Links()}, error(nil)
	if whole {
		out.Text, err = render.Whole(raw)
	} else {
		out.Text, out.Media, err = r.Text(outputs)
	}
	if err != nil {
		return Result{}, s.at.malformed("result of tool %q: %v", name, err)
	}
	return out, nil
}
