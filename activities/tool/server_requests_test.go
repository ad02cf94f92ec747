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

// asker is a server over an event stream that asks its client, while a call runs, whether it is
// there and for something that it does not do, under the very number of the call.
type asker struct {
	events  chan string
	call    atomic.Value // the number of the call, as it is written
	answers chan string
}

func (a *asker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	say := func(format string, args ...any) {
		a.events <- "event: message\ndata: " + fmt.Sprintf(format, args...) + "\n\n"
	}
	switch {
	case m.Method == "server/discover":
		say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, m.ID)
	case m.Method == "initialize":
		say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}`, m.ID)
	case m.Method == "tools/call":
		a.call.Store(string(m.ID))
		// Two data lines form one message.
		say("{\"jsonrpc\":\"2.0\",\ndata: \"id\":%s,\"method\":\"ping\"}", m.ID)
	case m.Method == "" && len(m.Result) > 0:
		a.answers <- string(raw)
		say(`{"jsonrpc":"2.0","id":"%s","method":"roots/list"}`, a.call.Load())
	case m.Method == "" && len(m.Error) > 0:
		a.answers <- string(raw)
		say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"done"}],"structuredContent":{"method":"post"}}}`, a.call.Load())
	}
}

func TestServerAsksOverSSE(t *testing.T) {
	a := &asker{events: make(chan string, 10), answers: make(chan string, 10)}
	s := start(t, a)
	tools := open(t, Connection{Transport: TransportSSE, URL: s.URL + "/sse"})
	if text := must(t, tools, "x", `{}`); text != "done\n"+`{"method":"post"}` {
		t.Errorf("got %q", text)
	}
	for _, want := range []string{`"result":{}`, `"code":-32601`} {
		if got := <-a.answers; !strings.Contains(got, want) {
			t.Errorf("the server was answered %s, want %s in it", got, want)
		}
	}
	tools.Close()
}

// A stream with an invalid start is reported at once, and not only after the timeout for
// starting a session.
func TestStreamsWithAnInvalidStart(t *testing.T) {
	for name, tc := range map[string]struct{ first, class, says string }{
		"another server":   {"event: endpoint\ndata: http://internal.example:8000/messages?id=1\n\n", contract.ClassConnection, "endpoint is on another server: http://internal.example:8000/messages"},
		"another scheme":   {"event: endpoint\ndata: https://HOST/messages?id=1\n\n", contract.ClassConnection, "https://127.0.0.1:"},
		"it ends at once":  {"", contract.ClassUnavailable, "the event stream ended"},
		"it ends too soon": {": hello\n\n", contract.ClassUnavailable, "the event stream ended"},
		"no address":       {"event: endpoint\ndata: http://[x\n\n", contract.ClassConnection, "(not a URL)"},
		"it ends unshaken": {"event: endpoint\ndata: /sse\n\n", contract.ClassUnavailable, "the event stream ended"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, strings.Replace(tc.first, "HOST", r.Host, 1))
				w.(http.Flusher).Flush()
				if tc.class == contract.ClassConnection {
					<-r.Context().Done()
				}
			}))
			// It would take longer than the test may.
			tools := open(t, Connection{Transport: TransportSSE, URL: s.URL + "/sse", ConnectTimeout: time.Hour})
			_, _, err := said(tools.Call(soon(t, time.Minute), call("x", `{}`), Meta{}))
			fails(t, err, tc.class, tc.says)
		})
	}
}
