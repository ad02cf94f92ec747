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
	"weft/activities/tool/render"
	"weft/activities/tool/serverrequest"
	"weft/activities/tool/tasks"
)

const (
	// metaKey is the _meta field that carries the idempotency key.
	metaKey = "weft/idempotency-key"
	// keyHeader carries it over HTTP. It is in lower case because Go's transport repeats requests that have the canonical name.
	keyHeader = "idempotency-key"
	// lossGrace is the time to process a response that arrived just before the connection was lost.
	lossGrace = 100 * time.Millisecond
	// maxTimeouts is the number of consecutive timeouts after which a command is restarted.
	maxTimeouts = 3
)

// discardLog discards the library's log, which quotes messages of servers.
var discardLog = slog.New(slog.DiscardHandler)

// mcpTransport is a transport with its hooks.
type mcpTransport struct {
	transport transport.Interface
	// lost is done when the server has ended or the connection is lost.
	lost context.Context
	// serverRequests answers requests of the server.
	serverRequests *serverrequest.Server
	// restartOnTimeouts means that a server whose calls time out is replaced by a new one.
	restartOnTimeouts bool
	// explain, if set, adds the reason for which the server ended to an error.
	explain func(error) error
	// close ends the server's process or the network connections.
	close func()
	// respond sends the response to a request of the server without the library's client.
	respond func(ctx context.Context, message []byte) error
	// listen, if set, reads the session's own stream, in which the server may send requests, until done is called.
	listen func(ctx context.Context) (done func())
}

// transports has the constructor of each transport, by [Connection.Transport].
var transports = map[string]func(at *target) (*mcpTransport, error){
	TransportHTTP:  newHTTPTransport,
	TransportSSE:   newSSETransport,
	TransportStdio: newStdioTransport,
}

type session struct {
	at             *target
	mcpTransport   *mcpTransport
	client         *client.Client
	isConfigured   atomic.Bool
	timeouts       atomic.Int32
	progressTokens atomic.Int64
	closing        sync.Once
	// localID identifies the session if the transport has no session ids.
	localID string

	mu       sync.Mutex
	progress map[string]chan string // by progress token
}

// discoverTimeout limits, over HTTP, the request that discovers whether a server supports the newest version of the protocol.
// Older servers reject that request over HTTP; over stdio some ignore it, so the library's five seconds apply there.
const discoverTimeout = 30 * time.Second

// dialMCP starts the transport and initializes the session. ctx bounds only the start, not the session.
func dialMCP(ctx context.Context, at *target) (remote, error) {
	w, err := transports[at.conn.Transport](at)
	if err != nil {
		return nil, classifyDial(at, err)
	}
	var o []client.ClientOption
	if at.conn.Transport == TransportHTTP {
		o = append(o, client.WithDiscoverTimeout(discoverTimeout))
	}
	if at.resumesSession() {
		o = append(o, client.WithSession())
	}
	s := &session{at: at, mcpTransport: w, client: client.NewClient(w.transport, o...), progress: map[string]chan string{}, localID: rand.Text()}
	if err := s.initialize(ctx); err != nil {
		if w.explain != nil {
			err = w.explain(err)
		}
		s.close()
		return nil, classifyDial(at, err)
	}
	return s, nil
}

func (s *session) initialize(ctx context.Context) error {
	// For SSE, Start's context is that of the stream, so it must outlive ctx.
	lifetime, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	closeTransport := s.mcpTransport.close
	s.mcpTransport.close = func() { cancel(); closeTransport() }
	ex := &exchange{}
	stopLost := context.AfterFunc(s.mcpTransport.lost, cancel)
	err := s.client.Start(withExchange(lifetime, ex))
	stopLost()
	if err != nil {
		if cause := context.Cause(s.mcpTransport.lost); cause != nil {
			return cause
		}
		_, err = ex.check(nil, err)
		return err
	}
	if !stop() {
		return ctx.Err()
	}
	s.client.OnNotification(s.onNotification)
	if s.at.resumesSession() {
		s.mcpTransport.transport.(*rawHTTPTransport).SetProtocolVersion(s.at.session.Version)
		return nil
	}
	// The library would wait for a response even if the stream on which it would arrive has ended.
	handshake, done := context.WithCancel(ctx)
	defer done()
	defer context.AfterFunc(s.mcpTransport.lost, func() { time.AfterFunc(lossGrace, done) })()
	req := mcp.InitializeRequest{Params: mcp.InitializeParams{ClientInfo: mcp.Implementation{Name: "weft", Version: "1"},
		Capabilities: s.mcpTransport.serverRequests.Capabilities()}}
	req.Params.Capabilities.Extensions = map[string]any{tasks.Extension: struct{}{}}
	_, err = s.client.Initialize(handshake, req)
	if version := newestCommonVersion(supportedVersions(err)); version != "" {
		// The server rejected the newest version instead of negotiating one.
		req.Params.ProtocolVersion = version
		_, err = s.client.Initialize(handshake, req)
	}
	if err != nil && handshake.Err() != nil && ctx.Err() == nil {
		return context.Cause(s.mcpTransport.lost)
	}
	return err
}

