package tool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// connectors connects to the same server over each transport.
var connectors = map[string]func(*testing.T, chan<- string) Connection{
	"streamable HTTP": overHTTP,
	"SSE":             overSSE,
	"stdio":           func(t *testing.T, _ chan<- string) Connection { return overStdio(t, "serve") },
}

func TestList(t *testing.T) {
	for name, connect := range connectors {
		t.Run(name, func(t *testing.T) {
			tools := open(t, connect(t, nil))
			specs, err := tools.List(withTimeout(t, time.Minute), plan.Connection{ID: connection})
			if err != nil {
				t.Fatal(err)
			}
			if len(specs) != 11 {
				t.Errorf("%d tools, want 11 from 4 pages: %v", len(specs), specs)
			}
			if !sort.SliceIsSorted(specs, func(i, j int) bool { return specs[i].Name < specs[j].Name }) {
				t.Errorf("not sorted: %v", specs)
			}
			for _, s := range specs {
				if s.Name == "echo" && (string(s.Schema) != echoSchema || s.Description != "says it again") {
					t.Errorf("echo is %q %s, want schema %s", s.Description, s.Schema, echoSchema)
				}
			}
		})
	}
}

func TestCall(t *testing.T) {
	tests := map[string]struct {
		tool, args string
		want       string
		isError    bool
	}{
		"numbers keep their digits":       {"echo", `{"n":12345678901234567890,"x":1.10}`, `{"n":12345678901234567890,"x":1.10}`, false},
		"no arguments":                    {"echo", ``, `{}`, false},
		"null arguments":                  {"echo", `null`, `{}`, false},
		"list as arguments":               {"echo", `[1]`, "arguments must be a JSON object", true},
		"invalid JSON arguments":          {"echo", `{"a":`, "arguments must be a JSON object", true},
		"structured content keeps digits": {"big", `{}`, `{"id":12345678901234567890,"x":1.10}`, false},
		"tool error":                      {"refuse", `{}`, "no such city", true},
		"handler error":                   {"broken", `{}`, "handler broke", true},
		"unknown tool":                    {"nothing", `{}`, "not found", true},
		"empty result":                    {"huge", `{"n":0}`, "", false},
	}
	for name, connect := range connectors {
		tools := open(t, connect(t, nil))
		for test, tc := range tests {
			t.Run(name+"/"+test, func(t *testing.T) {
				text, isError, err := resultText(tools.Call(withTimeout(t, time.Minute), call(tc.tool, tc.args), Meta{}))
				if err != nil {
					t.Fatal(err)
				}
				if isError != tc.isError || (isError && !strings.Contains(text, tc.want)) || (!isError && text != tc.want) {
					t.Errorf("got %q, isError %v; want %q, %v", text, isError, tc.want, tc.isError)
				}
			})
		}
	}
}

func TestIdempotencyKeySent(t *testing.T) {
	want := map[string]string{"streamable HTTP": "run/1 run/1", "SSE": "run/1 ", "stdio": "run/1 "}
	for name, connect := range connectors {
		t.Run(name, func(t *testing.T) {
			tools := open(t, connect(t, nil))
			text, _, err := resultText(tools.Call(withTimeout(t, time.Minute), call("meta", `{}`), Meta{IdempotencyKey: "run/1"}))
			if err != nil || !strings.HasPrefix(text, want[name]) {
				t.Errorf("got %q, %v, want %q", text, err, want[name])
			}
		})
	}
}

