package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/tests/programs"
)

// streamingModel is a model server that streams the pieces of its answer as the test sends them.
type streamingModel struct {
	pieces chan string
	url    string
}

// dropConnection as a piece aborts the response; endAnswer completes the answer.
const dropConnection, endAnswer = "<break>", "<end>"

func newStreamingModel(t *testing.T) *streamingModel {
	s := &streamingModel{pieces: make(chan string)}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	s.url = srv.URL + "/v1"
	return s
}

// ServeHTTP streams the pieces that the test sends.
func (s *streamingModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(delta map[string]any, finish any) {
		raw, _ := json.Marshal(map[string]any{"model": "m", "choices": []any{map[string]any{"delta": delta, "finish_reason": finish}}})
		fmt.Fprintf(w, "data: %s\n\n", raw)
		w.(http.Flusher).Flush()
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case piece := <-s.pieces:
			switch piece {
			case dropConnection:
				panic(http.ErrAbortHandler)
			case endAnswer:
				send(map[string]any{}, "stop")
				fmt.Fprint(w, "data: [DONE]\n\n")
				return
			}
			send(map[string]any{"content": piece}, nil)
		}
	}
}

// screen collects everything that was written to a terminal.
type screen struct {
	mu  sync.Mutex
	all strings.Builder
}

func (s *screen) read(master *os.File) {
	buf := make([]byte, 4096)
	for {
		n, err := master.Read(buf)
		s.mu.Lock()
		s.all.Write(buf[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// wait waits until the terminal contains a text, and returns how long that took.
func (s *screen) wait(t *testing.T, text string) time.Duration {
	t.Helper()
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		all := s.all.String()
		s.mu.Unlock()
		if strings.Contains(all, text) {
			return time.Since(start)
		}
		if time.Since(start) > time.Minute {
			t.Fatalf("the terminal does not contain %q:\n%q", text, all[max(0, len(all)-2000):])
		}
	}
}

// TestEndToEndPartialAnswers checks that a terminal shows a model's answer while it is streamed, also after a retry.
func TestEndToEndPartialAnswers(t *testing.T) {
	path := programs.Path(t, "WEFT_DEVSERVER")
	model := newStreamingModel(t)
	// With this timeout, activities heartbeat only every 10 s: text that is shown sooner was sent because the run is followed.
	address := devserverWith(t, path, []string{"WEFT_TIMEOUTS_HEARTBEAT=1m", "WEFT_MODEL=fake/m", "WEFT_PROVIDERS_FAKE_KIND=compatible", "WEFT_PROVIDERS_FAKE_BASE_URL=" + model.url})
	flow := filepath.Join(t.TempDir(), "tell.json")
	if err := os.WriteFile(flow, []byte(`{"name": "Tell", "nodes": [{"id": "tell", "name": "Tell", "prompt": "Tell a story.", "is_exit_node": true}],
		"edges": [{"id": "in", "source": "START", "target": "tell"}, {"id": "out", "source": "tell", "target": "END"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	master, slave := pseudoTerminal(t)
	t.Cleanup(func() { slave.Close() })
	var stdout strings.Builder
	a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: slave,
		env: mapEnv{"TERM": "xterm", "NO_COLOR": "1", "TEMPORAL_ADDRESS": address, "TEMPORAL_CONFIG_FILE": filepath.Join(t.TempDir(), "none.toml")}}
	code := make(chan int, 1)
	go func() { code <- a.run(context.Background(), []string{"-flow", flow, "-input", "x"}) }()
	s := &screen{}
	go s.read(master)
	stream := func(piece string) {
		t.Helper()
		select {
		case model.pieces <- piece:
		case <-time.After(3 * time.Minute):
			t.Fatalf("no model call reads %q", piece)
		}
	}
	stream("It was a dark\n")
	s.wait(t, "  │ It was a dark")
	var took []time.Duration
	for i := range 5 {
		stream(fmt.Sprintf("word-%d ", i))
		took = append(took, s.wait(t, fmt.Sprintf("word-%d", i)))
		time.Sleep(170 * time.Millisecond) // out of step with tickers
	}
	slices.Sort(took)
	t.Logf("shown after %v", took)
	if took[2] > time.Second {
		t.Errorf("partial answers were shown after %v, want at most 1 s", took)
	}
	stream(dropConnection)
	s.wait(t, "attempt 1 failed: unavailable")
	stream("Again\x1b[2J\x1b]0;title\x07, it was")
	s.wait(t, "  │ attempt 2: Again[2J]0;title, it was")
	stream(endAnswer)
	select {
	case got := <-code:
		if want := "Again\x1b[2J\x1b]0;title\x07, it was\n"; got != exitOK || stdout.String() != want {
			t.Errorf("exit code %d, result = %q, want %q", got, stdout.String(), want)
		}
	case <-time.After(3 * time.Minute):
		t.Fatal("starter does not exit")
	}
	s.wait(t, " 1 of 1 nodes, 1 executions, 1 model calls")
	s.mu.Lock()
	defer s.mu.Unlock()
	frames := strings.Split(s.all.String(), "\x1b[J")
	if last := frames[len(frames)-1]; strings.Contains(last, "│") || !strings.Contains(last, "✓ tell#1") {
		t.Errorf("last table = %q", last)
	}
}
