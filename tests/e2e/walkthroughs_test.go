package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/durationpb"

	"weft/tests/harness"
)

// mailModel is a model with the APIs of Ollama and of OpenAI-compatible servers. It sends a mail by a tool call and
// then reports that.
type mailModel struct {
	url string

	mu sync.Mutex
	// expired makes the model reject its key once the mail is sent.
	expired  bool
	calls    int // without rejected ones
	rejected int
}

func newMailModel(t *testing.T) *mailModel {
	m := &mailModel{}
	srv := httptest.NewServer(m)
	t.Cleanup(srv.Close)
	m.url = srv.URL
	return m
}

func (m *mailModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/api/tags" {
		fmt.Fprint(w, `{"models":[{"name":"qwen3:8b","details":{"family":"qwen3"}}]}`)
		return
	}
	var in struct {
		Stream   bool
		Messages []struct{ Role string }
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	sent := in.Messages[len(in.Messages)-1].Role == "tool"
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.expired && sent {
		m.rejected++
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":{"message":"the key has expired","code":"invalid_api_key"}}`)
		return
	}
	m.calls++
	delta := map[string]any{"tool_calls": []any{map[string]any{"index": 0, "id": "call_1", "type": "function", "function": map[string]any{
		"name": "send_mail", "arguments": `{"to":"ann@example.com","text":"We refund your lamp today."}`}}}}
	finish, tokens := "tool_calls", 21
	if sent {
		delta, finish, tokens = map[string]any{"content": "I wrote to Ann that her lamp is refunded today."}, "stop", 12
	}
	part := "delta"
	if !in.Stream {
		part, delta["role"] = "message", "assistant"
	}
	raw, _ := json.Marshal(map[string]any{"model": "m", "choices": []any{map[string]any{part: delta, "finish_reason": finish}},
		"usage": map[string]any{"prompt_tokens": 100 * len(in.Messages), "completion_tokens": tokens}})
	if !in.Stream {
		_, _ = w.Write(raw)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", raw)
}

// renew makes the key valid again.
func (m *mailModel) renew() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expired = false
}

// mails returns the content of the outbox.
func (w *walker) mails(t *testing.T) string {
	t.Helper()
	return harness.ReadFile(t, filepath.Join(w.dir, "outbox.txt"))
}

const sentMail = "to ann@example.com: We refund your lamp today.\n"

// TestEndToEndWalkthroughLaptop runs the walkthrough from a checkout to a result, on a laptop with Ollama.
func TestEndToEndWalkthroughLaptop(t *testing.T) {
	t.Parallel()
	w, model := newWalker(t), newMailModel(t)
	w.replacements = append(w.replacements, "127.0.0.1:11434", strings.TrimPrefix(model.url, "http://"))
	w.hooks["make build"] = func() {} // already built
	// Nothing listens on port 1, so that a Temporal server of this machine is not used.
	w.env = append(w.env, "TEMPORAL_ADDRESS=127.0.0.1:1")
	t.Cleanup(func() { waitUnlocked(t, filepath.Join(w.dir, ".local/state/weft/temporal.db.lock")) })
	w.walk(t, "laptop")
	if got := w.mails(t); got != sentMail {
		t.Errorf("outbox = %q", got)
	}
}

// waitUnlocked waits until no process locks a file, that is, until the embedded server has stopped.
func waitUnlocked(t *testing.T, file string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return // the server was not started
	}
	defer f.Close()
	for range 300 {
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("%s is still locked: the embedded server did not stop", file)
}

// startWithNamespace starts a Temporal server with a namespace that lacks Weft's search attributes.
func startWithNamespace(t *testing.T, namespace string) string {
	t.Helper()
	address := harness.StartServer(t, "-db", ":memory:", "-port=0").Address
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	c := harness.Dial(t, address)
	if _, err := c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: namespace, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	for ctx.Err() == nil {
		_, listErr := c.WorkflowService().ListWorkflowExecutions(ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: namespace})
		_, countErr := c.WorkflowService().CountWorkflowExecutions(ctx, &workflowservice.CountWorkflowExecutionsRequest{Namespace: namespace})
		if listErr == nil && countErr == nil {
			return address
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("namespace %s is not available", namespace)
	return ""
}

// TestEndToEndWalkthroughCluster runs the walkthrough with an existing Temporal server and a key that expires during a
// run.
func TestEndToEndWalkthroughCluster(t *testing.T) {
	t.Parallel()
	w, model := newWalker(t), newMailModel(t)
	model.expired = true
	w.replacements = append(w.replacements, "temporal.example.com:7233", startWithNamespace(t, "support"))
	w.env = append(w.env, "WEFT_PROVIDERS_ACME_BASE_URL="+model.url+"/v1")
	w.hooks["# The API key has been renewed with the provider."] = model.renew
	w.walk(t, "cluster")
	if got := w.mails(t); got != sentMail {
		t.Errorf("outbox = %q, want one mail: the run continues at the call that failed", got)
	}
	model.mu.Lock()
	defer model.mu.Unlock()
	if model.calls != 2 || model.rejected != 1 {
		t.Errorf("the model completed %d calls and rejected %d, want 2 and 1", model.calls, model.rejected)
	}
}

// TestEndToEndWalkthroughClient runs the walkthrough in which a Node.js client starts a run by its flow's name.
func TestEndToEndWalkthroughClient(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
	w, model := newWalker(t), newMailModel(t)
	for _, name := range []string{"package.json", "package-lock.json", "answer.mjs"} {
		copyFile(t, "../clients/node/"+name, filepath.Join(w.dir, "client", name))
	}
	install := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	install.Dir = filepath.Join(w.dir, "client")
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("npm ci did not install @temporalio/client (%v):\n%s", err, out)
	}
	w.hooks["(cd client && npm ci)"] = func() {} // already installed
	w.hooks["cp -r tests/clients/node client"] = func() {}
	w.replacements = append(w.replacements, "temporal.example.com:7233", harness.StartServer(t, "-db", ":memory:", "-port=0").Address)
	w.env = append(w.env, "WEFT_PROVIDERS_ACME_BASE_URL="+model.url+"/v1")
	w.walk(t, "client")
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, []byte(harness.ReadFile(t, from)), 0o600); err != nil {
		t.Fatal(err)
	}
}
