package serve

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"weft/worker/config"
)

func TestTokens(t *testing.T) {
	b := newBench(t, func(o *Options) {
		o.Tokens = []config.Token{{Name: "kim", Value: "kimkimkimkimkimkim", Principal: config.Principal{Scopes: usual}}}
	})
	b.call("GET", "/runs", "").is(401, "missing token")
	got := b.call("GET", "/runs", "", "Authorization: Bearer other").is(401, "invalid token")
	if challenge := got.Header().Get("WWW-Authenticate"); challenge != `Bearer error="invalid_token"` {
		t.Errorf("the challenge is %q", challenge)
	}
	b.call("GET", "/runs", "", "Authorization: Basic kimkimkimkimkimkim").is(401, "")
	b.call("GET", "/nothing", "").is(401, "")
	b.call("GET", "/runs", "", "Authorization: Bearer kimkimkimkimkimkim").is(200, "runs")
	b.call("GET", "/runs", "", "Authorization: bearer kimkimkimkimkimkim", "Host: weft.example").is(200, "runs")
	b.call("GET", "/openapi.json", "").is(200, `"openapi": "3.1.0"`)
	b.call("GET", "/health", "").is(200, "ok")
}

// TestPagesOfOthers plays web pages that a browser on this machine shows.
func TestPagesOfOthers(t *testing.T) {
	b := newBench(t)
	b.call("GET", "/runs", "", "Host: evil.example").is(403, "is not a loopback name")
	b.call("GET", "/runs", "", "Host: localhost").is(200, "")
	b.call("GET", "/runs", "", "Host: [::1]:8765").is(200, "")
	b.call("POST", "/runs", documented, "Origin: https://evil.example").is(403, "not allowed")
	b.call("POST", "/runs", documented, "Origin: null").is(403, "not allowed")
	b.call("POST", "/runs", documented, "Content-Type: text/plain").is(415, "")
	b.call("POST", "/runs", documented, "Origin: http://127.0.0.1:8765").is(201, "")
	b.call("OPTIONS", "/runs", "", "Origin: https://evil.example", "Access-Control-Request-Method: POST").is(403, "")

	open := newBench(t, func(o *Options) {
		o.Settings.Origins = []string{"https://app.example"}
		o.Tokens = []config.Token{{Name: "kim", Value: "kimkimkimkimkimkim", Principal: config.Principal{Scopes: usual}}}
	})
	got := open.call("OPTIONS", "/runs", "", "Origin: https://app.example", "Access-Control-Request-Method: POST").is(204, "")
	for name, want := range map[string]string{"Access-Control-Allow-Origin": "https://app.example", "Access-Control-Allow-Methods": corsMethods,
		"Access-Control-Allow-Headers": corsHeaders, "Vary": "Origin"} {
		if got.Header().Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.Header().Get(name), want)
		}
	}
	denied := open.call("GET", "/runs", "", "Origin: https://app.example").is(401, "")
	if denied.Header().Get("Access-Control-Allow-Origin") != "https://app.example" {
		t.Error("a page cannot see why it may not come in")
	}
	open.call("GET", "/runs", "", "Origin: https://other.example", "Authorization: Bearer kimkimkimkimkimkim").is(403, "")
}

func TestAddressesThatAreNotThere(t *testing.T) {
	b := newBench(t)
	b.call("GET", "/run", "").is(404, `\"/run\" not found`)
	got := b.call("DELETE", "/runs/x", "").is(405, "does not support DELETE")
	if got.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("Allow is %q", got.Header().Get("Allow"))
	}
	for path, part := range map[string]string{
		"/runs?limit=0": `the limit is \"0\"`, "/runs?limit=x": "use 1 to 200", "/runs?limit=1&limit=2": "is set 2 times", "/runs?statu=x": `unknown parameter \"statu\"`,
		"/runs?status=x": "use one of: running", "/agents?page_token=!": "the page_token is", "/runs/x?wait=1h": "from 0s to 2m", "/runs/x?wait=30": "such as 30s",
	} {
		b.call("GET", path, "").is(400, part)
	}
}

// What Go's own server has to say goes where everything goes that is said.
func TestTheServersOwnErrors(t *testing.T) {
	b := newBench(t)
	b.server().ErrorLog.Printf("http: something %s\n", "odd")
	if got := b.said(); got != "http: something odd\n" {
		t.Errorf("the log has %q", got)
	}
}

// TestFaultsOfThisSide lets what is behind the door fail, and panic.
func TestFaultsOfThisSide(t *testing.T) {
	b := newBench(t)
	b.runs.err = errStrange
	b.call("GET", "/runs", "").is(500, "check the log")
	if !strings.Contains(b.said(), "strange") {
		t.Errorf("the log has %q", b.said())
	}
	b.runs.err = NewProblem(NoTemporal, "retry later", "Temporal is away")
	b.call("GET", "/health", "").is(503, "Temporal is away")
	b.Runs = nil
	b.call("GET", "/runs", "").is(500, "internal error")
	if !strings.Contains(b.said(), "defect") {
		t.Errorf("the log has %q", b.said())
	}
}

