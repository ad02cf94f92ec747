package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/activities/tool/delivery"
	"weft/activities/tool/lines"
	"weft/activities/tool/serverrequest"
	"weft/activities/tool/stream"
	"weft/activities/tool/tasks"
)

// rawTransport wraps the library's transport. It stores responses as the server sent them, and converts HTTP error statuses to errors.
type rawTransport struct {
	transport.BidirectionalInterface
	// requests, if set, answers requests of the server.
	requests *serverrequest.Server
}

// SetRequestHandler sets a handler that uses t.requests instead of the library's, which does not know which calls are in progress.
func (t rawTransport) SetRequestHandler(h transport.RequestHandler) {
	if t.requests != nil {
		h = func(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
			id, _ := json.Marshal(r.ID) // cannot fail: decoded from JSON
			params, _ := json.Marshal(r.Params)
			text := t.requests.Answer(ctx, &serverrequest.Request{ID: id, Method: r.Method, Params: params})
			if text == nil {
				return nil, nil
			}
			out := &transport.JSONRPCResponse{}
			return out, json.Unmarshal(text, out)
		}
	}
	t.BidirectionalInterface.SetRequestHandler(h)
}

// rawHTTPTransport is a rawTransport over streamable HTTP, which sends the protocol version in a header.
type rawHTTPTransport struct {
	rawTransport
	http    transport.HTTPConnection
	version atomic.Value // string
}

func (t *rawHTTPTransport) SetProtocolVersion(v string) {
	t.version.Store(v)
	t.http.SetProtocolVersion(v)
}

// header returns the headers that assign a request to the session, for requests that the library does not send.
func (t *rawHTTPTransport) header() http.Header {
	version, _ := t.version.Load().(string)
	return http.Header{"Mcp-Session-Id": {t.GetSessionId()}, "Mcp-Protocol-Version": {version}}
}

// SendRequest sends a request and stores its response. In the newest protocol, closing the request cancels it at the
// server; older protocols require a notification.
func (t *rawHTTPTransport) SendRequest(ctx context.Context, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	resp, err := sendRaw(ctx, t.http, req)
	if v, _ := t.version.Load().(string); !mcp.IsModernProtocol(v) {
		notifyCancelled(ctx, t.http, req)
	}
	return resp, err
}

// rawSSETransport wraps the SSE transport, whose server requests are answered below the library.
type rawSSETransport struct {
	transport.HTTPConnection
}

// SendRequest sends a request and stores its response. A cancelled request is reported to the server.
func (t rawSSETransport) SendRequest(ctx context.Context, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	resp, err := sendRaw(ctx, t.HTTPConnection, req)
	notifyCancelled(ctx, t.HTTPConnection, req)
	return resp, err
}

// cancellable are the methods whose cancellation is reported to the server.
var cancellable = []mcp.MCPMethod{mcp.MethodToolsCall, mcp.MethodResourcesRead, mcp.MethodTasksResult}

// notifyCancelled notifies a server of a cancelled call, which the library does only over stdio. It does not block.
func notifyCancelled(ctx context.Context, inner transport.Interface, req transport.JSONRPCRequest) {
	if ctx.Err() == nil || !slices.Contains(cancellable, mcp.MCPMethod(req.Method)) {
		return
	}
	note := mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION, Notification: mcp.Notification{
		Method: string(mcp.MethodNotificationCancelled),
		Params: mcp.NotificationParams{AdditionalFields: map[string]any{"requestId": req.ID, "reason": ctx.Err().Error()}},
	}}
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
		defer cancel()
		_ = inner.SendNotification(ctx, note)
	}()
}

// cancelTimeout limits the notification of a cancelled call.
const cancelTimeout = 2 * time.Second

// SendRequest sends a request and stores the response in the context's [answer], if any.
func (t rawTransport) SendRequest(ctx context.Context, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	delivery.MarkSent(ctx, req.Method == string(mcp.MethodToolsCall))
	resp, err := sendRaw(ctx, t.BidirectionalInterface, req)
	if errors.Is(err, lines.ErrEnded) || errors.Is(err, lines.ErrBacklog) {
		delivery.MarkSent(ctx, false)
	}
	return resp, err
}

// recordedMethods matches the methods whose responses are stored in an [answer].
var recordedMethods = regexp.MustCompile(`^(tools|tasks|prompts|resources)/`)

var errNoResult = errors.New("the response has neither a result nor an error")

