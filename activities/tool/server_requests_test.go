package tool

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weft/activities/contract"
)

// sseServer is a server that, during a call, sends a ping and an unsupported request to its client, both under the same
// request id as the call.
type sseServer struct {
	events  chan string
	call    atomic.Value // the request id of the call, as JSON
	answers chan string
}

func (a *sseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: endpoint\ndata: /post\n\n")
		for {
			w.(http.Flusher).Flush()
			select {
			case e := <-a.events:
				fmt.Fprint(w, e)
			case <-r.Context().Done():
				return
			}
		}
	}
	raw, _ := io.ReadAll(r.Body)
	var m struct {
		ID            json.RawMessage
		Method        string
		Result, Error json.RawMessage
	}
	_ = json.Unmarshal(raw, &m)
	w.WriteHeader(http.StatusAccepted)
	send := func(format string, args ...any) {
		a.events <- "event: message\ndata: " + fmt.Sprintf(format, args...) + "\n\n"
	}
	switch {
	case m.Method == "server/discover":
		send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, m.ID)
	case m.Method == "initialize":
		send(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}`, m.ID)
	case m.Method == "tools/call":
		a.call.Store(string(m.ID))
		// Two data lines form one message.
		send("{\"jsonrpc\":\"2.0\",\ndata: \"id\":%s,\"method\":\"ping\"}", m.ID)
	case m.Method == "" && len(m.Result) > 0:
		a.answers <- string(raw)
		send(`{"jsonrpc":"2.0","id":"%s","method":"roots/list"}`, a.call.Load())
	case m.Method == "" && len(m.Error) > 0:
		a.answers <- string(raw)
		send(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"done"}],"structuredContent":{"method":"post"}}}`, a.call.Load())
	}
}

func TestServerRequestsOverSSE(t *testing.T) {
	a := &sseServer{events: make(chan string, 10), answers: make(chan string, 10)}
	s := start(t, a)
	tools := open(t, Connection{Transport: TransportSSE, URL: s.URL + "/sse"})
	if text := mustCall(t, tools, "x", `{}`); text != "done\n"+`{"method":"post"}` {
		t.Errorf("got %q", text)
	}
	for _, want := range []string{`"result":{}`, `"code":-32601`} {
		if got := <-a.answers; !strings.Contains(got, want) {
			t.Errorf("response to the server is %s, want one with %s", got, want)
		}
	}
	tools.Close()
}

// TestInvalidStreamStart checks that an invalid start of a stream is reported immediately, and not after the connection
// timeout.
func TestInvalidStreamStart(t *testing.T) {
	for name, tc := range map[string]struct{ start, class, text string }{
		"another server":           {"event: endpoint\ndata: http://internal.example:8000/messages?id=1\n\n", contract.ClassConnection, "endpoint is on another server: http://internal.example:8000/messages"},
		"another scheme":           {"event: endpoint\ndata: https://HOST/messages?id=1\n\n", contract.ClassConnection, "https://127.0.0.1:"},
		"immediate end":            {"", contract.ClassUnavailable, "the event stream ended"},
		"end before the endpoint":  {": hello\n\n", contract.ClassUnavailable, "the event stream ended"},
		"invalid endpoint":         {"event: endpoint\ndata: http://[x\n\n", contract.ClassConnection, "(not a URL)"},
		"end before the handshake": {"event: endpoint\ndata: /sse\n\n", contract.ClassUnavailable, "the event stream ended"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, strings.Replace(tc.start, "HOST", r.Host, 1))
				w.(http.Flusher).Flush()
				if tc.class == contract.ClassConnection {
					<-r.Context().Done()
				}
			}))
			// The test would exceed its own timeout.
			tools := open(t, Connection{Transport: TransportSSE, URL: s.URL + "/sse", ConnectTimeout: time.Hour})
			_, _, err := resultText(tools.Call(withTimeout(t, time.Minute), call("x", `{}`), Meta{}))
			wantFailure(t, err, tc.class, tc.text)
		})
	}
}
