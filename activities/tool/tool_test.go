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

// ways lists the transports, each with the same server.
var ways = map[string]func(*testing.T, chan<- string) Connection{
	"streamable HTTP": overHTTP,
	"SSE":             overSSE,
	"stdio":           func(t *testing.T, _ chan<- string) Connection { return overStdio(t, "serve") },
}

func TestList(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			tools := open(t, way(t, nil))
			specs, err := tools.List(soon(t, time.Minute), plan.Connection{ID: connection})
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
				if s.Name == "echo" && (string(s.Schema) != schemaOfEcho || s.Description != "says it again") {
					t.Errorf("echo is %q %s, want its own words %s", s.Description, s.Schema, schemaOfEcho)
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
		"arguments keep their digits":      {"echo", `{"n":12345678901234567890,"x":1.10}`, `{"n":12345678901234567890,"x":1.10}`, false},
		"no arguments are an object":       {"echo", ``, `{}`, false},
		"null arguments are an object":     {"echo", `null`, `{}`, false},
		"arguments that are a list":        {"echo", `[1]`, "arguments must be a JSON object", true},
		"arguments that are not JSON":      {"echo", `{"a":`, "arguments must be a JSON object", true},
		"structured numbers are exact":     {"big", `{}`, `{"id":12345678901234567890,"x":1.10}`, false},
		"a tool's error is the model's":    {"refuse", `{}`, "no such city", true},
		"a handler's error is the model's": {"broken", `{}`, "handler broke", true},
		"an unknown tool is the model's":   {"nothing", `{}`, "not found", true},
		"an empty result is empty":         {"huge", `{"n":0}`, "", false},
	}
	for name, way := range ways {
		tools := open(t, way(t, nil))
		for what, tc := range tests {
			t.Run(name+"/"+what, func(t *testing.T) {
				text, isError, err := said(tools.Call(soon(t, time.Minute), call(tc.tool, tc.args), Meta{}))
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

func TestIdempotencyKeyTravels(t *testing.T) {
	want := map[string]string{"streamable HTTP": "run/1 run/1", "SSE": "run/1 ", "stdio": "run/1 "}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			tools := open(t, way(t, nil))
			text, _, err := said(tools.Call(soon(t, time.Minute), call("meta", `{}`), Meta{IdempotencyKey: "run/1"}))
			if err != nil || !strings.HasPrefix(text, want[name]) {
				t.Errorf("got %q, %v, want %q", text, err, want[name])
			}
		})
	}
}

func TestProgress(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			tools := open(t, way(t, nil))
			var mu sync.Mutex
			var got []string
			text, _, err := said(tools.Call(soon(t, time.Minute), call("progress", `{}`), Meta{Progress: func(s string) {
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

// TestSharedSession makes many calls at once, which must need one session.
func TestSharedSession(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			tools := open(t, way(t, nil))
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
					text, isError, err := said(tools.Call(soon(t, 30*time.Second), call("echo", args), Meta{}))
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

// TestTenantsShareNoSession counts sessions for callers of two tenants with two runs each.
func TestTenantsShareNoSession(t *testing.T) {
	for session, want := range map[string]int32{"": 2, SessionOfRun: 4} {
		way := overHTTP(t, nil)
		way.Session = session
		tools := open(t, way)
		var dials atomic.Int32
		inner := tools.sessions.dial
		tools.sessions.dial = func(ctx context.Context, at *target) (remote, error) {
			dials.Add(1)
			return inner(ctx, at)
		}
		for i := range 12 {
			ctx := WithCaller(soon(t, 30*time.Second), Caller{Tenant: fmt.Sprint(i % 2), Run: fmt.Sprint(i % 4)})
			if text, _, err := said(tools.Call(ctx, call("echo", `{}`), Meta{})); err != nil || text != "{}" {
				t.Fatal(text, err)
			}
		}
		if n := dials.Load(); n != want {
			t.Errorf("with session %q there are %d sessions, want %d", session, n, want)
		}
	}
}

func TestCancelReachesTheServer(t *testing.T) {
	for _, name := range []string{"streamable HTTP", "SSE"} {
		t.Run(name, func(t *testing.T) {
			entered := make(chan string, 2)
			tools := open(t, ways[name](t, entered))
			ctx, cancel := context.WithCancel(context.Background())
			go func() {
				<-entered
				cancel()
			}()
			_, _, err := said(tools.Call(ctx, call("slow", `{}`), Meta{}))
			if err != context.Canceled {
				t.Errorf("error is %v, want the context's own", err)
			}
			select {
			case <-entered:
			case <-time.After(time.Minute):
				t.Error("the handler's context did not end")
			}
		})
	}
}

func TestDeadline(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			tools := open(t, way(t, nil))
			must(t, tools, "echo", `{}`)
			began := time.Now()
			_, _, err := said(tools.Call(soon(t, 200*time.Millisecond), call("slow", `{}`), Meta{}))
			if err != context.DeadlineExceeded {
				t.Errorf("error is %v, want the context's own", err)
			}
			if d := time.Since(began); d > time.Minute {
				t.Errorf("took %s", d)
			}
			must(t, tools, "echo", `{}`)
		})
	}
}

func TestTimeoutOfTheConnection(t *testing.T) {
	c := overHTTP(t, nil)
	c.Timeout = time.Second
	_, _, err := said(open(t, c).Call(soon(t, time.Minute), call("slow", `{}`), Meta{}))
	fails(t, err, contract.ClassTimeout, "within 1 s", "connections.c.timeout")
}

func TestStalledServer(t *testing.T) {
	s := start(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not notice that its client has gone
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
			if _, _, err := said(tools.Call(soon(t, 100*time.Millisecond), call("echo", `{}`), Meta{})); err != context.DeadlineExceeded {
				t.Errorf("error is %v, want the context's own", err)
			}
			_, err := tools.List(soon(t, time.Minute), plan.Connection{ID: connection})
			fails(t, err, contract.ClassTimeout, "no session within 1 s", "connect_timeout")
		})
	}
}

func TestResultTooLarge(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			tools := open(t, way(t, nil), func(s *Settings) { s.MaxResultBytes, s.MaxMessageBytes = 1000, 10_000 })
			_, _, err := said(tools.Call(soon(t, time.Minute), call("huge", `{"n":1001}`), Meta{}))
			fails(t, err, contract.ClassTooLarge, "1001 bytes, the limit is 1000")
			_, _, err = said(tools.Call(soon(t, time.Minute), call("huge", `{"n":20000}`), Meta{}))
			fails(t, err, contract.ClassTooLarge, "more than 10000 bytes")
			if text := must(t, tools, "huge", `{"n":1000}`); len(text) != 1000 {
				t.Errorf("%d bytes, want 1000", len(text))
			}
		})
	}
}

