package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// echoed returns the URL and headers of a request as text, as a careless server would echo them.
func echoed(q *http.Request) string {
	return fmt.Sprintf("you sent %s with %q", q.URL.String(), q.Header)
}

// echoModel is a model server that echoes requests. The first element of the path selects a handler of echoAnswers or
// the status of an error; any other path gets a stream that breaks off with an error.
func echoModel(w http.ResponseWriter, q *http.Request) {
	first, _, _ := strings.Cut(strings.TrimPrefix(q.URL.Path, "/"), "/")
	if answer, ok := echoAnswers[first]; ok {
		answer(w, q)
		return
	}
	status, err := strconv.Atoi(first)
	text := strconv.Quote(echoed(q))
	switch {
	case err != nil: // a stream that breaks
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"id\":\"1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"half\"}}]}\n\ndata: {\"error\":{\"message\":%s,\"code\":400}}\n\n", text)
	case status == http.StatusOK:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"error":{"message":%s,"type":"invalid_request_error","code":400}}`, text)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"message":%s,"type":"x"},"authorization":%s}`, text, text)
	}
}

// echoAnswers are successful responses that echo the request.
var echoAnswers = map[string]http.HandlerFunc{
	// A streamed response, slow enough to appear in heartbeats.
	"good": func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for word := range strings.SplitSeq(echoed(q), " ") {
			piece, _ := json.Marshal(word + " ")
			fmt.Fprintf(w, "data: {\"id\":\"1\",\"model\":%s,\"choices\":[{\"index\":0,\"delta\":{\"content\":%s}}]}\n\n", piece, piece)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(50 * time.Millisecond)
		}
		fmt.Fprint(w, "data: {\"id\":\"1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	},
	// A tool call with the secret as argument, then a text.
	"calls": func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		message := `{"role":"assistant","content":"done"}`
		finish := "stop"
		if !bytes.Contains(body, []byte(`"role":"tool"`)) {
			args, _ := json.Marshal(map[string]string{"to": echoed(q)})
			quoted, _ := json.Marshal(string(args))
			message, finish = fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"say","arguments":%s}}]}`, quoted), "tool_calls"
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"1","model":"m","choices":[{"index":0,"message":%s,"finish_reason":%q}]}`, message, finish)
	},
	// A redirect to a URL that contains the secret.
	"away": func(w http.ResponseWriter, q *http.Request) {
		http.Redirect(w, q, "/good/?key="+url.QueryEscape(q.Header.Get("Authorization")), http.StatusTemporaryRedirect)
	},
	// A response to an API node, with a letter of each secret escaped.
	"api": func(w http.ResponseWriter, q *http.Request) {
		text, _ := json.Marshal(echoed(q))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"said":%s}`, strings.ReplaceAll(string(text), "canary", `\u0063anary`))
	},
}

// echoTools is an MCP server whose tools echo the request's headers in a result, in a tool error and in a protocol
// error, or echo the request in an HTTP error.
func echoTools() http.Handler {
	s := server.NewMCPServer("shameless", "1", server.WithToolCapabilities(false))
	for _, name := range []string{"say", "refuse"} {
		s.AddTool(mcp.NewTool(name), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			res := mcp.NewToolResultText(fmt.Sprintf("%q", req.Header))
			res.StructuredContent = map[string]any{"headers": req.Header}
			res.IsError = name == "refuse"
			return res, nil
		})
	}
	s.AddTool(mcp.NewTool("break"), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, fmt.Errorf("broken by %q", req.Header)
	})
	s.AddTool(mcp.NewTool("crash"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) { return nil, nil })
	h := server.NewStreamableHTTPServer(s)
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		if strings.Contains(string(body), `"crash"`) {
			http.Error(w, echoed(q), http.StatusBadRequest)
			return
		}
		q.Body = io.NopCloser(bytes.NewReader(body))
		h.ServeHTTP(w, q)
	})
}