// served runs a door at a port of its own and gives its address; it ends with the test.
func (b *bench) served() (address string, end func() error) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Serve(ctx, l) }()
	var done bool
	end = func() error {
		cancel()
		if done {
			return nil
		}
		done = true
		return <-ended
	}
	b.Cleanup(func() { _ = end() })
	return l.Addr().String(), end
}

// TestClosing closes a door while clients wait for a run and read its events.
func TestClosing(t *testing.T) {
	b := newBench(t)
	b.runs.add("r")
	b.runs.events = []Event{{Type: "note", Timestamp: noon, Text: "x"}}
	address, end := b.served()
	waited := make(chan string, 2)
	for _, path := range []string{"/runs/r?wait=60s", "/runs/r/events"} {
		go func() {
			got, err := http.Get("http://" + address + path)
			if err != nil {
				waited <- err.Error()
				return
			}
			defer got.Body.Close()
			body, err := io.ReadAll(got.Body)
			waited <- fmt.Sprintf("%d %s %v", got.StatusCode, body, err)
		}()
	}
	// A connection whose request has not come through when the door closes is cut off.
	for b.runs.waiting.Load() < 2 {
		time.Sleep(5 * time.Millisecond)
	}
	began := time.Now()
	if err := end(); err != nil || time.Since(began) > time.Minute {
		t.Errorf("the door closed after %v with %v", time.Since(began), err)
	}
	for range 2 {
		if got := <-waited; !strings.HasPrefix(got, "200 ") || !strings.HasSuffix(got, " <nil>") {
			t.Errorf("a client was left with %q", got)
		}
	}
}

// TestSlowClients plays clients that send in pieces, or never read.
func TestSlowClients(t *testing.T) {
	tests := map[string]struct{ sent, want string }{
		"a head without end": {"GET /runs HTTP/1.1\r\nX-Long: " + strings.Repeat("x", 2*maxHeader) + "\r\n\r\n", "HTTP/1.1 431 "},
		"no HTTP":            {"hello\r\n\r\n", "HTTP/1.1 400 "},
		"half a head":        {"GET /runs HTTP/1.1\r\nHost: ", ""},
		"half a body": {"POST /runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
			"HTTP/1.1 408 "},
		"nothing more": {"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "HTTP/1.1 200 "},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.times = times{head: time.Second, body: 2 * time.Second, idle: 200 * time.Millisecond, send: 5 * time.Second, close: time.Second}
			c := b.dial()
			if _, err := io.WriteString(c, tc.sent); err != nil {
				t.Fatal(err)
			}
			if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(c)
			if err != nil || !strings.HasPrefix(string(got), tc.want) {
				t.Errorf("the connection ended with %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

// A body that comes too slowly is answered, though the time to answer has gone with it.
func TestSlowBodies(t *testing.T) {
	for name, sent := range map[string]string{
		"half of it":  "Content-Length: 100\r\n\r\n{",
		"in chunks":   "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
		"none of it":  "Content-Length: 100\r\n\r\n",
		"its promise": "Content-Length: 100\r\nExpect: 100-continue\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.times = times{head: 2 * time.Second, body: 3 * time.Second, idle: time.Second, send: 2 * time.Second, close: time.Second}
			c := b.dial()
			if _, err := io.WriteString(c, "POST /runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"+sent); err != nil {
				t.Fatal(err)
			}
			if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(c)
			for _, want := range []string{"HTTP/1.1 408 Request Timeout", "application/problem+json", `"type":"urn:weft:problem:slow-body"`, `"remedy":"send the whole body`} {
				if err != nil || !strings.Contains(string(got), want) {
					t.Errorf("the connection ended with %q, %v; want %s in it", got, err, want)
				}
			}
		})
	}
}

// dial serves the door and connects to it.
func (b *bench) dial() net.Conn {
	b.Helper()
	address, _ := b.served()
	c, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

// TestClientsThatDoNotRead lets a client ask for events that it never takes.
func TestClientsThatDoNotRead(t *testing.T) {
	b := newBench(t)
	b.times.send = 200 * time.Millisecond
	b.runs.add("r")
	for range 2000 {
		b.runs.events = append(b.runs.events, Event{Type: "note", Timestamp: noon, Text: strings.Repeat("x", 10_000)})
	}
	c := b.dial()
	if _, err := io.WriteString(c, "GET /runs/r/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); b.runs.left.Load() == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the client is still waited for")
		}
	}
}