func TestServerRestarts(t *testing.T) {
	s := httptest.NewServer(server.NewStreamableHTTPServer(newServer(nil)))
	tools := open(t, Connection{URL: s.URL + "/mcp"})
	must(t, tools, "echo", `{}`)
	address := s.Listener.Addr().String()
	s.CloseClientConnections()
	s.Close()
	_, _, err := said(tools.Call(soon(t, time.Minute), call("echo", `{}`), Meta{}))
	fails(t, err, contract.ClassUnavailable, `connection "c"`)
	again(t, address, server.NewStreamableHTTPServer(newServer(nil)))
	must(t, tools, "echo", `{}`)
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
	must(t, tools, "echo", `{}`)
	if older.Load() {
		t.Error("the server was taken for an older one")
	}
}

func TestServerDiesInACall(t *testing.T) {
	for _, name := range []string{"streamable HTTP", "SSE"} {
		t.Run(name, func(t *testing.T) {
			entered := make(chan string, 2)
			var h http.Handler = server.NewStreamableHTTPServer(newServer(entered))
			s := httptest.NewUnstartedServer(h)
			c := Connection{URL: "http://" + s.Listener.Addr().String() + "/mcp"}
			fresh := func() http.Handler { return server.NewStreamableHTTPServer(newServer(nil)) }
			if name == "SSE" {
				base := "http://" + s.Listener.Addr().String()
				c = Connection{URL: base + "/sse", Transport: TransportSSE}
				s.Config.Handler = server.NewSSEServer(newServer(entered), server.WithBaseURL(base))
				fresh = func() http.Handler { return server.NewSSEServer(newServer(nil), server.WithBaseURL(base)) }
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
			_, _, err := said(tools.Call(soon(t, 15*time.Second), call("slow", `{}`), Meta{}))
			if f := fails(t, err, contract.ClassUnavailable); !f.OutcomeUnknown {
				t.Error("the outcome is known")
			}
			if d := time.Since(began); d > time.Minute {
				t.Errorf("noticed after %s", d)
			}
			s.Close()
			again(t, address, fresh())
			must(t, tools, "echo", `{}`)
		})
	}
}

func TestNothingLeavesAClosedPool(t *testing.T) {
	entered := make(chan string, 2)
	tools := open(t, overHTTP(t, entered))
	done := make(chan error, 1)
	go func() {
		_, _, err := said(tools.Call(context.Background(), call("slow", `{}`), Meta{}))
		done <- err
	}()
	<-entered
	tools.Close()
	select {
	case err := <-done:
		fails(t, err, contract.ClassUnavailable)
	case <-time.After(time.Minute):
		t.Fatal("the call did not end")
	}
	_, _, err := said(tools.Call(context.Background(), call("echo", `{}`), Meta{}))
	fails(t, err, contract.ClassUnavailable, "stopping")
}

func TestIdleSessionIsClosed(t *testing.T) {
	tools := open(t, overHTTP(t, nil))
	tools.sessions.idle = 20 * time.Millisecond
	must(t, tools, "echo", `{}`)
	for range 100 {
		tools.sessions.mu.Lock()
		n := len(tools.sessions.all)
		tools.sessions.mu.Unlock()
		if n == 0 {
			must(t, tools, "echo", `{}`)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the session is still there")
}

func TestCancelledDialHelpsTheNext(t *testing.T) {
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
		t.Errorf("error is %v, want the dial's", err)
	}
}
