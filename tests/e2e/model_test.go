package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// modelServer is an OpenAI-compatible server that counts calls by their idempotency key. Each
// call takes 150 ms. The text of a response is "turn n", where n is one more than the number of
// assistant messages in the request.
type modelServer struct {
	url string

	mu    sync.Mutex
	keys  map[string]int
	total int
}

func newModelServer(t testing.TB) *modelServer {
	m := &modelServer{keys: map[string]int{}}
	srv := httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(srv.Close)
	m.url = srv.URL + "/v1"
	return m
}

func (m *modelServer) serve(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	m.total++
	m.keys[r.Header.Get("Idempotency-Key")]++
	m.mu.Unlock()
	var in struct {
		Stream   bool
		Messages []struct{ Role string }
		Tools    []struct{ Function struct{ Name string } }
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	turn := 1
	for _, msg := range in.Messages {
		if msg.Role == "assistant" {
			turn++
		}
	}
	select {
	case <-time.After(150 * time.Millisecond):
	case <-r.Context().Done():
		return
	}
	delta := map[string]any{"content": fmt.Sprintf("turn %d", turn)}
	finish, last, name, args := "stop", 4, "list_state_keys", "{}"
	for _, tool := range in.Tools {
		if tool.Function.Name == "send_mail" {
			last, name, args = 2, "send_mail", `{"to":"ann"}`
		}
	}
	if turn < last {
		finish = "tool_calls"
		delta = map[string]any{"content": nil, "tool_calls": []any{map[string]any{"index": 0, "id": fmt.Sprintf("call_%d", turn), "type": "function",
			"function": map[string]any{"name": name, "arguments": args}}}}
	}
	if !in.Stream {
		delta["role"] = "assistant"
		_ = json.NewEncoder(w).Encode(map[string]any{"model": "m", "choices": []any{map[string]any{"message": delta, "finish_reason": finish}}})
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	raw, _ := json.Marshal(map[string]any{"model": "m", "choices": []any{map[string]any{"delta": delta, "finish_reason": finish}}})
	fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", raw)
}

func (m *modelServer) calls() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total
}

func (m *modelServer) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keys, m.total = map[string]int{}, 0
}

// check reports an error unless there were 12 different calls, of which at most inFlight were repeated, once each.
func (m *modelServer) check(t testing.TB, inFlight int) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	repeated := 0
	for key, n := range m.keys {
		if key == "" {
			t.Error("a call has no idempotency key")
		}
		if n > 1 {
			repeated++
		}
		if n > 2 {
			t.Errorf("call %s was made %d times", key, n)
		}
	}
	if repeated > inFlight {
		t.Errorf("%d calls were repeated, want at most the %d in flight", repeated, inFlight)
	}
	if len(m.keys) != 12 {
		t.Errorf("%d different calls, want 12", len(m.keys))
	}
}
