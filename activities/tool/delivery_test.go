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

// TestOutcome checks calls that fail in different ways, over MCP and as HTTP requests of a flow: the outcome is unknown if the
// server may have executed the call.
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
		respond http.HandlerFunc
		class   string
		unknown bool
	}{
		"connection reset after the request": {respond: reset, class: contract.ClassUnavailable, unknown: true},
		"stream without a response":          {respond: cutStream, class: contract.ClassUnavailable, unknown: true},
		"truncated response":                 {respond: truncatedResponse, class: contract.ClassUnavailable, unknown: true},
		"response timeout":                   {respond: noResponse, class: contract.ClassTimeout, unknown: true},
		"rate limited":                       {respond: status(429, ""), class: contract.ClassRateLimited},
		"unavailable with Retry-After":       {respond: status(503, "0"), class: contract.ClassUnavailable},
		"unavailable":                        {respond: status(503, ""), class: contract.ClassUnavailable, unknown: true},
		"server error":                       {respond: status(500, "1"), class: contract.ClassUnavailable, unknown: true},
		"bad gateway":                        {respond: status(502, ""), class: contract.ClassUnavailable, unknown: true},
		"gateway timeout":                    {respond: status(504, ""), class: contract.ClassTimeout, unknown: true},
		"request timeout":                    {respond: status(408, ""), class: contract.ClassTimeout, unknown: true},
		"denied":                             {respond: status(403, ""), class: contract.ClassDenied},
	}
	for name, tc := range tests {
		for _, kind := range []string{"MCP", "request"} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				var calls atomic.Int32
				respond := func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body) // so that the server notices when its client disconnects
					calls.Add(1)
					tc.respond(w, r)
				}
				in, c := call("x", `{}`), Connection{Timeout: 2 * time.Second}
				if kind == "MCP" {
					l := &legacy{}
					l.onCall = func(w http.ResponseWriter, _ json.RawMessage, _ int) {
						respond(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil))
					}
					c.URL = start(t, l).URL
				} else {
					c.URL = "http://x"
					in = postCall(start(t, http.HandlerFunc(respond)).URL)
					in.Connection.TimeoutSeconds = 2
				}
				if tc.class != contract.ClassTimeout {
					c.Timeout, in.Connection.TimeoutSeconds = 30*time.Second, 30
				}
				tools := open(t, c, func(s *Settings) { s.AllowLoopback = true })
				_, _, err := resultText(tools.Call(withTimeout(t, time.Minute), in, Meta{}))
				if f := wantFailure(t, err, tc.class); f.OutcomeUnknown != tc.unknown || calls.Load() != 1 || strings.Contains(f.Text, "nil") {
					t.Errorf("%d calls, outcome unknown = %v, want %v: %v", calls.Load(), f.OutcomeUnknown, tc.unknown, f)
				}
			})
		}
	}
}

// TestOutcomeWithoutServer covers an address without a server, and a command that dies during the call.
func TestOutcomeWithoutServer(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	for name, in := range map[string]Connection{"MCP": {URL: closed.URL}, "SSE": {URL: closed.URL, Transport: TransportSSE}} {
		_, _, err := resultText(open(t, in).Call(withTimeout(t, time.Minute), call("x", `{}`), Meta{}))
		if f := wantFailure(t, err, contract.ClassUnavailable, "refused"); f.OutcomeUnknown {
			t.Errorf("%s: refused connection reported with unknown outcome", name)
		}
	}
	_, _, err := resultText(open(t, Connection{URL: "http://x"}, func(s *Settings) { s.AllowLoopback = true }).Call(withTimeout(t, time.Minute), postCall(closed.URL), Meta{}))
	if f := wantFailure(t, err, contract.ClassUnavailable, "refused"); f.OutcomeUnknown {
		t.Error("request: refused connection reported with unknown outcome")
	}
	tools := open(t, overStdio(t, "serve"))
	child, _ := spawn(t, tools)
	time.AfterFunc(300*time.Millisecond, func() { _ = syscall.Kill(child, syscall.SIGKILL) })
	_, _, err = resultText(tools.Call(withTimeout(t, time.Minute), call("slow", `{}`), Meta{}))
	if f := wantFailure(t, err, contract.ClassUnavailable); !f.OutcomeUnknown {
		t.Error("stdio: call whose command died reported without unknown outcome")
	}
	if _, err := tools.List(withTimeout(t, time.Minute), plan.Connection{ID: "nope"}); errors.As(err, new(*contract.Failure)) && err.(*contract.Failure).OutcomeUnknown {
		t.Error("listing reported with unknown outcome")
	}
}

// TestStreamEndsEarly checks response streams that end after the first event: the stream is resumed and the request is not repeated.
// If the server does not resume it, the outcome is unknown.
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
		"closed":               {end: func() {}, want: "ok"},
		"aborted":              {end: func() { panic(http.ErrAbortHandler) }, want: "ok"},
		"closed twice":         {end: func() {}, want: "ok", resume: func(w http.ResponseWriter, n int) { begin(w) }},
		"server down":          {end: func() {}, resume: func(http.ResponseWriter, int) { panic(http.ErrAbortHandler) }},
		"resume not supported": {end: func() {}, resume: func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusMethodNotAllowed) }},
		"unknown session":      {end: func() {}, resume: func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusNotFound) }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var id json.RawMessage
			var resumed atomic.Int32
			l := &legacy{onCall: func(w http.ResponseWriter, requestID json.RawMessage, _ int) {
				id = requestID
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
			text, _, err := resultText(open(t, Connection{URL: web.URL}).Call(withTimeout(t, time.Minute), call("x", `{}`), Meta{}))
			if _, calls := l.counts(); calls != 1 || resumed.Load() == 0 {
				t.Errorf("%d calls, resumed %d times", calls, resumed.Load())
			}
			if tc.want != "" {
				if err != nil || text != tc.want {
					t.Errorf("got %q, %v", text, err)
				}
				return
			}
			if f := wantFailure(t, err, contract.ClassUnavailable, "ended early"); !f.OutcomeUnknown {
				t.Errorf("failure without unknown outcome: %v", f)
			}
		})
	}
}
