package tests

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/proto"

	"weft/activities/contract"
)

// canaries are secrets of a worker, by what they are. None may be found anywhere else than in the
// requests that it is there for.
var canaries = map[string]string{
	"API key":                 "canary0apikey5f3a9c",
	"key of another provider": "canary1otherkey77b1e",
	"header":                  "canary2header0d4c88",
	"connection's query":      "canary3query19ee02",
	"environment of a tool":   "canary4toolenv6a6b1",
	"store's key":             "canary5storekey43d0f",
	"secret of a flow":        "canary6flowsecret8c2",
	"codec endpoint's token":  "canary7codectoken9f1",
}

// locked is a buffer for two writers.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// repeats is what a caller sent, as a server that knows no shame repeats it.
func repeats(q *http.Request) string {
	return fmt.Sprintf("you sent %s with %q", q.URL.String(), q.Header)
}

// echo answers every model call with an error that repeats the request: /STATUS/..., or with a
// stream that ends in one.
func echo(w http.ResponseWriter, q *http.Request) {
	first, _, _ := strings.Cut(strings.TrimPrefix(q.URL.Path, "/"), "/")
	status, err := strconv.Atoi(first)
	text := strconv.Quote(repeats(q))
	switch {
	case err != nil: // a stream that breaks
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"id\":\"1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"half\"}}]}\n\ndata: {\"error\":{\"message\":%s,\"code\":400}}\n\n", text)
	case status == http.StatusOK:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"error":{"message":%s,"type":"invalid_request_error","code":400}}`, text)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"message":%s,"type":"x"},"authorization":%s}`, text, text)
	}
}

// shameless is an MCP server whose tools repeat what they were sent: as a result, as an error, and
// by failing.
func shameless() http.Handler {
	s := server.NewMCPServer("shameless", "1", server.WithToolCapabilities(false))
	for _, name := range []string{"say", "refuse"} {
		s.AddTool(mcp.NewTool(name), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			res := mcp.NewToolResultText(fmt.Sprintf("%q", req.Header))
			res.StructuredContent = map[string]any{"headers": req.Header}
			res.IsError = name == "refuse"
			return res, nil
		})
	}
	s.AddTool(mcp.NewTool("break"), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, fmt.Errorf("broken by %q", req.Header)
	})
	s.AddTool(mcp.NewTool("crash"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) { return nil, nil })
	h := server.NewStreamableHTTPServer(s)
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		if strings.Contains(string(body), `"crash"`) {
			http.Error(w, repeats(q), http.StatusBadRequest)
			return
		}
		q.Body = io.NopCloser(bytes.NewReader(body))
		h.ServeHTTP(w, q)
	})
}

// canaryConfig is the worker's settings file.
func canaryConfig(models, tools string) string {
	var b strings.Builder
	b.WriteString("providers:\n")
	for _, name := range []string{"200", "400", "401", "403", "413", "422", "stream"} {
		fmt.Fprintf(&b, "  p%s: {kind: compatible, base_url: '%s/%s/v1', key_env: CANARY_KEY}\n", name, models, name)
	}
	fmt.Fprintf(&b, "  anthropic: {base_url: '%s/400'}\n  google: {base_url: '%s/400'}\n  mistral: {base_url: '%s/401/v1'}\n", models, models, models)
	fmt.Fprintf(&b, "connections:\n  web: {url: '%s/mcp?api_key=%s', headers: {Authorization: 'Bearer ${CANARY_HEADER}'}}\n", tools, canaries["connection's query"])
	b.WriteString("  broken: {command: sh, args: ['-c', 'env >&2; echo \"no protocol: $TOOL_TOKEN\"; env; exit 3'], env: {TOOL_TOKEN: '${CANARY_ENV}'}}\n")
	fmt.Fprintf(&b, "  gone: {url: 'http://127.0.0.1:1/mcp?token=%s', headers: {Authorization: 'Bearer ${CANARY_HEADER}'}}\n", canaries["connection's query"])
	b.WriteString("secrets:\n  crm.sensitive_headers.Authorization: {value: 'Bearer ${CANARY_FLOW}', hosts: [127.0.0.1]}\n")
	return b.String()
}

