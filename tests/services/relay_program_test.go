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

// relayFile and relayHold are, for a test's own program, the fields of the [mcpRelay] as which it is started.
const (
	relayFile = "RELAY_FILE"
	relayHold = "RELAY_HOLD"
)

// mcpRelay stands between a client and an MCP server and notes calls of tools in a file, which outlives it. It notes each
// call that goes to the server, and each answer of the server's.
type mcpRelay struct {
	file string
	// hold is which of the calls, from 1, gets no answer, though the server gives one. 0 is none.
	hold int

	mu sync.Mutex
	// calls are the tools of the calls without an answer, by their ids. held is the id of the one that is held.
	calls map[string]string
	held  string
	// ended is closed by end, once the server has ended; nil where its output ends with it.
	ended chan struct{}
	end   func()
}

// newRelay is a relay without a server.
func newRelay(t testing.TB, hold int) *mcpRelay {
	t.Helper()
	r := &mcpRelay{file: t.TempDir() + "/calls", hold: hold, ended: make(chan struct{})}
	r.end = sync.OnceFunc(func() { close(r.ended) })
	return r
}

// Command starts a server behind the relay: the test's own program, if its main calls [serveRelay].
func (r *mcpRelay) Command(t testing.TB, server ...string) (command string, args []string, env map[string]string) {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path, server, map[string]string{relayFile: r.file, relayHold: strconv.Itoa(r.hold)}
}

// Serve relays to a server over HTTP until the test ends, and returns the relay's own URL.
func (r *mcpRelay) Serve(t testing.TB, server string) string {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.Header().Set("Retry-After", "1") // the server is about to start
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
		body, _ := io.ReadAll(q.Body) // what is cut is the server's to refuse
		r.called(body)
		q.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, q)
	}))
	t.Cleanup(func() { r.end(); web.CloseClientConnections(); web.Close() })
	return web.URL
}

// serveRelay relays between standard input and output and the server of its arguments and exits, if the program was started
// as a [mcpRelay].
func serveRelay() {
	r := &mcpRelay{file: os.Getenv(relayFile)}
	if r.file == "" {
		return
	}
	r.hold, _ = strconv.Atoi(os.Getenv(relayHold)) // newRelay's
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
	r.note("server", cmd.Process.Pid)
	go func() {
		lines := bufio.NewReader(os.Stdin)
		for line, err := lines.ReadBytes('\n'); err == nil; line, err = lines.ReadBytes('\n') {
			r.called(line)
			_, _ = in.Write(line) // it fails where the server has ended, which its output shows
		}
		in.Close()
		time.AfterFunc(time.Second, func() { _ = cmd.Process.Kill() })
	}()
	_ = r.pass(os.Stdout, out) // the server has ended
	if err := cmd.Wait(); err != nil {
		log.Fatalf("the server ended: %v", err)
	}
	os.Exit(0)
}

// Noted are the lines of the file: "called TOOL", "answered TOOL" and, of a command, "server PID".
func (r *mcpRelay) Noted() []string {
	raw, _ := os.ReadFile(r.file) // there is none before the first
	return strings.Split(strings.TrimSpace(string(raw)), "\n")
}

func (r *mcpRelay) note(what string, of any) {
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
	r.note("called", m.Params.Name)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls = map[string]string{}
	}
	r.calls[string(m.ID)] = m.Params.Name
	n := 0
	for _, line := range r.Noted() {
		if strings.HasPrefix(line, "called ") {
			n++
		}
	}
	if n == r.hold {
		r.held = string(m.ID)
	}
}

// pass copies what a server says, until its end; nothing from the answer on that is held.
func (r *mcpRelay) pass(to io.Writer, from io.Reader) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if r.answered(bytes.TrimPrefix(line, []byte("data: "))) {
			_, _ = io.Copy(io.Discard, lines)
			if r.ended != nil {
				<-r.ended // a server ends the stream of an answer before it ends itself
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

// answered notes a message that answers a call, and reports whether it is held.
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
	r.note("answered", name)
	return held
}