func TestProgress(t *testing.T) {
	for name, connect := range connectors {
		t.Run(name, func(t *testing.T) {
			tools := open(t, connect(t, nil))
			var mu sync.Mutex
			var got []string
			text, _, err := resultText(tools.Call(withTimeout(t, time.Minute), call("progress", `{}`), Meta{Progress: func(s string) {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, s)
			}}))

			if err != nil || text != "done" {
				t.Fatal(text, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if strings.Join(got, "; ") != "1/3 part 1; 2/3 part 2; 3/3 part 3" {
				t.Errorf("progress is %q", got)
			}
		})
	}
}

// TestSharedSession checks that concurrent calls share one session.
func TestSharedSession(t *testing.T) {
	for name, connect := range connectors {
		t.Run(name, func(t *testing.T) {
			tools := open(t, connect(t, nil))
			var dials atomic.Int32
			inner := tools.sessions.dial
			tools.sessions.dial = func(ctx context.Context, at *target) (remote, error) {
				dials.Add(1)
				return inner(ctx, at)
			}
			var all sync.WaitGroup
			for i := range 50 {
				all.Go(func() {
					args := fmt.Sprintf(`{"i":%d}`, i)
					text, isError, err := resultText(tools.Call(withTimeout(t, 30*time.Second), call("echo", args), Meta{}))
					if err != nil || isError || text != args {
						t.Errorf("call %d: %q %v %v", i, text, isError, err)
					}
				})
			}
			all.Wait()
			if n := dials.Load(); n != 1 {
				t.Errorf("%d sessions, want 1", n)
			}
		})
	}
}

// TestSessionsPerTenant counts the sessions for callers of two tenants with two runs each.
func TestSessionsPerTenant(t *testing.T) {
	for session, want := range map[string]int32{"": 2, SessionOfRun: 4} {
		c := overHTTP(t, nil)
		c.Session = session
		tools := open(t, c)
		var dials atomic.Int32
		inner := tools.sessions.dial
		tools.sessions.dial = func(ctx context.Context, at *target) (remote, error) {
			dials.Add(1)
			return inner(ctx, at)
		}
		for i := range 12 {
			ctx := WithCaller(withTimeout(t, 30*time.Second), Caller{Tenant: fmt.Sprint(i % 2), Run: fmt.Sprint(i % 4)})
			if text, _, err := resultText(tools.Call(ctx, call("echo", `{}`), Meta{})); err != nil || text != "{}" {
				t.Fatal(text, err)
			}
		}
		if n := dials.Load(); n != want {
			t.Errorf("setting session %q: %d sessions, want %d", session, n, want)
		}
	}
}

func TestCancelNotifiesServer(t *testing.T) {
	for _, name := range []string{"streamable HTTP", "SSE"} {
		t.Run(name, func(t *testing.T) {
			entered := make(chan string, 2)
			tools := open(t, connectors[name](t, entered))
			ctx, cancel := context.WithCancel(context.Background())
			go func() {
				<-entered
				cancel()
			}()
			_, _, err := resultText(tools.Call(ctx, call("slow", `{}`), Meta{}))
			if err != context.Canceled {
				t.Errorf("error is %v, want that of the context", err)
			}
			select {
			case <-entered:
			case <-time.After(time.Minute):
				t.Error("context of the handler was not cancelled")
			}
		})
	}
}

func TestDeadline(t *testing.T) {
	for name, connect := range connectors {
		t.Run(name, func(t *testing.T) {
			tools := open(t, connect(t, nil))
			mustCall(t, tools, "echo", `{}`)
			began := time.Now()
			_, _, err := resultText(tools.Call(withTimeout(t, 200*time.Millisecond), call("slow", `{}`), Meta{}))
			if err != context.DeadlineExceeded {
				t.Errorf("error is %v, want that of the context", err)
			}
			if d := time.Since(began); d > time.Minute {
				t.Errorf("took %s", d)
			}
			mustCall(t, tools, "echo", `{}`)
		})
	}
}

func TestConnectionTimeout(t *testing.T) {
	c := overHTTP(t, nil)
	c.Timeout = time.Second
	_, _, err := resultText(open(t, c).Call(withTimeout(t, time.Minute), call("slow", `{}`), Meta{}))
	wantFailure(t, err, contract.ClassTimeout, "within 1 s", "connections.c.timeout")
}

func TestStalledServer(t *testing.T) {
	s := start(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server notices when its client disconnects
		<-r.Context().Done()
	}))
	tests := map[string]Connection{
		"streamable HTTP": {URL: s.URL},
		"SSE":             {URL: s.URL, Transport: TransportSSE},
		"stdio":           overStdio(t, "deaf"),
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			c.ConnectTimeout = time.Second
			tools := open(t, c)
			if _, _, err := resultText(tools.Call(withTimeout(t, 100*time.Millisecond), call("echo", `{}`), Meta{})); err != context.DeadlineExceeded {
				t.Errorf("error is %v, want that of the context", err)
			}
			_, err := tools.List(withTimeout(t, time.Minute), plan.Connection{ID: connection})
			wantFailure(t, err, contract.ClassTimeout, "no session within 1 s", "connect_timeout")
		})
	}
}

func TestResultTooLarge(t *testing.T) {
	for name, connect := range connectors {
		t.Run(name, func(t *testing.T) {
			tools := open(t, connect(t, nil), func(s *Settings) { s.MaxResultBytes, s.MaxMessageBytes = 1000, 10_000 })
			_, _, err := resultText(tools.Call(withTimeout(t, time.Minute), call("huge", `{"n":1001}`), Meta{}))
			wantFailure(t, err, contract.ClassTooLarge, "1001 bytes, the limit is 1000")
			_, _, err = resultText(tools.Call(withTimeout(t, time.Minute), call("huge", `{"n":20000}`), Meta{}))
			wantFailure(t, err, contract.ClassTooLarge, "more than 10000 bytes")
			if text := mustCall(t, tools, "huge", `{"n":1000}`); len(text) != 1000 {
				t.Errorf("%d bytes, want 1000", len(text))
			}
		})
	}
}

