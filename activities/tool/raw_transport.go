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
	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/activities/tool/delivery"
	"weft/activities/tool/lines"
	"weft/activities/tool/questions"
	"weft/activities/tool/stream"
	"weft/activities/tool/tasks"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// rawTransport is between the library's client and its transport. It keeps the server's own bytes, and turns HTTP
// statuses into errors.
type rawTransport struct {
	transport.BidirectionalInterface
	// asks, if set, answers what the server asks.
	asks *questions.Server
}

// SetRequestHandler replaces the library's, which refuses what it does not know and knows no calls.
func (t rawTransport) SetRequestHandler(h transport.RequestHandler) {
	if t.asks != nil {
		h = func(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
			id, _ := json.Marshal(r.ID) // what was decoded can be encoded
			params, _ := json.Marshal(r.Params)
			text := t.asks.Answer(ctx, &questions.Request{ID: id, Method: r.Method, Params: params})
			if text == nil {
				return nil, nil
			}
			out := &transport.JSONRPCResponse{}
			return out, json.Unmarshal(text, out)
		}
	}
	t.BidirectionalInterface.SetRequestHandler(h)
}

// rawHTTPTransport is a rawTransport on a transport that sends the protocol's version in a header.
type rawHTTPTransport struct {
	rawTransport
	http    transport.HTTPConnection
	version atomic.Value // string
}

func (t *rawHTTPTransport) SetProtocolVersion(v string) {
	t.version.Store(v)
	t.http.SetProtocolVersion(v)
}

// header says to which session a request belongs that is not the library's.
func (t *rawHTTPTransport) header() http.Header {
	version, _ := t.version.Load().(string)
	return http.Header{"Mcp-Session-Id": {t.GetSessionId()}, "Mcp-Protocol-Version": {version}}
}

// SendRequest sends a request and keeps its answer. In the newest protocol the end
// of the request cancels it at the server; before, a notification does.
func (t *rawHTTPTransport) SendRequest(ctx context.Context, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	resp, err := sendRaw(ctx, t.http, req)
	if v, _ := t.version.Load().(string); !mcp.IsModernProtocol(v) {
		notifyCancelled(ctx, t.http, req)
	}
	return resp, err
}

// rawSSETransport is a rawHTTPTransport on a transport without requests from the server.
type rawSSETransport struct {
	transport.HTTPConnection
}

// SendRequest sends a request as [rawTransport.SendRequest] does.
func (t rawSSETransport) SendRequest(ctx context.Context, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	resp, err := sendRaw(ctx, t.HTTPConnection, req)
	notifyCancelled(ctx, t.HTTPConnection, req)
	return resp, err
}

// cancellable are the requests of whose end a server is notified.
var cancellable = []mcp.MCPMethod{mcp.MethodToolsCall, mcp.MethodResourcesRead, mcp.MethodTasksResult}

// notifyCancelled notifies a server of a cancelled call, which the library does for commands only. It does not
// block.
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

// cancelTimeout bounds how long a server has to take note of a cancelled call.
const cancelTimeout = 2 * time.Second

// SendRequest sends a request and keeps the answer for whoever asked with an [answerKey].
func (t rawTransport) SendRequest(ctx context.Context, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	delivery.MarkSent(ctx, req.Method == string(mcp.MethodToolsCall))
	resp, err := sendRaw(ctx, t.BidirectionalInterface, req)
	if errors.Is(err, lines.ErrEnded) || errors.Is(err, lines.ErrBacklog) {
		delivery.MarkSent(ctx, false)
	}
	return resp, err
}

// asked are the methods whose answers are kept, but not those that begin a session.
var asked = regexp.MustCompile(`^(tools|tasks|prompts|resources)/`)

var errNoResult = errors.New("the answer has neither a result nor an error")

