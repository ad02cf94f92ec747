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

// storyteller is a model server whose answer comes in pieces: each when the test says so.
type storyteller struct {
	pieces chan string
	url    string
}

// breakOff, as a piece, breaks the connection; wholeAnswer ends the answer.
const breakOff, wholeAnswer = "<break>", "<end>"

func newStoryteller(t *testing.T) *storyteller {
	s := &storyteller{pieces: make(chan string)}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	s.url = srv.URL + "/v1"
	return s
}

// ServeHTTP streams what the test gives.
func (s *storyteller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
			case breakOff:
				panic(http.ErrAbortHandler)
			case wholeAnswer:
				send(map[string]any{}, "stop")
				fmt.Fprint(w, "data: [DONE]\n\n")
				return
			}
			send(map[string]any{"content": piece}, nil)
		}
	}
}

// screen is all that a terminal got.
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

// wait waits until the terminal got a text, and gives how long that took.
func (s *screen) wait(t *testing.T, text string) time.Duration {
	t.Helper()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		all := s.all.String()
		s.mu.Unlock()
		if strings.Contains(all, text) {
			return time.Since(began)
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("the terminal never got %q but\n%q", text, all[max(0, len(all)-2000):])
		}
	}
}

// TestEndToEndPartialAnswers watches a model answer, on a terminal.
func TestEndToEndPartialAnswers(t *testing.T) {
	path := programs.Path(t, "WEFT_DEVSERVER")
	model := newStoryteller(t)
	// Signs of life come each 10 s then: what is seen sooner is seen because somebody watches.
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
	notify := func(piece string) {
		t.Helper()
		select {
		case model.pieces <- piece:
		case <-time.After(3 * time.Minute):
			t.Fatalf("nobody reads %q", piece)
		}
	}
	notify("It was a dark\n")
	s.wait(t, "  │ It was a dark")
	var took []time.Duration
	for i := range 5 {
		notify(fmt.Sprintf("word-%d ", i))
		took = append(took, s.wait(t, fmt.Sprintf("word-%d", i)))
		time.Sleep(170 * time.Millisecond) // not in step with any ticker
	}
	slices.Sort(took)
	t.Logf("seen after %v", took)
	if took[2] > time.Second {
		t.Errorf("partial answers are seen after %v, want at most 1 s", took)
	}
	notify(breakOff)
	s.wait(t, "attempt 1 failed: unavailable")
	notify("Again\x1b[2J\x1b]0;title\x07, it was")
	s.wait(t, "  │ attempt 2: Again[2J]0;title, it was")
	notify(wholeAnswer)
	select {
	case got := <-code:
		if want := "Again\x1b[2J\x1b]0;title\x07, it was\n"; got != exitOK || stdout.String() != want {
			t.Errorf("exit code %d, the result is %q, want %q", got, stdout.String(), want)
		}
	case <-time.After(3 * time.Minute):
		t.Fatal("the run does not end")
	}
	s.wait(t, " 1 of 1 nodes, 1 executions, 1 model calls")
	s.mu.Lock()
	defer s.mu.Unlock()
	frames := strings.Split(s.all.String(), "\x1b[J")
	if last := frames[len(frames)-1]; strings.Contains(last, "│") || !strings.Contains(last, "✓ tell#1") {
		t.Errorf("the last table is %q", last)
	}
}
