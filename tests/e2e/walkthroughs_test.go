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

// clerk is a model behind the wire format of Ollama and of OpenAI-compatible servers. It sends
// a mail and then says so.
type clerk struct {
	url string

	mu sync.Mutex
	// expired says that the key counts no more once the mail is sent; calls counts answers.
	expired bool
	calls   int
	refused int
}

func newClerk(t *testing.T) *clerk {
	c := &clerk{}
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	c.url = srv.URL
	return c
}

// ServeHTTP answers one request.
func (c *clerk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.expired && sent {
		c.refused++
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":{"message":"the key has expired","code":"invalid_api_key"}}`)
		return
	}
	c.calls++
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

// renew makes the key count again.
func (c *clerk) renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expired = false
}

// mails says what stands in the outbox of a walk.
func (w *walker) mails(t *testing.T) string {
	t.Helper()
	return harness.ReadFile(t, filepath.Join(w.dir, "outbox.txt"))
}

const theMail = "to ann@example.com: We refund your lamp today.\n"

// TestEndToEndWalkLaptop goes from a fresh checkout to a result, on a laptop with Ollama.
func TestEndToEndWalkLaptop(t *testing.T) {
	t.Parallel()
	w, model := newWalker(t), newClerk(t)
	w.names = append(w.names, "127.0.0.1:11434", strings.TrimPrefix(model.url, "http://"))
	w.hooks["make build"] = func() {} // is done
	// Nothing listens on port 1: a Temporal of this machine's has no part in it.
	w.env = append(w.env, "TEMPORAL_ADDRESS=127.0.0.1:1")
	t.Cleanup(func() { unlocked(t, filepath.Join(w.dir, ".local/state/weft/temporal.db.lock")) })
	w.walk(t, "laptop")
	if got := w.mails(t); got != theMail {
		t.Errorf("the outbox has %q", got)
	}
}

// unlocked waits until no process has a lock on a file: the embedded server has ended then.
func unlocked(t *testing.T, file string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return // it has never begun
	}
	defer f.Close()
	for range 300 {
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("%s is still locked: the embedded server does not end", file)
}

// existing starts a Temporal with a namespace that has none of our search attributes.
func existing(t *testing.T, namespace string) string {
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
		_, err := c.WorkflowService().ListWorkflowExecutions(ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: namespace})
		_, pollErr := c.WorkflowService().CountWorkflowExecutions(ctx, &workflowservice.CountWorkflowExecutionsRequest{Namespace: namespace})
		if err == nil && pollErr == nil {
			return address
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("the namespace %s is not there", namespace)
	return ""
}

// TestEndToEndWalkCluster works with a Temporal that others run, and with a key that expires
// in the middle of a run.
func TestEndToEndWalkCluster(t *testing.T) {
	t.Parallel()
	w, model := newWalker(t), newClerk(t)
	model.expired = true
	w.names = append(w.names, "temporal.example.com:7233", existing(t, "support"))
	w.env = append(w.env, "WEFT_PROVIDERS_ACME_BASE_URL="+model.url+"/v1")
	w.hooks["# The API key has been renewed with the provider."] = model.renew
	w.walk(t, "cluster")
	if got := w.mails(t); got != theMail {
		t.Errorf("the outbox has %q, want one mail: the run goes on at the call that failed", got)
	}
	model.mu.Lock()
	defer model.mu.Unlock()
	if model.calls != 2 || model.refused != 1 {
		t.Errorf("the model answered %d calls and refused %d, want 2 and 1", model.calls, model.refused)
	}
}

// TestEndToEndWalkClient starts a run by its flow's name from Node.js.
func TestEndToEndWalkClient(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("there is no %s here; the walk was not run", name)
		}
	}
	w, model := newWalker(t), newClerk(t)
	for _, name := range []string{"package.json", "package-lock.json", "answer.mjs"} {
		copyFile(t, "../clients/node/"+name, filepath.Join(w.dir, "client", name))
	}
	install := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	install.Dir = filepath.Join(w.dir, "client")
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("npm ci did not get @temporalio/client (%v), so the walk was not run:\n%s", err, out)
	}
	w.hooks["(cd client && npm ci)"] = func() {} // is done
	w.hooks["cp -r tests/clients/node client"] = func() {}
	w.names = append(w.names, "temporal.example.com:7233", harness.StartServer(t, "-db", ":memory:", "-port=0").Address)
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