func sendRaw(ctx context.Context, inner transport.Interface, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	ex := &exchange{}
	switch req.Method {
	case string(mcp.MethodToolsCall):
		req.Params = withInput(ctx, req.Params)
	case string(mcp.MethodInitialize):
		// Servers of these versions do not know extensions, which are part of the newest protocol.
		req.Params = editParams(req.Params, func(params map[string]json.RawMessage) {
			params["capabilities"], _ = json.Marshal(editParams(params["capabilities"], func(fields map[string]json.RawMessage) {
				delete(fields, "extensions")
			})) // cannot fail: raw JSON
		})
		ctx = delivery.Untracked(ctx)
	default:
		ctx, req = delivery.Untracked(ctx), tasks.Update(ctx, req)
	}
	resp, err := inner.SendRequest(withExchange(ctx, ex), req)
	if resp, err = ex.check(resp, err); err != nil {
		return nil, err
	}
	if req.Method == string(mcp.MethodServerDiscover) && slices.Contains(versionsInError(resp.Error), mcp.LATEST_PROTOCOL_VERSION) {
		// The server rejected a version that it supports, which the library would mistake for the response of an old server.
		ex = &exchange{}
		resp, err = inner.SendRequest(withExchange(ctx, ex), req)
		if resp, err = ex.check(resp, err); err != nil {
			return nil, err
		}
	}
	if req.Method == string(mcp.MethodServerDiscover) && resp.Error == nil {
		// An old server may respond to every method with an empty result.
		var discovered mcp.DiscoverResult
		if err := json.Unmarshal(resp.Result, &discovered); err != nil || len(discovered.SupportedVersions) == 0 {
			return nil, errNoResult
		}
	}
	if versions := versionsInError(resp.Error); req.Method == string(mcp.MethodInitialize) && versions != nil {
		return nil, mcp.UnsupportedProtocolVersionError{Version: "the client's", Supported: versions}
	}
	if a, ok := ctx.Value(answerKey{}).(*answer); ok && recordedMethods.MatchString(req.Method) {
		a.set(resp)
	}
	return resp, nil
}

// check returns the response, or the error that the HTTP layer recorded for the request.
func (e *exchange) check(resp *transport.JSONRPCResponse, err error) (*transport.JSONRPCResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.tooLarge:
		return nil, stream.ErrTooLarge
	case e.resumed && err != nil:
		// The server had accepted the request, so an unknown session does not mean that it was not executed.
		return nil, fmt.Errorf("the response stream ended early, and the server does not resume it: %s", textutil.ErrorText(err))
	case e.statusErr != nil:
		// Servers of the newest protocol reject requests with a 4xx status and a JSON-RPC error.
		if err == nil && resp != nil && resp.Error != nil && resp.Error.Code != 0 && mayCarryAnswer(e.statusErr.status) && !isSessionError(resp.Error) {
			return resp, nil
		}
		e.statusErr.err = err
		return nil, e.statusErr
	case err != nil:
		return nil, err
	case resp == nil, resp.Error == nil && (len(resp.Result) == 0 || string(resp.Result) == "null"):
		return nil, errNoResult
	}
	return resp, nil
}

// mayCarryAnswer reports whether a response with this error status may contain a JSON-RPC response.
func mayCarryAnswer(status int) bool {
	switch status {
	case 401, 402, 403, 407, 408, 413, 429:
		return false
	}
	return status < 500
}

// isSessionError reports whether a server does not know the session. It recognizes the errors of several SDKs.
func isSessionError(p *mcp.JSONRPCErrorDetails) bool {
	switch p.Code {
	case mcp.INVALID_REQUEST, -32000, -32001:
		return strings.Contains(strings.ToLower(p.Message), "session")
	}
	return false
}

// answer holds the response to the last request of a call.
type answer struct {
	mu       sync.Mutex
	result   []byte
	rpcError *mcp.JSONRPCErrorDetails
}

// answerKey is the context key of the *answer that stores the response.
type answerKey struct{}

func (a *answer) set(resp *transport.JSONRPCResponse) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.result, a.rpcError = resp.Result, resp.Error
}

func (a *answer) complete() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.result != nil || a.rpcError != nil
}

// inputKey is the context key of the *contract.ToolAnswers with the input that the server requested.
type inputKey struct{}

// withInput adds the input that the server requested to a call's parameters; the library adds only its own handlers' answers.
func withInput(ctx context.Context, params any) any {
	in, _ := ctx.Value(inputKey{}).(*contract.ToolAnswers)
	if in == nil {
		return params
	}
	return editParams(params, func(fields map[string]json.RawMessage) {
		if fields["requestState"] != nil {
			return // the library itself repeats the request with the server's new state
		}
		set := func(name string, v any, present bool) {
			if raw, err := json.Marshal(v); present && err == nil {
				fields[name] = raw
			}
		}
		set("inputResponses", in.Answers, len(in.Answers) > 0)
		set("requestState", in.State, in.State != "")
	})
}

func editParams(params any, edit func(map[string]json.RawMessage)) any {
	raw, err := json.Marshal(params)
	fields := map[string]json.RawMessage{}
	if err != nil || json.Unmarshal(raw, &fields) != nil {
		return params
	}
	edit(fields)
	return fields
}
