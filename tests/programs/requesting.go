package programs

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// RequestingServer is an MCP server whose only tool, book, sends requests to its client and returns the answers as text. It supports
// streamable HTTP, SSE (at /sse), and, with [RequestingServer.Serve], standard input and output.
type RequestingServer struct {
	// Requests are JSON objects with method and params. They are sent one after another during the call, or, if
	// Modern (2026-07-28), all at once.
	Requests []string
	Modern   bool
	// InSession sends the requests in the session's own stream.
	InSession bool
	// URLs is the data of the error -32042 with which the first Refusals calls are rejected.
	URLs string
	// Note, if set, is a notification that follows each request.
	Note string
	// Refusals is the number of calls to reject.
	Refusals int

	mu           sync.Mutex
	capabilities string
	calls, asked int
	answers      map[string]chan string
	stream       chan string
}

// Capabilities returns the capabilities of the client, as JSON.
func (s *RequestingServer) Capabilities() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.capabilities
}

// Calls returns the number of tool calls received.
func (s *RequestingServer) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

type askingMessage struct {
	ID            json.RawMessage
	Method        string
	Result, Error json.RawMessage
	Params        struct {
		Capabilities   json.RawMessage
		InputResponses json.RawMessage
		Meta           map[string]json.RawMessage `json:"_meta"`
	}
}

func (s *RequestingServer) answer(id string) chan string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answers == nil {
		s.answers, s.stream = map[string]chan string{}, make(chan string, 100)
	}
	if s.answers[id] == nil {
		s.answers[id] = make(chan string, 1)
	}
	return s.answers[id]
}

// handle handles a message of the client, to which send sends messages.
func (s *RequestingServer) handle(ctx context.Context, raw []byte, send func(string)) {
	var m askingMessage
	if json.Unmarshal(raw, &m) != nil {
		return
	}
	id := string(m.ID)
	reply := func(result string) { send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)) }
	switch {
	case m.Method == "" && id != "":
		select {
		case s.answer(id) <- string(m.Result) + string(m.Error):
		default:
		}
	case m.Method == "initialize" && !s.Modern:
		s.setCapabilities(m.Params.Capabilities)
		reply(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`)
	case m.Method == "server/discover" && s.Modern:
		reply(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`)
	case m.Method == "tools/list":
		reply(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"book","inputSchema":{"type":"object"}}]}`)
	case m.Method == "tools/call":
		s.call(ctx, id, &m, send, reply)
	case id != "":
		send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, id))
	}
}

func (s *RequestingServer) setCapabilities(capabilities json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capabilities = string(capabilities)
}

func (s *RequestingServer) call(ctx context.Context, id string, m *askingMessage, send, reply func(string)) {
	s.mu.Lock()
	s.calls++
	reject := s.calls <= s.Refusals
	s.mu.Unlock()
	if reject {
		send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"log in first","data":%s}}`, id, s.URLs))
		return
	}
	text := func(answers []string) {
		raw, _ := json.Marshal(strings.Join(answers, "\n")) // a string can always be encoded
		reply(fmt.Sprintf(`{"resultType":"complete","content":[{"type":"text","text":%s}]}`, raw))
	}
	if s.Modern {
		s.setCapabilities(m.Params.Meta["io.modelcontextprotocol/clientCapabilities"])
		if len(m.Params.InputResponses) > 0 || len(s.Requests) == 0 {
			text([]string{string(m.Params.InputResponses), "booked"})
			return
		}
		var asks []string
		for i, ask := range s.Requests {
			asks = append(asks, fmt.Sprintf(`"q%d":%s`, i, ask))
		}
		reply(fmt.Sprintf(`{"resultType":"input_required","requestState":"s","inputRequests":{%s}}`, strings.Join(asks, ",")))
		return
	}
	var answers []string
	for _, ask := range s.Requests {
		s.mu.Lock()
		s.asked++
		own := fmt.Sprint(700 + s.asked)
		s.mu.Unlock()
		answer := s.answer(own)
		to := send
		if s.InSession {
			to = func(text string) { s.stream <- text }
		}
		to(`{"jsonrpc":"2.0","id":` + own + "," + strings.TrimPrefix(ask, "{"))
		if s.Note != "" {
			to(s.Note)
		}
		select {
		case a := <-answer:
			answers = append(answers, a)
		case <-ctx.Done():
			return
		}
	}
	text(append(answers, "booked"))
}

// Serve serves a client over standard input and output.
func (s *RequestingServer) Serve(in io.Reader, out io.Writer) {
	var mu sync.Mutex
	send := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(out, text)
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		line := []byte(lines.Text())
		go s.handle(context.Background(), line, send)
	}
}

// ServeHTTP serves a client over streamable HTTP, or over SSE.
func (s *RequestingServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.answer("") // creates the channels
	flush := w.(http.Flusher).Flush
	sse := strings.HasSuffix(r.URL.Path, "/sse")
	if r.Method == http.MethodGet {
		if !sse && !s.InSession {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		if sse {
			fmt.Fprint(w, "event: endpoint\ndata: /post\n\n")
		}
		for flush(); ; flush() {
			select {
			case text := <-s.stream:
				fmt.Fprintf(w, "event: message\ndata: %s\n\n", text)
			case <-r.Context().Done():
				return
			}
		}
	}
	raw, _ := io.ReadAll(r.Body)
	if r.URL.Path == "/post" {
		w.WriteHeader(http.StatusAccepted)
		go s.handle(context.Background(), raw, func(text string) { s.stream <- text })
		return
	}
	if !strings.Contains(string(raw), `"method"`) || !strings.Contains(string(raw), `"id"`) {
		s.handle(r.Context(), raw, nil)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Mcp-Session-Id", "s1")
	s.handle(r.Context(), raw, func(text string) {
		fmt.Fprintf(w, "event: message\ndata: %s\n\n", text)
		flush()
	})
}