func (s *session) usable(idle bool) bool {
	if s.mcpTransport.lost.Err() != nil {
		return false
	}
	return !s.mcpTransport.restartOnTimeouts || !idle || s.timeouts.Load() < maxTimeouts
}

// resumesSession reports whether the target continues an existing session, perhaps of another worker.
func (t *target) resumesSession() bool {
	return t.session.ID != "" && t.conn.Transport == TransportHTTP
}

// hasState reports whether the server keeps a session. Over streamable HTTP, sessions are optional.
func (s *session) hasState() bool {
	return s.at.conn.Transport != TransportHTTP || s.mcpTransport.transport.GetSessionId() != ""
}

func (s *session) close() {
	s.closing.Do(func() {
		_ = s.client.Close()
		s.mcpTransport.close()
	})
}

// call makes one call. A server that requires parameters in headers rejects it without executing it; the call
// is then made again after listing the tools, from which the library learns the headers.
func (s *session) call(ctx context.Context, in contract.ToolInput, m Meta) (Result, error) {
	switch {
	case in.TaskID != "":
		return s.pollTask(ctx, &in)
	case in.Resource != "":
		return s.readResource(ctx, in.Resource)
	}
	a, notes, err := s.callOnce(ctx, in, m)
	if err == nil && a.rpcError != nil && a.rpcError.Code == mcp.HEADER_MISMATCH && !s.isConfigured.Load() {
		if _, err := s.list(ctx, nil); err != nil {
			return Result{}, err
		}
		a, notes, err = s.callOnce(ctx, in, m)
	}
	if err != nil {
		return Result{}, err
	}
	var r Result
	if a.rpcError != nil {
		r, err = s.errorResult(a.rpcError)
	} else {
		r, err = s.callResult(in.Name, a.result, in.Connection.WholeResults, in.Outputs)
	}
	r.Text += notes
	return r, err
}

func (s *session) callOnce(ctx context.Context, in contract.ToolInput, m Meta) (_ *answer, notes string, _ error) {
	req := mcp.CallToolRequest{Params: mcp.CallToolParams{Name: in.Name, Arguments: in.Arguments}}
	if ttl := tasks.TTLMillis; in.AsTask {
		req.Params.Task = &mcp.TaskParams{TTL: &ttl}
	}
	meta := &mcp.Meta{AdditionalFields: map[string]any{}}
	if m.IdempotencyKey != "" {
		meta.AdditionalFields[metaKey] = m.IdempotencyKey
		req.Header = http.Header{keyHeader: {m.IdempotencyKey}}
	}
	if m.Progress != nil {
		token, stop := s.subscribeProgress(m.Progress)
		defer stop()
		meta.ProgressToken = token
	}
	if m.Progress != nil || m.IdempotencyKey != "" {
		req.Params.Meta = meta
	}
	ctx, call, end := s.beginCall(context.WithValue(ctx, inputKey{}, in.Input), m.Ask)
	defer end()
	a, err := s.request(ctx, tasks.Request(s.client.CallTool, req))
	return a, call.Notes(), err
}

// beginCall has requests of the server answered during a call, until end is called.
func (s *session) beginCall(ctx context.Context, ask serverrequest.Ask) (_ context.Context, call *serverrequest.Call, end func()) {
	ctx, call, endCall := s.mcpTransport.serverRequests.BeginCall(ctx, callerOf(ctx).Run, ask)
	if s.mcpTransport.listen == nil || ask == nil || mcp.IsModernProtocol(s.client.ProtocolVersion()) {
		return ctx, call, endCall
	}
	done := s.mcpTransport.listen(ctx)
	return ctx, call, func() { endCall(); done() }
}

