package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// TestOutcome fails a call in every way, over MCP and as a request of a flow. Its outcome is unknown if the server
// may have executed it.
func TestOutcome(t *testing.T) {
	status := func(code int, after string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if after != "" {
				w.Header().Set("Retry-After", after)
			}
			w.WriteHeader(code)
		}
	}
	reset := func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			c.Close()
		}
	}
	cutStream := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Length", "9")
	}
	tests := map[string]struct {
		answer  http.HandlerFunc
		class   string
		unknown bool
	}{
		"reset after the request":    {answer: reset, class: contract.ClassUnavailable, unknown: true},
		"a stream without an answer": {answer: cutStream, class: contract.ClassUnavailable, unknown: true},
		"an answer cut short":        {answer: halfAnAnswer, class: contract.ClassUnavailable, unknown: true},
		"no answer in time":          {answer: silent200, class: contract.ClassTimeout, unknown: true},
		"too many":                   {answer: status(429, ""), class: contract.ClassRateLimited},
		"unavailable, come again":    {answer: status(503, "0"), class: contract.ClassUnavailable},
		"unavailable":                {answer: status(503, ""), class: contract.ClassUnavailable, unknown: true},
		"broken":                     {answer: status(500, "1"), class: contract.ClassUnavailable, unknown: true},
		"a gateway without a server": {answer: status(502, ""), class: contract.ClassUnavailable, unknown: true},
		"a gateway that waited":      {answer: status(504, ""), class: contract.ClassTimeout, unknown: true},
		"timeout of the request":     {answer: status(408, ""), class: contract.ClassTimeout, unknown: true},
		"denied":                     {answer: status(403, ""), class: contract.ClassDenied},
	}
	for name, tc := range tests {
		for _, kind := range []string{"MCP", "request"} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				var calls atomic.Int32
				answer := func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body) // else the server does not notice that its client has gone
					calls.Add(1)
					tc.answer(w, r)
				}
				in, c := call("x", `{}`), Connection{Timeout: 2 * time.Second}
				if kind == "MCP" {
					l := &legacy{}
					l.onCall = func(w http.ResponseWriter, _ json.RawMessage, _ int) {
						answer(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil))
					}
					c.URL = start(t, l).URL
				} else {
					c.URL = "http://x"
					in = posting(start(t, http.HandlerFunc(answer)).URL)
					in.Connection.TimeoutSeconds = 2
				}
				if tc.class != contract.ClassTimeout {
					c.Timeout, in.Connection.TimeoutSeconds = 30*time.Second, 30
				}
				tools := open(t, c, func(s *Settings) { s.AllowLoopback = true })
				_, _, err := said(tools.Call(soon(t, time.Minute), in, Meta{}))
				if f := fails(t, err, tc.class); f.OutcomeUnknown != tc.unknown || calls.Load() != 1 || strings.Contains(f.Text, "nil") {
					t.Errorf("after %d calls the outcome is unknown: %v, want %v: %v", calls.Load(), f.OutcomeUnknown, tc.unknown, f)
				}
			})
		}
	}
}

// TestOutcomeWithoutAServer covers an address without a server, and a command that dies during the call.
func TestOutcomeWithoutAServer(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, in := range map[string]Connection{"MCP": {URL: gone.URL}, "SSE": {URL: gone.URL, Transport: TransportSSE}} {
		_, _, err := said(open(t, in).Call(soon(t, time.Minute), call("x", `{}`), Meta{}))
		if f := fails(t, err, contract.ClassUnavailable, "refused"); f.OutcomeUnknown {
			t.Errorf("%s: the outcome of a refused connection is unknown", name)
		}
	}
	_, _, err := said(open(t, Connection{URL: "http://x"}, func(s *Settings) { s.AllowLoopback = true }).Call(soon(t, time.Minute), posting(gone.URL), Meta{}))
	if f := fails(t, err, contract.ClassUnavailable, "refused"); f.OutcomeUnknown {
		t.Error("request: the outcome of a refused connection is unknown")
	}
	tools := open(t, overStdio(t, "serve"))
	child, _ := spawn(t, tools)
	time.AfterFunc(300*time.Millisecond, func() { _ = syscall.Kill(child, syscall.SIGKILL) })
	_, _, err = said(tools.Call(soon(t, time.Minute), call("slow", `{}`), Meta{}))
	if f := fails(t, err, contract.ClassUnavailable); !f.OutcomeUnknown {
		t.Error("stdio: the outcome of a call whose command died is known")
	}
	if _, err := tools.List(soon(t, time.Minute), plan.Connection{ID: "nope"}); errors.As(err, new(*contract.Failure)) && err.(*contract.Failure).OutcomeUnknown {
		t.Error("a listing has an unknown outcome")
	}
}

// TestStreamEndsEarly ends the stream of an answer after its first event. It is resumed, the request is not repeated; if the
// server does not resume it the outcome is unknown.
func TestStreamEndsEarly(t *testing.T) {
	const event = "id: e1\nretry: 20\ndata: \n\n"
	begin := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, event)
		w.(http.Flusher).Flush()
	}
	tests := map[string]struct {
		end    func()
		resume func(w http.ResponseWriter, n int)
		want   string // of the result; empty: the outcome is unknown
	}{
		"closed":             {end: func() {}, want: "ok"},
		"broken off":         {end: func() { panic(http.ErrAbortHandler) }, want: "ok"},
		"closed twice":       {end: func() {}, want: "ok", resume: func(w http.ResponseWriter, n int) { begin(w) }},
		"the server is gone": {end: func() {}, resume: func(http.ResponseWriter, int) { panic(http.ErrAbortHandler) }},
		"it does not resume": {end: func() {}, resume: func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusMethodNotAllowed) }},
		"it knows nothing":   {end: func() {}, resume: func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusNotFound) }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var id json.RawMessage
			var resumed atomic.Int32
			l := &legacy{onCall: func(w http.ResponseWriter, of json.RawMessage, _ int) {
				id = of
				begin(w)
				tc.end()
			}}
			web := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || r.Header.Get("Last-Event-ID") != "e1" {
					l.ServeHTTP(w, r)
					return
				}
				n := resumed.Add(1)
				if tc.resume != nil && (n == 1 || tc.want == "") {
					tc.resume(w, int(n))
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprintf(w, "id: e2\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"ok\"}]}}\n\n", id)
			}))
			text, _, err := said(open(t, Connection{URL: web.URL}).Call(soon(t, time.Minute), call("x", `{}`), Meta{}))
			if _, calls := l.counts(); calls != 1 || resumed.Load() == 0 {
				t.Errorf("%d calls, resumed %d times", calls, resumed.Load())
			}
			if tc.want != "" {
				if err != nil || text != tc.want {
					t.Errorf("got %q, %v", text, err)
				}
				return
			}
			if f := fails(t, err, contract.ClassUnavailable, "ended early"); !f.OutcomeUnknown {
				t.Errorf("the outcome is known: %v", f)
			}
		})
	}
}