// TestEndToEndCanaries plants secrets everywhere in a worker's settings, lets everything fail that
// could repeat them, and looks for them in all that the server holds of the runs, in what runs answer,
// in the worker's log and in what the starter prints.
func TestEndToEndCanaries(t *testing.T) {
	address := startTemporal(t, "-db", ":memory:", "-port=0").address
	var sent locked
	noting := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			fmt.Fprintln(&sent, repeats(q))
			h.ServeHTTP(w, q)
		})
	}
	models := httptest.NewServer(noting(http.HandlerFunc(echo)))
	t.Cleanup(models.Close)
	tools := httptest.NewServer(noting(shameless()))
	t.Cleanup(tools.Close)
	config := filepath.Join(t.TempDir(), "weft.yaml")
	if err := os.WriteFile(config, []byte(canaryConfig(models.URL, tools.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	log := canaryWorker(t, address, config)
	c, err := client.Dial(client.Options{HostPort: address, Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	inputs := map[string]map[string]any{}
	for _, model := range []string{"p200/m", "p400/m", "p401/m", "p403/m", "p413/m", "p422/m", "pstream/m", "anthropic/claude-sonnet-4-5", "google/gemini-2.5-flash", "mistral/m"} {
		inputs["model-"+strings.ReplaceAll(model, "/", "-")] = map[string]any{"model": model, "flow": map[string]any{"name": "one.json", "text": oneNode("")}}
	}
	for _, call := range []string{"web say", "web refuse", "web break", "web crash", "web missing", "broken say", "gone say"} {
		connection, name, _ := strings.Cut(call, " ")
		doc := oneNode(fmt.Sprintf(`,"tools":[{"name":%q,"data_connection_id":%q}]`, name, connection))
		inputs["tool-"+connection+"-"+name] = map[string]any{"model": "script", "flow": map[string]any{"name": "one.json", "text": doc},
			"script": map[string]any{"rules": []any{map[string]any{"turn": 1, "call": map[string]any{"tool": name}}, map[string]any{"say": "done"}}}}
	}
	for id, in := range inputs {
		in["v"], in["input"], in["on_error"] = 1, "go", "park"
		if _, err := c.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: id, TaskQueue: contract.TaskQueue}, contract.WorkflowFlow, in); err != nil {
			t.Fatal(err)
		}
	}
	heard := 0
	for id := range inputs {
		said := canaryRun(t, c, address, id)
		for what, secret := range canaries {
			if bytes.Contains(said, []byte(secret)) {
				at := bytes.Index(said, []byte(secret))
				t.Errorf("%s: %s is in what is known of the run: …%.200q", id, what, said[max(0, at-100):])
			}
		}
		if bytes.Contains(said, []byte("[secret]")) {
			heard++
		}
	}
	if heard < len(inputs)/2 {
		t.Errorf("only %d of %d runs had something to hide", heard, len(inputs))
	}
	for _, what := range []string{"API key", "key of another provider", "header", "connection's query"} {
		if !strings.Contains(sent.String(), canaries[what]) {
			t.Errorf("%s reached nobody who could have repeated it", what)
		}
	}
	for what, secret := range canaries {
		if text := log.String(); strings.Contains(text, secret) {
			t.Errorf("%s is in the worker's log: …%.300s", what, text[max(0, strings.Index(text, secret)-150):])
		}
	}
}

// canaryWorker starts a worker with all secrets and returns its log.
func canaryWorker(t *testing.T, address, config string) *locked {
	t.Helper()
	log := &locked{}
	cmd := exec.Command(program(t, "WEFT_WORKER"))
	cmd.Dir = t.TempDir()
	cmd.Env = append(clean(), "TEMPORAL_ADDRESS="+address, "WEFT_CONFIG="+config, "WEFT_MODEL=script", "WEFT_LOG_LEVEL=debug",
		"CANARY_KEY="+canaries["API key"], "ANTHROPIC_API_KEY="+canaries["key of another provider"], "GOOGLE_API_KEY="+canaries["key of another provider"],
		"MISTRAL_API_KEY="+canaries["key of another provider"], "CANARY_HEADER="+canaries["header"], "CANARY_ENV="+canaries["environment of a tool"],
		"CANARY_FLOW="+canaries["secret of a flow"], "AWS_SECRET_ACCESS_KEY="+canaries["store's key"], "AWS_ACCESS_KEY_ID=id",
		"WEFT_CODEC_TOKENS=ui:"+canaries["codec endpoint's token"])
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			text := log.String()
			t.Logf("the worker said:\n%s", text[max(0, len(text)-4000):])
		}
	})
	return log
}

// canaryRun waits until a run has ended, waits for an operator or for another attempt, and gives all that can be known of
// it: history, details, pending calls, queries, what the starter prints.
func canaryRun(t *testing.T, c client.Client, address, id string) []byte {
	t.Helper()
	var out bytes.Buffer
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		d, err := c.DescribeWorkflowExecution(context.Background(), id, "")
		if err != nil {
			t.Fatal(err)
		}
		raw, err := proto.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(raw) // pending calls with their last failure and heartbeats come and go
		again := slices.ContainsFunc(d.GetPendingActivities(), func(p *workflowpb.PendingActivityInfo) bool { return p.GetAttempt() > 3 })
		var st contract.Status
		if v, err := c.QueryWorkflow(context.Background(), id, "", contract.QueryStatus); err == nil && v.Get(&st) == nil && (again || st.Status != contract.StatusRunning || len(st.Requests) > 0) {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("%s neither ended nor waits for anybody: %+v", id, st)
			break
		}
	}
	out.Write(dump(t, address, id))
	for _, query := range []string{contract.QueryStatus, contract.QueryState, contract.QueryPlan, "__stack_trace", "__temporal_workflow_metadata"} {
		if v, err := c.QueryWorkflow(context.Background(), id, "", query); err == nil {
			var any any
			if v.Get(&any) == nil {
				fmt.Fprintf(&out, "%v", any)
			}
		}
	}
	starter := filepath.Join(filepath.Dir(program(t, "WEFT_WORKER")), "starter")
	for _, command := range []string{"status", "transcript", "why", "requests"} {
		cmd := exec.Command(starter, command, id)
		cmd.Dir, cmd.Env = t.TempDir(), append(clean(), "TEMPORAL_ADDRESS="+address)
		said, _ := cmd.CombinedOutput() // some have nothing to say and fail
		if len(said) == 0 {
			t.Errorf("starter %s %s says nothing", command, id)
		}
		out.Write(said)
	}
	return out.Bytes()
}
