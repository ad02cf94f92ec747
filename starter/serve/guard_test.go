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
		o.Tokens = []config.Token{{Name: "kim", Value: "kimkimkimkimkimkim", Principal: config.Principal{Scopes: defaultScopes}}}
	})
	b.call("GET", "/runs", "").expect(401, "missing token")
	got := b.call("GET", "/runs", "", "Authorization: Bearer other").expect(401, "invalid token")
	if challenge := got.Header().Get("WWW-Authenticate"); challenge != `Bearer error="invalid_token"` {
		t.Errorf("WWW-Authenticate = %q", challenge)
	}
	b.call("GET", "/runs", "", "Authorization: Basic kimkimkimkimkimkim").expect(401, "")
	b.call("GET", "/nothing", "").expect(401, "")
	b.call("GET", "/runs", "", "Authorization: Bearer kimkimkimkimkimkim").expect(200, "runs")
	b.call("GET", "/runs", "", "Authorization: bearer kimkimkimkimkimkim", "Host: weft.example").expect(200, "runs")
	b.call("GET", "/openapi.json", "").expect(200, `"openapi": "3.1.0"`)
	b.call("GET", "/health", "").expect(200, "ok")
}

// TestForeignOrigins checks that web pages in a browser on this machine can use the API only if the settings allow their origin.
func TestForeignOrigins(t *testing.T) {
	b := newBench(t)
	b.call("GET", "/runs", "", "Host: evil.example").expect(403, "is not a loopback name")
	b.call("GET", "/runs", "", "Host: localhost").expect(200, "")
	b.call("GET", "/runs", "", "Host: [::1]:8765").expect(200, "")
	b.call("POST", "/runs", documentedStart, "Origin: https://evil.example").expect(403, "not allowed")
	b.call("POST", "/runs", documentedStart, "Origin: null").expect(403, "not allowed")
	b.call("POST", "/runs", documentedStart, "Content-Type: text/plain").expect(415, "")
	b.call("POST", "/runs", documentedStart, "Origin: http://127.0.0.1:8765").expect(201, "")
	b.call("OPTIONS", "/runs", "", "Origin: https://evil.example", "Access-Control-Request-Method: POST").expect(403, "")

	allowed := newBench(t, func(o *Options) {
		o.Settings.Origins = []string{"https://app.example"}
		o.Tokens = []config.Token{{Name: "kim", Value: "kimkimkimkimkimkim", Principal: config.Principal{Scopes: defaultScopes}}}
	})
	got := allowed.call("OPTIONS", "/runs", "", "Origin: https://app.example", "Access-Control-Request-Method: POST").expect(204, "")
	for name, want := range map[string]string{"Access-Control-Allow-Origin": "https://app.example", "Access-Control-Allow-Methods": corsMethods,
		"Access-Control-Allow-Headers": corsHeaders, "Vary": "Origin"} {
		if got.Header().Get(name) != want {
			t.Errorf("%s = %q, want %q", name, got.Header().Get(name), want)
		}
	}
	denied := allowed.call("GET", "/runs", "", "Origin: https://app.example").expect(401, "")
	if denied.Header().Get("Access-Control-Allow-Origin") != "https://app.example" {
		t.Error("a 401 response has no Access-Control-Allow-Origin, so the page cannot read it")
	}
	allowed.call("GET", "/runs", "", "Origin: https://other.example", "Authorization: Bearer kimkimkimkimkimkim").expect(403, "")
}

func TestInvalidURLs(t *testing.T) {
	b := newBench(t)
	b.call("GET", "/run", "").expect(404, `\"/run\" not found`)
	got := b.call("DELETE", "/runs/x", "").expect(405, "does not support DELETE")
	if got.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("Allow = %q", got.Header().Get("Allow"))
	}
	for path, part := range map[string]string{
		"/runs?limit=0": `the limit is \"0\"`, "/runs?limit=x": "use 1 to 200", "/runs?limit=1&limit=2": "is set 2 times", "/runs?statu=x": `unknown parameter \"statu\"`,
		"/runs?status=x": "use one of: running", "/agents?page_token=!": "the page_token is", "/runs/x?wait=1h": "from 0s to 2m", "/runs/x?wait=30": "such as 30s",
	} {
		b.call("GET", path, "").expect(400, part)
	}
}

