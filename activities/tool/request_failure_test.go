package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// postCall returns the input for a call of a flow's POST request.
func postCall(server string) contract.ToolInput {
	return contract.ToolInput{Name: "book", Arguments: json.RawMessage(`{}`), Connection: plan.Connection{ID: "http:book", Kind: plan.ConnectionHTTP, URL: server,
		Requests: []plan.Request{{Name: "book", Method: "POST", Path: "/bookings", Body: json.RawMessage(`{"seats": 2}`)}}}}
}

// TestRequestFailures checks HTTP requests of a flow that fail at different stages: each is sent once, and fails with the class
// that determines whether Temporal retries it.
func TestRequestFailures(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			http.Error(w, "sorry", code)
		}
	}
	const pause = 7 * time.Second
	tests := map[string]struct {
		respond http.HandlerFunc
		class   string
		after   time.Duration
		text    string
	}{
		"unauthorized":                          {respond: status(401), class: contract.ClassDenied, text: "secrets: {NAME: {value:"},
		"payment required":                      {respond: status(402), class: contract.ClassQuotaExceeded, text: "402"},
		"forbidden":                             {respond: status(403), class: contract.ClassDenied, text: "403"},
		"rate limited":                          {respond: status(429), class: contract.ClassRateLimited, after: pause, text: "429"},
		"server error":                          {respond: status(500), class: contract.ClassUnavailable, after: pause, text: "sorry"},
		"unavailable":                           {respond: status(503), class: contract.ClassUnavailable, after: pause, text: "503"},
		"gateway timeout":                       {respond: status(504), class: contract.ClassTimeout, text: "504"},
		"connection closed before the response": {respond: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, class: contract.ClassUnavailable, text: "EOF"},
		"truncated response":                    {respond: truncatedResponse, class: contract.ClassUnavailable, text: "EOF"},
		"endless response":                      {respond: endlessResponse, class: contract.ClassTooLarge, text: "have the tool return less"},
		"endless event stream":                  {respond: endlessEvents, class: contract.ClassTooLarge, text: "have the tool return less"},
		"no response":                           {respond: noResponse, class: contract.ClassTimeout, text: "within 3 s"},
		"response stalls":                       {respond: stalledResponse, class: contract.ClassTimeout, text: "within 3 s"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			web := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // so that the server notices when its client disconnects
				if requests.Add(1) == 1 {          // so that a reused connection breaks
					fmt.Fprint(w, "booked under ", r.Header.Get("Idempotency-Key"))
					return
				}
				tc.respond(w, r)
			}))
			tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.AllowLoopback, s.MaxResultBytes, s.MaxMessageBytes = true, 10_000, 10_000 })
			in := postCall(web.URL)
			if text, isError, err := resultText(tools.Call(withTimeout(t, time.Minute), in, Meta{IdempotencyKey: "run/1"})); err != nil || isError || text != "booked under run/1" {
				t.Fatalf("first call: %q, %v, %v", text, isError, err)
			}
			if tc.class == contract.ClassTimeout && !strings.Contains(tc.text, "504") {
				in.Connection.TimeoutSeconds = 3 // long enough for the request to arrive on a busy machine
			}
			_, _, err := resultText(tools.Call(withTimeout(t, time.Minute), in, Meta{IdempotencyKey: "run/2"}))
			if f := wantFailure(t, err, tc.class, tc.text); f.After != tc.after {
				t.Errorf("After is %s, want %s", f.After, tc.after)
			}
			if n := requests.Load(); n != 2 {
				t.Errorf("%d requests, want 2", n)
			}
		})
	}
}

// TestTimeoutSetting checks that the error of a timeout names the setting that defines it.
func TestTimeoutSetting(t *testing.T) {
	web := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	const field, policy = "session_parameters.read_timeout_seconds (flow.yaml:7)", "retry_policy.request_timeout (flow.yaml:9)"
	fromFlow := plan.Connection{ID: "theirs", Kind: plan.ConnectionMCP, URL: web.URL, Transport: TransportHTTP}
	for name, tc := range map[string]struct {
		own      time.Duration
		seconds  int
		millis   int64
		retry    *plan.Retry
		supplied bool
		want     string
	}{
		"timeout of the flow's connection":                {supplied: true, seconds: 1, want: "raise " + field},
		"timeout of the flow's retry policy":              {supplied: true, seconds: 9, millis: 1000, retry: &plan.Retry{TimeoutMillis: 1000, TimeoutAt: policy}, want: "raise " + policy},
		"connection's timeout, shorter than the policy's": {supplied: true, seconds: 1, millis: 9000, retry: &plan.Retry{TimeoutMillis: 9000, TimeoutAt: policy}, want: "raise " + field},
		"worker's limit, connection of the flow":          {supplied: true, millis: 1000, want: "raise timeouts.tool in weft.yaml"},
		"timeout of the worker's connection":              {own: time.Second, want: "raise connections.ours.timeout in weft.yaml"},
		"worker's limit, connection of the worker":        {own: 9 * time.Second, millis: 1000, want: "raise timeouts.tool in weft.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fromFlow
			tools := open(t, Connection{URL: "http://x"}, func(s *Settings) {
				s.AllowLoopback, s.Connections["ours"] = true, Connection{URL: web.URL, Timeout: tc.own}
			})
			c.TimeoutSeconds, c.Retry = tc.seconds, tc.retry
			if c.TimeoutSeconds > 0 {
				c.TimeoutAt = field
			}
			if !tc.supplied {
				c = plan.Connection{ID: "ours", Kind: plan.ConnectionMCP}
			}
			_, err := tools.Call(withTimeout(t, time.Minute), contract.ToolInput{Connection: c, Name: "x", TimeoutMillis: tc.millis}, Meta{})
			wantFailure(t, err, contract.ClassTimeout, tc.want)
		})
	}
}

// truncatedResponse closes the connection in the middle of the response.
func truncatedResponse(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "100")
	_, _ = fmt.Fprint(w, "half")
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

// endlessEvents sends small events forever: they never reach a limit per event.
func endlessEvents(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for r.Context().Err() == nil {
		if _, err := fmt.Fprint(w, "data: x\n\n"); err != nil {
			return
		}
	}
}

func endlessResponse(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		if _, err := fmt.Fprint(w, strings.Repeat("x", 4096)); err != nil {
			return
		}
	}
}

func noResponse(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func stalledResponse(w http.ResponseWriter, r *http.Request) {
	_, _ = fmt.Fprint(w, "half")
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

// TestRequestUnreachableOrCancelled checks requests to an address without a server, and cancelled requests.
func TestRequestUnreachableOrCancelled(t *testing.T) {
	tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.AllowLoopback = true })
	closed := httptest.NewServer(nil)
	closed.Close()
	_, _, err := resultText(tools.Call(withTimeout(t, time.Minute), postCall(closed.URL), Meta{}))
	wantFailure(t, err, contract.ClassUnavailable, "connection refused")

	entered, cancelled := make(chan bool, 1), make(chan bool, 1)
	web := start(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		entered <- true
		<-r.Context().Done()
		cancelled <- true
	}))
	ctx, cancel := context.WithCancel(withTimeout(t, time.Minute))
	go func() {
		<-entered
		cancel()
	}()
	if _, _, err := resultText(tools.Call(ctx, postCall(web.URL), Meta{})); err != context.Canceled {
		t.Errorf("after cancellation: %v", err)
	}
	select {
	case <-cancelled:
	case <-time.After(time.Minute):
		t.Error("server was not notified of the cancellation")
	}
}
