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

// posting is a call of a flow's own POST request.
func posting(server string) contract.ToolInput {
	return contract.ToolInput{Name: "book", Arguments: json.RawMessage(`{}`), Connection: plan.Connection{ID: "http:book", Kind: plan.ConnectionHTTP, URL: server,
		Requests: []plan.Request{{Name: "book", Method: "POST", Path: "/bookings", Body: json.RawMessage(`{"seats": 2}`)}}}}
}

// TestFailingRequests fails requests of a flow at every stage. Each is sent once, and fails with a
// class that determines whether it is retried.
func TestFailingRequests(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			http.Error(w, "sorry", code)
		}
	}
	const pause = 7 * time.Second
	tests := map[string]struct {
		answer http.HandlerFunc
		class  string
		after  time.Duration
		says   string
	}{
		"wants credentials":            {answer: status(401), class: contract.ClassDenied, says: "secrets: {NAME: {value:"},
		"wants money":                  {answer: status(402), class: contract.ClassQuotaExceeded, says: "402"},
		"forbids it":                   {answer: status(403), class: contract.ClassDenied, says: "403"},
		"too many":                     {answer: status(429), class: contract.ClassRateLimited, after: pause, says: "429"},
		"broken":                       {answer: status(500), class: contract.ClassUnavailable, after: pause, says: "sorry"},
		"cannot now":                   {answer: status(503), class: contract.ClassUnavailable, after: pause, says: "503"},
		"gateway timed out":            {answer: status(504), class: contract.ClassTimeout, says: "504"},
		"dies before it answers":       {answer: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, class: contract.ClassUnavailable, says: "EOF"},
		"dies in the middle of it":     {answer: halfAnAnswer, class: contract.ClassUnavailable, says: "EOF"},
		"answers without end":          {answer: endless, class: contract.ClassTooLarge, says: "have the tool return less"},
		"answers events without end":   {answer: endlessEvents, class: contract.ClassTooLarge, says: "have the tool return less"},
		"takes it and says nothing":    {answer: silent200, class: contract.ClassTimeout, says: "within 3 s"},
		"stops in the middle for ever": {answer: silentHalf, class: contract.ClassTimeout, says: "within 3 s"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			web := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // else the server does not notice that its client has gone
				if asked.Add(1) == 1 {             // the connection is a used one where it breaks
					fmt.Fprint(w, "booked under ", r.Header.Get("Idempotency-Key"))
					return
				}
				tc.answer(w, r)
			}))
			tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.AllowLoopback, s.MaxResultBytes, s.MaxMessageBytes = true, 10_000, 10_000 })
			in := posting(web.URL)
			if text, isError, err := said(tools.Call(soon(t, time.Minute), in, Meta{IdempotencyKey: "run/1"})); err != nil || isError || text != "booked under run/1" {
				t.Fatalf("the first one: %q, %v, %v", text, isError, err)
			}
			if tc.class == contract.ClassTimeout && !strings.Contains(tc.says, "504") {
				in.Connection.TimeoutSeconds = 3 // the machine may be busy: the request must get there
			}
			_, _, err := said(tools.Call(soon(t, time.Minute), in, Meta{IdempotencyKey: "run/2"}))
			if f := fails(t, err, tc.class, tc.says); f.After != tc.after {
				t.Errorf("it is to be made again after %s, want %s", f.After, tc.after)
			}
			if n := asked.Load(); n != 2 {
				t.Errorf("%d requests, want 2: nothing here repeats one", n)
			}
		})
	}
}

// TestTimeoutsNameTheirPlace checks that an error names the setting of the timeout.
func TestTimeoutsNameTheirPlace(t *testing.T) {
	web := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	const field, policy = "session_parameters.read_timeout_seconds (flow.yaml:7)", "retry_policy.request_timeout (flow.yaml:9)"
	theirs := plan.Connection{ID: "theirs", Kind: plan.ConnectionMCP, URL: web.URL, Transport: TransportHTTP}
	for name, tc := range map[string]struct {
		own      time.Duration
		seconds  int
		millis   int64
		retry    *plan.Retry
		supplied bool
		want     string
	}{
		"the flow's connection":      {supplied: true, seconds: 1, want: "raise " + field},
		"the flow's retry policy":    {supplied: true, seconds: 9, millis: 1000, retry: &plan.Retry{TimeoutMillis: 1000, TimeoutAt: policy}, want: "raise " + policy},
		"the connection, a policy":   {supplied: true, seconds: 1, millis: 9000, retry: &plan.Retry{TimeoutMillis: 9000, TimeoutAt: policy}, want: "raise " + field},
		"the worker's limit":         {supplied: true, millis: 1000, want: "raise timeouts.tool in weft.yaml"},
		"the worker's connection":    {own: time.Second, want: "raise connections.ours.timeout in weft.yaml"},
		"the worker's limit for its": {own: 9 * time.Second, millis: 1000, want: "raise timeouts.tool in weft.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := theirs
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
			_, err := tools.Call(soon(t, time.Minute), contract.ToolInput{Connection: c, Name: "x", TimeoutMillis: tc.millis}, Meta{})
			fails(t, err, contract.ClassTimeout, tc.want)
		})
	}
}

// halfAnAnswer closes the connection in the middle of the answer.
func halfAnAnswer(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "100")
	_, _ = fmt.Fprint(w, "half")
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

// endlessEvents sends small events forever: a limit per event would never be reached.
func endlessEvents(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for r.Context().Err() == nil {
		if _, err := fmt.Fprint(w, "data: x\n\n"); err != nil {
			return
		}
	}
}

func endless(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		if _, err := fmt.Fprint(w, strings.Repeat("x", 4096)); err != nil {
			return
		}
	}
}

func silent200(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func silentHalf(w http.ResponseWriter, r *http.Request) {
	_, _ = fmt.Fprint(w, "half")
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

// TestRequestsToNobody covers addresses without a server, and checks that waiting calls end with the error of their context.
func TestRequestsToNobody(t *testing.T) {
	tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.AllowLoopback = true })
	dropped := httptest.NewServer(nil)
	dropped.Close()
	_, _, err := said(tools.Call(soon(t, time.Minute), posting(dropped.URL), Meta{}))
	fails(t, err, contract.ClassUnavailable, "connection refused")

	entered, programResult := make(chan bool, 1), make(chan bool, 1)
	web := start(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		entered <- true
		<-r.Context().Done()
		programResult <- true
	}))
	ctx, cancel := context.WithCancel(soon(t, time.Minute))
	go func() {
		<-entered
		cancel()
	}()
	if _, _, err := said(tools.Call(ctx, posting(web.URL), Meta{})); err != context.Canceled {
		t.Errorf("a cancelled call gives %v", err)
	}
	select {
	case <-programResult:
	case <-time.After(time.Minute):
		t.Error("the server is not told that the call is cancelled")
	}
}