// TestServerErrorLog checks that errors of net/http's server go to Options.Log.
func TestServerErrorLog(t *testing.T) {
	b := newBench(t)
	b.server().ErrorLog.Printf("http: something %s\n", "odd")
	if got := b.logged(); got != "http: something odd\n" {
		t.Errorf("log = %q", got)
	}
}

// TestInternalErrors checks the responses when Runs returns an error or panics.
func TestInternalErrors(t *testing.T) {
	b := newBench(t)
	b.runs.err = errStrange
	b.call("GET", "/runs", "").expect(500, "check the log")
	if !strings.Contains(b.logged(), "strange") {
		t.Errorf("log = %q", b.logged())
	}
	b.runs.err = NewProblem(NoTemporal, "retry later", "Temporal is away")
	b.call("GET", "/health", "").expect(503, "Temporal is away")
	b.Runs = nil
	b.call("GET", "/runs", "").expect(500, "internal error")
	if !strings.Contains(b.logged(), "defect") {
		t.Errorf("log = %q", b.logged())
	}
}

// listen serves on a free port until end is called or the test ends.
func (b *bench) listen() (address string, end func() error) {
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

// TestShutdown checks that clients that wait for a run or read its events get a complete response when the server shuts down.
func TestShutdown(t *testing.T) {
	b := newBench(t)
	b.runs.add("r")
	b.runs.events = []Event{{Type: "note", Timestamp: noon, Text: "x"}}
	address, end := b.listen()
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
	// The server drops connections whose requests it has not read yet.
	for b.runs.awaits.Load() < 2 {
		time.Sleep(5 * time.Millisecond)
	}
	began := time.Now()
	if err := end(); err != nil || time.Since(began) > time.Minute {
		t.Errorf("Serve returned after %v with %v", time.Since(began), err)
	}
	for range 2 {
		if got := <-waited; !strings.HasPrefix(got, "200 ") || !strings.HasSuffix(got, " <nil>") {
			t.Errorf("response = %q, want a complete one with status 200", got)
		}
	}
}

// TestSlowClients checks the responses to clients that send oversized, invalid or incomplete requests, or keep an idle connection.
func TestSlowClients(t *testing.T) {
	tests := map[string]struct{ sent, want string }{
		"header too large":  {"GET /runs HTTP/1.1\r\nX-Long: " + strings.Repeat("x", 2*maxHeader) + "\r\n\r\n", "HTTP/1.1 431 "},
		"no HTTP":           {"hello\r\n\r\n", "HTTP/1.1 400 "},
		"incomplete header": {"GET /runs HTTP/1.1\r\nHost: ", ""},
		"incomplete body": {"POST /runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
			"HTTP/1.1 408 "},
		"idle connection": {"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "HTTP/1.1 200 "},
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
				t.Errorf("response = %q, %v; want prefix %q", got, err, tc.want)
			}
		})
	}
}

// TestSlowBodies checks that a client whose body does not arrive in time gets a response, although the write timeout has expired as well.
func TestSlowBodies(t *testing.T) {
	for name, sent := range map[string]string{
		"incomplete":   "Content-Length: 100\r\n\r\n{",
		"chunked":      "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
		"missing":      "Content-Length: 100\r\n\r\n",
		"100-continue": "Content-Length: 100\r\nExpect: 100-continue\r\n\r\n",
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
					t.Errorf("response = %q, %v; want %s in it", got, err, want)
				}
			}
		})
	}
}

// dial starts the server and connects to it.
func (b *bench) dial() net.Conn {
	b.Helper()
	address, _ := b.listen()
	c, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

// TestUnreadEvents checks that the server closes the connection of a client that requests events and never reads them.
func TestUnreadEvents(t *testing.T) {
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
	for end := time.Now().Add(time.Minute); b.runs.followed.Load() == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the server still waits for the client")
		}
	}
}