func TestServerRestarts(t *testing.T) {
	s := httptest.NewServer(server.NewStreamableHTTPServer(newServer(nil)))
	tools := open(t, Connection{URL: s.URL + "/mcp"})
	mustCall(t, tools, "echo", `{}`)
	address := s.Listener.Addr().String()
	s.CloseClientConnections()
	s.Close()
	_, _, err := resultText(tools.Call(withTimeout(t, time.Minute), call("echo", `{}`), Meta{}))
	wantFailure(t, err, contract.ClassUnavailable, `connection "c"`)
	serveAt(t, address, server.NewStreamableHTTPServer(newServer(nil)))
	mustCall(t, tools, "echo", `{}`)
}

// TestSlowDiscovery checks that a server that is slow to list its versions is not mistaken for an older one.
func TestSlowDiscovery(t *testing.T) {
	t.Parallel()
	h := server.NewStreamableHTTPServer(newServer(nil))
	var older atomic.Bool
	tools := open(t, Connection{URL: start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		older.Store(older.Load() || bytes.Contains(body, []byte(`"initialize"`)))
		if bytes.Contains(body, []byte(`"server/discover"`)) {
			time.Sleep(5500 * time.Millisecond)
		}
		h.ServeHTTP(w, r)
	})).URL + "/mcp"})
	mustCall(t, tools, "echo", `{}`)
	if older.Load() {
		t.Error("server was treated as an older one")
	}
}

func TestServerDiesDuringCall(t *testing.T) {
	for _, name := range []string{"streamable HTTP", "SSE"} {
		t.Run(name, func(t *testing.T) {
			entered := make(chan string, 2)
			var h http.Handler = server.NewStreamableHTTPServer(newServer(entered))
			s := httptest.NewUnstartedServer(h)
			c := Connection{URL: "http://" + s.Listener.Addr().String() + "/mcp"}
			newHandler := func() http.Handler { return server.NewStreamableHTTPServer(newServer(nil)) }
			if name == "SSE" {
				base := "http://" + s.Listener.Addr().String()
				c = Connection{URL: base + "/sse", Transport: TransportSSE}
				s.Config.Handler = server.NewSSEServer(newServer(entered), server.WithBaseURL(base))
				newHandler = func() http.Handler { return server.NewSSEServer(newServer(nil), server.WithBaseURL(base)) }
			}
			s.Start()
			address := s.Listener.Addr().String()
			tools := open(t, c)
			go func() {
				<-entered
				_ = s.Listener.Close()
				s.CloseClientConnections()
			}()
			began := time.Now()
			_, _, err := resultText(tools.Call(withTimeout(t, 15*time.Second), call("slow", `{}`), Meta{}))
			if f := wantFailure(t, err, contract.ClassUnavailable); !f.OutcomeUnknown {
				t.Error("failure without unknown outcome")
			}
			if d := time.Since(began); d > time.Minute {
				t.Errorf("detected after %s", d)
			}
			s.Close()
			serveAt(t, address, newHandler())
			mustCall(t, tools, "echo", `{}`)
		})
	}
}

func TestCloseDuringCall(t *testing.T) {
	entered := make(chan string, 2)
	tools := open(t, overHTTP(t, entered))
	done := make(chan error, 1)
	go func() {
		_, _, err := resultText(tools.Call(context.Background(), call("slow", `{}`), Meta{}))
		done <- err
	}()
	<-entered
	tools.Close()
	select {
	case err := <-done:
		wantFailure(t, err, contract.ClassUnavailable)
	case <-time.After(time.Minute):
		t.Fatal("the call did not end")
	}
	_, _, err := resultText(tools.Call(context.Background(), call("echo", `{}`), Meta{}))
	wantFailure(t, err, contract.ClassUnavailable, "stopping")
}

func TestIdleSessionClosed(t *testing.T) {
	tools := open(t, overHTTP(t, nil))
	tools.sessions.idle = 20 * time.Millisecond
	mustCall(t, tools, "echo", `{}`)
	for range 100 {
		tools.sessions.mu.Lock()
		n := len(tools.sessions.all)
		tools.sessions.mu.Unlock()
		if n == 0 {
			mustCall(t, tools, "echo", `{}`)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("idle session was not closed")
}

func TestCancelledDialShared(t *testing.T) {
	gate := make(chan struct{})
	p := newPool(time.Minute, func(context.Context, *target) (remote, error) {
		<-gate
		return nil, errors.New("gate")
	})
	defer p.close()
	at := &target{key: "k", conn: Connection{ConnectTimeout: 5 * time.Second}}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := p.acquire(ctx, at); err != context.Canceled {
		t.Errorf("error is %v", err)
	}
	close(gate)
	if _, err := p.acquire(context.Background(), at); err == nil || err.Error() != "gate" {
		t.Errorf("error is %v, want that of the first dial", err)
	}
}
