package services

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// relayFile and relayHold are environment variables with the fields of the [mcpRelay] as which the test binary is started.
const (
	relayFile = "RELAY_FILE"
	relayHold = "RELAY_HOLD"
)

// mcpRelay is a proxy between a client and an MCP server that logs each tool call to the server and each response in a file,
// which outlives the relay.
type mcpRelay struct {
	file string
	// hold is the number of the call, from 1, whose response is withheld; 0 for none.
	hold int

	mu sync.Mutex
	// calls has the tools of unanswered calls by their ids. held is the id of the call whose response is withheld.
	calls map[string]string
	held  string
	// ended is closed by end after the server was killed; nil over stdio, where the output shows that.
	ended chan struct{}
	end   func()
}

// newRelay returns a relay without a server.
func newRelay(t testing.TB, hold int) *mcpRelay {
	t.Helper()
	r := &mcpRelay{file: t.TempDir() + "/calls", hold: hold, ended: make(chan struct{})}
	r.end = sync.OnceFunc(func() { close(r.ended) })
	return r
}

// command returns the command that starts a stdio server behind the relay: the test binary, whose TestMain calls [serveRelay].
func (r *mcpRelay) command(t testing.TB, server ...string) (command string, args []string, env map[string]string) {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path, server, map[string]string{relayFile: r.file, relayHold: strconv.Itoa(r.hold)}
}

// serve forwards to an HTTP server until the test ends, and returns the relay's URL.
func (r *mcpRelay) serve(t testing.TB, server string) string {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.Header().Set("Retry-After", "1") // the server is being restarted
			w.WriteHeader(http.StatusServiceUnavailable)
		},
		Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to) },
		ModifyResponse: func(resp *http.Response) error {
			in, out := io.Pipe()
			body := resp.Body
			resp.Body = in
			go func() { defer body.Close(); out.CloseWithError(r.pass(out, body)) }()
			return nil
		},
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body) // the server rejects truncated bodies
		r.called(body)
		q.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, q)
	}))
	t.Cleanup(func() { r.end(); web.CloseClientConnections(); web.Close() })
	return web.URL
}

// serveRelay forwards between standard input and output and the server in the arguments and exits if the test binary was started
// as an [mcpRelay].
func serveRelay() {
	r := &mcpRelay{file: os.Getenv(relayFile)}
	if r.file == "" {
		return
	}
	r.hold, _ = strconv.Atoi(os.Getenv(relayHold)) // set by [mcpRelay.command]
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		log.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		log.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		log.Fatal(err)
	}
	r.record("server", cmd.Process.Pid)
	go func() {
		lines := bufio.NewReader(os.Stdin)
		for line, err := lines.ReadBytes('\n'); err == nil; line, err = lines.ReadBytes('\n') {
			r.called(line)
			_, _ = in.Write(line) // it fails after the server has exited, which its output shows
		}
		in.Close()
		time.AfterFunc(time.Second, func() { _ = cmd.Process.Kill() })
	}()
	_ = r.pass(os.Stdout, out) // until the server exits
	if err := cmd.Wait(); err != nil {
		log.Fatalf("the server exited: %v", err)
	}
	os.Exit(0)
}

// logged returns the lines of the log: "called TOOL", "answered TOOL" and, over stdio, "server PID".
func (r *mcpRelay) logged() []string {
	raw, _ := os.ReadFile(r.file) // it does not exist before the first call
	return strings.Split(strings.TrimSpace(string(raw)), "\n")
}

func (r *mcpRelay) record(what string, of any) {
	f, err := os.OpenFile(r.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	_, _ = fmt.Fprintln(f, what, of)
	f.Close()
}

type rpcMessage struct {
	ID     json.RawMessage
	Method string
	Params struct{ Name string }
}

func (r *mcpRelay) called(raw []byte) {
	var m rpcMessage
	if json.Unmarshal(raw, &m) != nil || m.Method != "tools/call" {
		return
	}
	r.record("called", m.Params.Name)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls = map[string]string{}
	}
	r.calls[string(m.ID)] = m.Params.Name
	n := 0
	for _, line := range r.logged() {
		if strings.HasPrefix(line, "called ") {
			n++
		}
	}
	if n == r.hold {
		r.held = string(m.ID)
	}
}

// pass copies the server's output until its end, or until the response that is withheld.
func (r *mcpRelay) pass(to io.Writer, from io.Reader) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if r.answered(bytes.TrimPrefix(line, []byte("data: "))) {
			_, _ = io.Copy(io.Discard, lines)
			if r.ended != nil {
				<-r.ended // a server closes the stream of a response before it exits
			}
			return io.ErrUnexpectedEOF
		}
		if _, err := to.Write(line); err != nil {
			return err
		}
		if err != nil {
			return err
		}
	}
}

// answered logs a message if it is the response of a call, and reports whether to withhold it.
func (r *mcpRelay) answered(raw []byte) (held bool) {
	var m rpcMessage
	if json.Unmarshal(raw, &m) != nil || m.Method != "" {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	name, ok := r.calls[string(m.ID)]
	if !ok {
		return false
	}
	delete(r.calls, string(m.ID))
	held = string(m.ID) == r.held
	if held {
		r.held = ""
	}
	r.record("answered", name)
	return held
}
