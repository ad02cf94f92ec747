package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/proto"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/tests/programs"
)

// canaries are secrets of a worker, by their purpose. They may appear only in the requests that they are
// configured for.
var canaries = map[string]string{
	"API key":                 "canary0apikey5f3a9c",
	"key of another provider": "canary1otherkey77b1e",
	"header":                  "canary2header0d4c88",
	"connection's query":      "canary3query19ee02",
	"environment of a tool":   "canary4toolenv6a6b1",
	"store's key":             "canary5storekey43d0f",
	"secret of a flow":        "canary6flowsecret8c2",
	"codec endpoint's token":  "canary7codectoken9f1",
	"variable":                "canary8variable5b7e2",
	"token for the store":     "canary9storetoken3c1",
	"secret of a webhook":     "whsec_Y2FuYXJ5MTB3ZWJob29rc2VjcmV0MDAwMDAwMDE=",
	"codec's key":             "Y2FuYXJ5MTFjb2RlY2tleTAwMDAwMDAwMDAwMDAwMDE=",
	"password of a proxy":     "canary12proxy77aa0",
	"private key":             "canary13privatekeyMIIEvQIBADANBgkq",
	"server's token":          "canary14doortoken0b9d",
}

// lockedBuffer is a buffer that is safe for concurrent use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// canaryConfig returns the worker's settings file.
func canaryConfig(models, tools string) string {
	var b strings.Builder
	b.WriteString("providers:\n")
	for _, name := range []string{"200", "400", "401", "403", "413", "422", "429", "503", "stream", "good", "calls", "away"} {
		fmt.Fprintf(&b, "  p%s: {kind: compatible, base_url: '%s/%s/v1', key_env: CANARY_KEY}\n", name, models, name)
	}
	fmt.Fprintf(&b, "  anthropic: {base_url: '%s/400'}\n  google: {base_url: '%s/400'}\n  mistral: {base_url: '%s/401/v1'}\n", models, models, models)
	fmt.Fprintf(&b, "connections:\n  web: {url: '%s/mcp?api_key=%s', headers: {Authorization: 'Bearer ${CANARY_HEADER}'}}\n", tools, canaries["connection's query"])
	b.WriteString("  broken: {command: sh, args: ['-c', 'env >&2; echo \"no protocol: $TOOL_TOKEN\"; env; exit 3'], env: {TOOL_TOKEN: '${CANARY_ENV}'}}\n")
	fmt.Fprintf(&b, "  gone: {url: 'http://127.0.0.1:1/mcp?token=%s', headers: {Authorization: 'Bearer ${CANARY_HEADER}'}}\n", canaries["connection's query"])
	fmt.Fprintf(&b, "  proxied: {url: 'https://localhost:1/mcp', proxy: 'http://u:%s@127.0.0.1:1', cert_file: cert.pem, key_file: key.pem}\n", canaries["password of a proxy"])
	fmt.Fprintf(&b, "allow_loopback: true\nvariables: {CANARY_VARIABLE: {hosts: ['%s', '%s']}}\n", models, tools)
	b.WriteString("webhooks: {ops: {url: 'http://127.0.0.1:1/', secret_env: CANARY_HOOK, allow_private: true}}\ncodec: {key: none}\n")
	fmt.Fprintf(&b, "secrets:\n  crm.sensitive_headers.Authorization: {value: 'Bearer ${CANARY_FLOW}', hosts: ['%s', '%s']}\n", models, tools)
	return b.String()
}