func sendRaw(ctx context.Context, inner transport.Interface, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	ex := &exchange{}
	switch req.Method {
	case string(mcp.MethodToolsCall):
		req.Params = inputOf(ctx, req.Params)
	case string(mcp.MethodInitialize):
		// What else the newest protocol has, servers of these versions do not know.
		req.Params = edited(req.Params, func(params map[string]json.RawMessage) {
			params["capabilities"], _ = json.Marshal(edited(params["capabilities"], func(known map[string]json.RawMessage) {
				delete(known, "extensions")
			})) // raw JSON
		})
		ctx = delivery.Untracked(ctx)
	default:
		ctx, req = delivery.Untracked(ctx), tasks.Update(ctx, req)
	}
	resp, err := inner.SendRequest(withExchange(ctx, ex), req)
	if resp, err = ex.judge(resp, err); err != nil {
		return nil, err
	}
	if req.Method == string(mcp.MethodServerDiscover) && slices.Contains(versionsIn(resp.Error), mcp.LATEST_PROTOCOL_VERSION) {
		// The server refuses the version that it asks for, which the library takes for an old server's answer.
		ex = &exchange{}
		resp, err = inner.SendRequest(withExchange(ctx, ex), req)
		if resp, err = ex.judge(resp, err); err != nil {
			return nil, err
		}
	}
	if req.Method == string(mcp.MethodServerDiscover) && resp.Error == nil {
		// An old server may answer every method with an empty result.
		var found mcp.DiscoverResult
		if err := json.Unmarshal(resp.Result, &found); err != nil || len(found.SupportedVersions) == 0 {
			return nil, errNoResult
		}
	}
	if versions := versionsIn(resp.Error); req.Method == string(mcp.MethodInitialize) && versions != nil {
		return nil, mcp.UnsupportedProtocolVersionError{Version: "the client's", Supported: versions}
	}
	if a, ok := ctx.Value(answerKey{}).(*answer); ok && asked.MatchString(req.Method) {
		a.set(resp)
	}
	return resp, nil
}

// judge says what a response is worth, given the HTTP status that came with it.
func (e *exchange) judge(resp *transport.JSONRPCResponse, err error) (*transport.JSONRPCResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.tooLarge:
		return nil, stream.ErrTooLarge
	case e.resumed && err != nil:
		// The server had taken the request: that it does not know the session now is no refusal.
		return nil, fmt.Errorf("the stream of the answer ended early, and the server does not go on with it: %s", textutil.ErrorText(err))
	case e.refusal != nil:
		// Servers of the newest protocol refuse with 4xx and a real JSON-RPC error.
		if err == nil && resp != nil && resp.Error != nil && resp.Error.Code != 0 && refuses(e.refusal.status) && !aboutSession(resp.Error) {
			return resp, nil
		}
		e.refusal.err = err
		return nil, e.refusal
	case err != nil:
		return nil, err
	case resp == nil, resp.Error == nil && (len(resp.Result) == 0 || string(resp.Result) == "null"):
		return nil, errNoResult
	}
	return resp, nil
}

// refuses are the statuses that may carry an answer to the request itself.
func refuses(status int) bool {
	switch status {
	case 401, 402, 403, 407, 408, 413, 429:
		return false
	}
	return status < 500
}

// aboutSession recognizes how other SDKs' servers say that they do not know a session.
func aboutSession(p *mcp.JSONRPCErrorDetails) bool {
	switch p.Code {
	case mcp.INVALID_REQUEST, -32000, -32001:
		return strings.Contains(strings.ToLower(p.Message), "session")
	}
	return false
}

// answer is what a server said to the last request of a call.
type answer struct {
	mu      sync.Mutex
	result  []byte
	problem *mcp.JSONRPCErrorDetails
}

// answerKey is the key of the *answer that takes what the server says.
type answerKey struct{}

func (a *answer) set(resp *transport.JSONRPCResponse) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.result, a.problem = resp.Result, resp.Error
}

func (a *answer) complete() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.result != nil || a.problem != nil
}

// inputKey is the key of the *contract.ToolAnswers that a call brings: what its server asked for.
type inputKey struct{}

// inputOf are the parameters of a call with what its server asked for. The library brings nothing but its own handlers' answers.
func inputOf(ctx context.Context, params any) any {
	in, _ := ctx.Value(inputKey{}).(*contract.ToolAnswers)
	if in == nil {
		return params
	}
	return edited(params, func(fields map[string]json.RawMessage) {
		if fields["requestState"] != nil {
			return // the library asks again, as the server's later answer wants it
		}
		set := func(name string, v any, is bool) {
			if raw, err := json.Marshal(v); is && err == nil {
				fields[name] = raw
			}
		}
		set("inputResponses", in.Answers, len(in.Answers) > 0)
		set("requestState", in.State, in.State != "")
	})
}

func edited(params any, edit func(map[string]json.RawMessage)) any {
	raw, err := json.Marshal(params)
	fields := map[string]json.RawMessage{}
	if err != nil || json.Unmarshal(raw, &fields) != nil {
		return params
	}
	edit(fields)
	return fields
}
