package tool

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// serveAt starts a server at an address that another server has just released.
func serveAt(t *testing.T, address string, h http.Handler) {
	t.Helper()
	var l net.Listener
	var err error
	for range 100 {
		if l, err = net.Listen("tcp", address); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
}

// legacy is a hand-written server of the older protocol, with sessions, that can violate the protocol. onCall, if set, responds
// to tools/call.
type legacy struct {
	onCall func(w http.ResponseWriter, id json.RawMessage, n int)
	onInit func(w http.ResponseWriter) bool
	lost   func(w http.ResponseWriter) // responds to requests with an unknown session; nil: 404
	list   string                      // result of tools/list
	many   bool                        // older sessions stay valid

	mu       sync.Mutex
	session  string
	sessions int
	calls    int
	seen     []string // method and Authorization of every request
}

func (l *legacy) remove() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session = "gone"
}

func (l *legacy) counts() (sessions, calls int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sessions, l.calls
}

func (l *legacy) requests() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.seen...)
}

func (l *legacy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	_ = json.Unmarshal(body, &m)
	l.mu.Lock()
	l.seen = append(l.seen, strings.TrimSpace(r.Method+" "+m.Method+" "+r.Header.Get("Authorization")))
	own := r.Header.Get("Mcp-Session-Id")
	known := own == l.session || l.many && own != "" && l.session != "gone"
	l.mu.Unlock()
	switch {
	case m.Method == "server/discover":
		reply400(w, m.ID, -32601, "Method not found")
	case m.Method == "initialize":
		if l.onInit != nil && l.onInit(w) {
			return
		}
		l.mu.Lock()
		l.sessions++
		l.session = fmt.Sprintf("s%d", l.sessions)
		w.Header().Set("Mcp-Session-Id", l.session)
		l.mu.Unlock()
		result(w, m.ID, `{"protocolVersion":"2025-03-26","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`)
	case !known && l.lost != nil:
		l.lost(w)
	case !known:
		http.Error(w, "unknown", http.StatusNotFound)
	case m.Method == "tools/list":
		result(w, m.ID, l.list)
	case m.Method == "tools/call":
		l.mu.Lock()
		l.calls++
		n := l.calls
		l.mu.Unlock()
		if l.onCall != nil {
			l.onCall(w, m.ID, n)
			return
		}
		result(w, m.ID, `{"content":[{"type":"text","text":"ok"}]}`)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func result(w http.ResponseWriter, id json.RawMessage, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

func reply400(w http.ResponseWriter, id json.RawMessage, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, id, code, message)
}