// TestEndToEndCanaries puts secrets into all of a worker's settings and runs flows whose model, tool and API
// servers echo requests, in errors and in successful responses. It checks that no secret appears in what
// Temporal stores of the runs, in their queries, in the worker's log, metrics and traces, in the starter's
// output or in the responses of starter serve.
func TestEndToEndCanaries(t *testing.T) {
	t.Parallel()
	address := harness.StartServer(t, "-db", ":memory:", "-port=0").Address
	var sent lockedBuffer
	record := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			fmt.Fprintln(&sent, echoed(q))
			h.ServeHTTP(w, q)
		})
	}
	models := httptest.NewServer(record(http.HandlerFunc(echoModel)))
	t.Cleanup(models.Close)
	tools := httptest.NewServer(record(echoTools()))
	t.Cleanup(tools.Close)
	config := filepath.Join(t.TempDir(), "weft.yaml")
	if err := os.WriteFile(config, []byte(canaryConfig(models.URL, tools.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	traces := &lockedBuffer{}
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { _, _ = io.Copy(traces, q.Body) }))
	t.Cleanup(collector.Close)
	log, metrics := canaryWorker(t, address, config, collector.URL)
	devserverLog := canaryDevserver(t, address, config)
	serveURL, serveLog := canaryServe(t, address, config)
	c := harness.Dial(t, address)
	inputs := map[string]map[string]any{}
	for _, model := range []string{"p200/m", "p400/m", "p401/m", "p403/m", "p413/m", "p422/m", "p429/m", "p503/m", "pstream/m", "pgood/m", "paway/m", "p401/m, pgood/m", "anthropic/claude-sonnet-4-5", "google/gemini-2.5-flash", "mistral/m"} {
		inputs["model-"+strings.NewReplacer("/", "-", ", ", "-").Replace(model)] = map[string]any{"model": model, "flow": map[string]any{"name": "one.json", "text": harness.OneNode("")}}
	}
	for _, call := range []string{"web say", "web refuse", "web break", "web crash", "web missing", "broken say", "gone say", "proxied say"} {
		connection, name, _ := strings.Cut(call, " ")
		doc := harness.OneNode(fmt.Sprintf(`,"tools":[{"name":%q,"data_connection_id":%q}]`, name, connection))
		inputs["tool-"+connection+"-"+name] = map[string]any{"model": "script", "flow": map[string]any{"name": "one.json", "text": doc},
			"script": map[string]any{"rules": []any{map[string]any{"turn": 1, "call": map[string]any{"tool": name}}, map[string]any{"say": "done"}}}}
	}
	inputs["model-calls"] = map[string]any{"model": "pcalls/m", "flow": map[string]any{"name": "one.json", "text": harness.OneNode(`,"tools":[{"name":"say","data_connection_id":"web"}]`)}}
	for _, status := range []string{"api", "401", "422"} {
		inputs["api-"+status] = map[string]any{"model": "script", "flow": map[string]any{"name": "api.json", "text": canaryRequest(models.URL + "/" + status + "/x")}}
	}
	for id, in := range inputs {
		in["v"], in["input"], in["on_error"] = 1, "go", "wait"
		if _, err := c.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: id, TaskQueue: contract.TaskQueue}, contract.WorkflowFlow, in); err != nil {
			t.Fatal(err)
		}
	}
	masked := 0
	for id := range inputs {
		seen := append(canaryRun(t, c, address, id), canaryGet(t, serveURL, "/runs/"+id, "/runs/"+id+"/result", "/runs/"+id+"/status", "/runs/"+id+"/transcript", "/runs/"+id+"/requests", "/runs/"+id+"/events")...)
		for what, secret := range canaries {
			if bytes.Contains(seen, []byte(secret)) {
				at := bytes.Index(seen, []byte(secret))
				t.Errorf("%s: the %s is visible: …%.200q", id, what, seen[max(0, at-100):])
			}
		}
		if bytes.Contains(seen, []byte("[secret]")) {
			masked++
		}
	}
	if masked < len(inputs)/2 {
		t.Errorf("secrets were masked in only %d of %d runs", masked, len(inputs))
	}
	for _, what := range []string{"API key", "key of another provider", "header", "connection's query", "secret of a flow"} {
		if !strings.Contains(sent.String(), canaries[what]) {
			t.Errorf("the %s was sent to no server", what)
		}
	}
	outputs := map[string]string{"worker's log": log.String(), "devserver's log": devserverLog.String(), "log of starter serve": serveLog.String(), "worker's metrics": string(canaryGet(t, metrics, "/metrics")), "worker's traces": traces.String()}
	for name, text := range outputs {
		if text == "" {
			t.Errorf("the %s is empty", name)
		}
		for what, secret := range canaries {
			if strings.Contains(text, secret) {
				t.Errorf("the %s is in the %s: …%.300s", what, name, text[max(0, strings.Index(text, secret)-150):])
			}
		}
	}
}

// canaryRequest returns a flow with one API node, which sends a secret to an address.
func canaryRequest(address string) string {
	return fmt.Sprintf(`{"component_type":"Flow","agentspec_version":"26.1.2","name":"f","start_node":{"$component_ref":"s"},
"nodes":[{"$component_ref":"s"},{"$component_ref":"n"},{"$component_ref":"e"}],
"control_flow_connections":[{"component_type":"ControlFlowEdge","name":"1","from_node":{"$component_ref":"s"},"to_node":{"$component_ref":"n"}},
{"component_type":"ControlFlowEdge","name":"2","from_node":{"$component_ref":"n"},"to_node":{"$component_ref":"e"}}],
"$referenced_components":{"s":{"component_type":"StartNode","name":"s"},"e":{"component_type":"EndNode","name":"e","outputs":[{"title":"said","type":"string"}]},
"n":{"component_type":"ApiNode","id":"crm","name":"n","url":%q,"http_method":"GET","outputs":[{"title":"said","type":"string"}],
"sensitive_headers":{"Authorization":{"$component_ref":"crm.sensitive_headers.Authorization"}}}}}`, address)
}

// canaryGet requests paths of a server and returns all bodies. Event streams are read for a second.
func canaryGet(t *testing.T, address string, paths ...string) []byte {
	t.Helper()
	var out []byte
	for _, path := range paths {
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+canaries["server's token"])
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			stop()
			continue
		}
		if strings.HasSuffix(path, "/events") {
			time.AfterFunc(time.Second, stop)
		}
		body, _ := io.ReadAll(resp.Body) // fails for a stream, which is cancelled
		resp.Body.Close()
		stop()
		out = append(out, body...)
		if resp.StatusCode == http.StatusUnauthorized {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
	return out
}