// request makes one request and returns the result as the server sent it, because the library loses the precision
// of numbers, parts of schemas, and results with unknown content.
func (s *session) request(ctx context.Context, send func(context.Context) error) (*answer, error) {
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
		// The library has a timer with the same deadline, which may fire first.
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

// subscribeProgress registers a receiver of progress notifications. It does not block the connection's read loop.
func (s *session) subscribeProgress(receive func(string)) (token string, stop func()) {
	token = fmt.Sprintf("weft-%d", s.progressTokens.Add(1))
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

func (s *session) onNotification(n mcp.JSONRPCNotification) {
	if n.Method != "notifications/progress" {
		raw, _ := json.Marshal(n.Params.AdditionalFields) // cannot fail: decoded from JSON
		s.mcpTransport.serverRequests.Notify(n.Method, raw)
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
	case texts <- s.at.secrets.mask(short(progressText(fields))):
	default:
	}
}

func progressText(fields map[string]any) string {
	text := formatNumber(fields["progress"])
	if total, ok := fields["total"]; ok {
		text += "/" + formatNumber(total)
	}
	if message, _ := fields["message"].(string); message != "" {
		text += " " + message
	}
	return text
}

// formatNumber formats a number without an exponent: 1500000, not 1.5e+06.
func formatNumber(v any) string {
	switch v := v.(type) {
	case nil:
		return "?"
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

// errorResult converts a JSON-RPC error to a result for the model or, if the connection is at fault, to an error.
func (s *session) errorResult(p *mcp.JSONRPCErrorDetails) (Result, error) {
	switch p.Code {
	case mcp.UNSUPPORTED_PROTOCOL_VERSION:
		return Result{}, fmt.Errorf("%w: %s", errSessionUnknown, p.Message)
	case mcp.PARSE_ERROR, mcp.INVALID_REQUEST, mcp.HEADER_MISMATCH, mcp.MISSING_REQUIRED_CLIENT_CAPABILITY:
		return Result{}, s.at.failure(contract.ClassBadRequest,
			fmt.Sprintf("the server rejected the request (%d): %s", p.Code, p.Message), "")
	case lines.CodeTooLarge:
		return Result{}, s.at.tooLarge()
	case mcp.URL_ELICITATION_REQUIRED:
		requests, refusal := s.at.policy().ParseURLs(p.Data)
		if refusal == nil {
			return Result{Text: "the server requires users to open URLs before it accepts the call: " + p.Message, Failed: true,
				Input: &contract.InputRequired{Questions: requests, RepeatCall: true}}, nil
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

// toolResult is a result of tools/call.
type toolResult struct {
	render.Result
	ResultType    string                           `json:"resultType"`
	InputRequests map[string]serverrequest.Request `json:"inputRequests"`
	RequestState  string                           `json:"requestState"`
}

// inputRequired returns the result of a call for which the server requires more input.
func (s *session) inputRequired(name string, r *toolResult) (Result, error) {
	requests, refusal := s.at.policy().ParseAll(r.InputRequests)
	switch {
	case refusal != nil:
		return Result{Text: fmt.Sprintf("request of tool %q cannot be answered: %s", name, refusal.Text), Failed: true}, nil
	case len(requests) == 0 && r.RequestState == "":
		return Result{}, s.at.malformed("result of tool %q requires input but has neither inputRequests nor requestState", name)
	}
	return Result{Text: fmt.Sprintf("tool %q requires more input from its caller", name), Failed: true,
		Input: &contract.InputRequired{State: r.RequestState, Questions: requests}}, nil
}

// callResult converts a result of tools/call to text for models or, if unabridged is true, to its unabridged JSON.
func (s *session) callResult(name string, raw []byte, unabridged bool, outputs []string) (Result, error) {
	var r toolResult
	if err := json.Unmarshal(raw, &r); err != nil {
		return Result{}, s.at.malformed("invalid result of tool %q: %v", name, err)
	}
	if r.ResultType == string(mcp.ResultTypeInputRequired) {
		return s.inputRequired(name, &r)
	}
	if t := tasks.Created(raw); t != nil {
		return s.workingResult(name, t), nil
	}
	out, err := Result{Failed: r.IsError, Links: r.Links()}, error(nil)
	if unabridged {
		out.Text, err = render.Unabridged(raw)
	} else {
		out.Text, out.Media, err = r.Text(outputs)
	}
	if err != nil {
		return Result{}, s.at.malformed("invalid result of tool %q: %v", name, err)
	}
	return out, nil
}