// canaryServe starts starter serve with all secrets and returns its address and its log.
func canaryServe(t *testing.T, address, config string) (string, *lockedBuffer) {
	t.Helper()
	log := &lockedBuffer{}
	cmd := exec.Command(filepath.Join(filepath.Dir(programs.Path(t, "WEFT_WORKER")), "starter"), "serve", "-listen", "127.0.0.1:0")
	canarySetup(t, cmd, address, config, "WEFT_SERVE_TOKENS=me:"+canaries["server's token"])
	cmd.Stderr = log
	return programs.StartAndReadLine(t, cmd, ""), log
}

// canaryDevserver starts the devserver program without its server, as another worker with all secrets, and
// returns its log.
func canaryDevserver(t *testing.T, address, config string) *lockedBuffer {
	t.Helper()
	log := &lockedBuffer{}
	cmd := exec.Command(programs.Path(t, "WEFT_DEVSERVER"), "-server=false")
	canarySetup(t, cmd, address, config)
	cmd.Stdout, cmd.Stderr = log, log
	canaryStart(t, cmd, log)
	return log
}

// canaryStart starts a program and kills it when the test ends.
func canaryStart(t *testing.T, cmd *exec.Cmd, log *lockedBuffer) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			text := log.String()
			t.Logf("log of %s:\n%s", cmd.Path, text[max(0, len(text)-4000):])
		}
	})
}

// canarySetup sets a program's folder, with the files that the settings name, and an environment with all secrets.
func canarySetup(t *testing.T, cmd *exec.Cmd, address, config string, more ...string) {
	t.Helper()
	cmd.Dir = t.TempDir()
	for name, text := range map[string]string{
		"cert.pem": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
		"key.pem":  "-----BEGIN PRIVATE KEY-----\n" + canaries["private key"] + "\n-----END PRIVATE KEY-----\n",
	} {
		if err := os.WriteFile(filepath.Join(cmd.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd.Env = append(append(programs.CleanEnv(), "TEMPORAL_ADDRESS="+address, "WEFT_CONFIG="+config, "WEFT_MODEL=script", "WEFT_LOG_LEVEL=debug",
		"CANARY_KEY="+canaries["API key"], "ANTHROPIC_API_KEY="+canaries["key of another provider"], "GOOGLE_API_KEY="+canaries["key of another provider"],
		"MISTRAL_API_KEY="+canaries["key of another provider"], "CANARY_HEADER="+canaries["header"], "CANARY_ENV="+canaries["environment of a tool"],
		"CANARY_FLOW="+canaries["secret of a flow"], "AWS_SECRET_ACCESS_KEY="+canaries["store's key"], "AWS_ACCESS_KEY_ID=id",
		"WEFT_CODEC_TOKENS=ui:"+canaries["codec endpoint's token"], "WEFT_CODEC_KEYS=one:"+canaries["codec's key"],
		"AWS_SESSION_TOKEN="+canaries["token for the store"], "CANARY_VARIABLE="+canaries["variable"], "CANARY_HOOK="+canaries["secret of a webhook"]), more...)
}

// canaryWorker starts a worker with all secrets and returns its log and the address of its metrics.
func canaryWorker(t *testing.T, address, config, collector string) (*lockedBuffer, string) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	metrics := free.Addr().String()
	free.Close()
	log := &lockedBuffer{}
	cmd := exec.Command(programs.Path(t, "WEFT_WORKER"))
	canarySetup(t, cmd, address, config, "WEFT_WORKER_METRICS_LISTEN="+metrics, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector, "OTEL_EXPORTER_OTLP_COMPRESSION=none", "OTEL_BSP_SCHEDULE_DELAY=200")
	cmd.Stdout, cmd.Stderr = log, log
	canaryStart(t, cmd, log)
	return log, "http://" + metrics
}

// canaryRun waits until a run has ended, is blocked on an operator or retries an activity. It returns everything that can
// be read of the run: description, history, queries and the output of the starter.
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
		out.Write(raw) // at each poll, as pending activities and their heartbeats change
		retries := slices.ContainsFunc(d.GetPendingActivities(), func(p *workflowpb.PendingActivityInfo) bool { return p.GetAttempt() > 3 })
		var st contract.Status
		if v, err := c.QueryWorkflow(context.Background(), id, "", contract.QueryStatus); err == nil && v.Get(&st) == nil && (retries || st.Status != contract.StatusRunning || len(st.Requests) > 0) {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("%s neither ended nor waits for an operator: %+v", id, st)
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
	starter := filepath.Join(filepath.Dir(programs.Path(t, "WEFT_WORKER")), "starter")
	for _, command := range []string{"status", "transcript", "why", "requests"} {
		cmd := exec.Command(starter, command, id)
		cmd.Dir, cmd.Env = t.TempDir(), append(programs.CleanEnv(), "TEMPORAL_ADDRESS="+address)
		printed, _ := cmd.CombinedOutput() // some commands fail, depending on the run
		if len(printed) == 0 || bytes.Contains(printed, []byte("internal error of starter")) {
			t.Errorf("starter %s %s printed %q", command, id, printed)
		}
		out.Write(printed)
	}
	return out.Bytes()
}
