package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/tool"
	"weft/worker/health"
	"weft/worker/host"
)

// pair is a flow of two agents, one after the other.
const pair = `{
  "name": "Pair",
  "nodes": [
    {"id": "first", "name": "First", "prompt": "Answer."},
    {"id": "second", "name": "Second", "prompt": "Answer.", "is_exit_node": true}
  ],
  "edges": [
    {"id": "in", "source": "START", "target": "first"},
    {"id": "on", "source": "first", "target": "second"},
    {"id": "out", "source": "second", "target": "END"}
  ]
}`

// pairScript fails once, then answers with known numbers of tokens.
const pairScript = `rules:
  - node: first
    fail: {class: rate_limited, retry_after: 1ms, times: 1}
    delay: 300ms
    say: one
    usage: {input: 120, output: 15}
  - node: second
    say: two
    usage: {input: 200, output: 30}
`

// freePort returns a local address on which nothing listens.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// safeBuffer is a buffer that can be read while it is written.
type safeBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *safeBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *safeBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// awaitReport waits until the readiness report of a worker satisfies ok.
func awaitReport(t *testing.T, address string, ok func(*health.Report) bool) *health.Report {
	t.Helper()
	var last *health.Report
	var err error
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if last, err = health.Query(t.Context(), address, health.PathReady); err == nil && ok(last) {
			return last
		}
	}
	t.Fatalf("last report = %+v, %v", last, err)
	return nil
}

// TestEndToEndWatched checks the health, metrics, log and spans of a worker with runs whose
// numbers are known, and its health after Temporal has stopped.
func TestEndToEndWatched(t *testing.T) {
	srv := startServer(t)
	isolate(t, srv.address)
	page := freePort(t)
	t.Setenv("PRICED_KEY", "sk-priced")
	if err := os.WriteFile("weft.yaml", fmt.Appendf(nil, `
providers: {priced: {kind: openai, base_url: %q, key_env: PRICED_KEY, stream: false}}
prices: {"priced/*": {input: 10, output: 20}}
`, pricedModel(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("WEFT_WORKER_HEALTH_LISTEN", page)
	t.Setenv("WEFT_WORKER_METRICS_LISTEN", page)
	t.Setenv("WEFT_WORKER_SLOTS", "resources")
	t.Setenv("WEFT_WORKER_LOG", "json")
	t.Setenv("WEFT_WORKER_LOG_LEVEL", "info")
	spans := newReceiver(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", spans.url)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	log := &safeBuffer{}
	done := make(chan int, 1)
	look := tool.Func("look", "Looks.", func(context.Context, struct{}) (string, error) { return "well", nil })
	go func() { done <- host.Command(ctx, nil, io.Discard, log, look) }()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("worker log:\n%s", log)
		}
	})
	awaitReport(t, page, func(r *health.Report) bool { return r.OK })
	var report bytes.Buffer
	if code := host.Command(ctx, []string{"health"}, &report, io.Discard); code != 0 || !strings.Contains(report.String(), `{"name":"activity tasks","ok":true}`) {
		t.Errorf("worker health: exit code %d, %s", code, report.String())
	}

	id := runPair(t, srv.address)
	checkMetrics(t, page, known, measuredHistory(t, srv.address))
	checkLog(t, log.String(), id)
	runWaiting(t, srv.address, page)
	runPriced(t, srv.address, page)
	runLook(t, srv.address)

	srv.kill()
	awaitReport(t, page, func(r *health.Report) bool { return !r.OK && !r.Checks[1].OK })
	if live, err := health.Query(ctx, page, health.PathLive); err != nil || !live.OK {
		t.Errorf("live report without Temporal = %+v, %v", live, err)
	}
	var stderr bytes.Buffer
	if code := host.Command(ctx, []string{"health"}, io.Discard, &stderr); code != 1 || !strings.Contains(stderr.String(), "worker: not ready: temporal: no response: ") {
		t.Errorf("worker health without Temporal: exit code %d, %s", code, stderr.String())
	}
	cancel()
	select {
	case <-done:
	case <-time.After(3 * time.Minute):
		t.Fatal("the worker did not stop")
	}
	spans.check(t)
	spans.checkTool(t)
	if code := host.Command(context.Background(), []string{"health"}, io.Discard, io.Discard); code != 1 {
		t.Errorf("worker health without a worker: exit code %d", code)
	}
}

// runPair runs the flow of two agents to its end and returns the run's id.
func runPair(t *testing.T, address string) string {
	t.Helper()
	run, ctx := startPair(t, address, "pair-1", "script", pairScript)
	var out contract.RunResult
	if err := run.Get(ctx, &out); err != nil || out.ResultText == nil || *out.ResultText != "two" {
		t.Fatalf("result %+v, %v", out, err)
	}
	return run.GetRunID()
}

// startPair starts the flow of two agents.
func startPair(t *testing.T, address, id, model, rules string) (client.WorkflowRun, context.Context) {
	t.Helper()
	return startFlow(t, address, id, pair, model, rules)
}

// startFlow starts a flow.
func startFlow(t *testing.T, address, id, doc, model, rules string) (client.WorkflowRun, context.Context) {
	t.Helper()
	in := contract.RunInput{V: contract.Version, Flow: contract.FlowRef{Text: doc, Name: "pair.json"}, Model: model, Input: "hello"}
	if rules != "" {
		var err error
		if in.Script, err = llm.ParseScript("pair.script", []byte(rules)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	run, err := dial(t, address).ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: contract.TaskQueue}, contract.WorkflowFlow, in)
	if err != nil {
		t.Fatal(err)
	}
	return run, ctx
}

func dial(t *testing.T, address string) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// measuredHistory returns the size of the run's history that the server reported at its last workflow task.
func measuredHistory(t *testing.T, address string) map[string]string {
	t.Helper()
	it := dial(t, address).GetWorkflowHistory(t.Context(), "pair-1", "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	bytes, events := int64(0), int64(0)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			t.Fatal(err)
		}
		if a := e.GetWorkflowTaskStartedEventAttributes(); a != nil {
			bytes, events = a.GetHistorySizeBytes(), e.GetEventId()
		}
	}
	if bytes == 0 {
		t.Fatal("the history has no size")
	}
	return map[string]string{
		`weft_run_history_bytes_sum{workflow_type="Flow"`:  fmt.Sprint(bytes),
		`weft_run_history_events_sum{workflow_type="Flow"`: fmt.Sprint(events),
	}
}

// runWaiting runs the flow with a model whose key is rejected: the run waits for the operator, which
// the metrics show until the operator gives up.
func runWaiting(t *testing.T, address, page string) {
	t.Helper()
	run, ctx := startPair(t, address, "pair-2", "script", "rules:\n  - {node: first, fail: {class: denied, text: no key}}\n")
	checkMetrics(t, page, map[string]string{
		`weft_requests_waiting{kind="retry",older_than="0"`:     "1",
		`weft_requests_waiting{kind="retry",older_than="86400"`: "0",
		`weft_runs_waiting{older_than="0"`:                      "1",
		`weft_runs_waiting{older_than="3600"`:                   "0",
		`weft_attempt_failures_total{.*class="denied"`:          "1",
		`weft_nodes_total{kind="agent",outcome="completed"`:     "2",
		`weft_run_history_bytes_count{workflow_type="Flow"`:     "1",
	})
	c := dial(t, address)
	value, err := c.QueryWorkflow(ctx, "pair-2", "", contract.QueryStatus)
	var status contract.Status
	if err != nil || value.Get(&status) != nil || len(status.Requests) != 1 {
		t.Fatalf("run's status = %+v, %v", status, err)
	}
	if err := c.SignalWorkflow(ctx, "pair-2", "", contract.RequestRetry, map[string]any{"id": status.Requests[0].ID, "give_up": true}); err != nil {
		t.Fatal(err)
	}
	if err := run.Get(ctx, nil); err == nil || ctx.Err() != nil {
		t.Fatalf("run error = %v", err)
	}
	checkMetrics(t, page, map[string]string{
		`weft_requests_waiting{kind="retry",older_than="0"`:            "0",
		`weft_request_wait_seconds_count{answered="true",kind="retry"`: "1",
		`weft_nodes_total{kind="agent",outcome="completed"`:            "2",
		`weft_nodes_total{kind="agent",outcome="failed"`:               "1",
		`weft_run_history_bytes_count{workflow_type="Flow"`:            "2",
		`weft_retries_total{.*class="rate_limited"`:                    "1",
	})
}

// known holds the metrics whose values the run determines. A key is a regular expression for the
// beginning of a line.
var known = map[string]string{
	`weft_model_latency_seconds_count{.*model="script"`:                           "2",
	`weft_model_latency_seconds_bucket{.*model="script".*le="10"`:                 "2",
	`weft_model_tokens_total{.*kind="input",model="script"`:                       "320",
	`weft_model_tokens_total{.*kind="output",model="script"`:                      "45",
	`weft_attempt_failures_total{.*class="rate_limited"`:                          "1",
	`weft_retries_total{.*class="rate_limited"`:                                   "1",
	`weft_repeated_attempts_total{activity_type="CallModel"`:                      "1",
	`weft_nodes_total{kind="agent",outcome="completed"`:                           "2",
	`weft_node_duration_seconds_count{kind="agent"`:                               "2",
	`weft_run_history_bytes_count{workflow_type="Flow"`:                           "1",
	`weft_requests_waiting{kind="message",older_than="0"`:                         "0",
	`weft_transcript_cache_total{.*of="transcript",result="hit"`:                  "3",
	`weft_transcript_cache_total{.*of="content",result="miss"`:                    "1",
	`weft_run_queries_total{.*query="content"`:                                    "1",
	`temporal_activity_execution_latency_seconds_count{activity_type="CallModel"`: "3",
	`temporal_workflow_completed_total{`:                                          "1",
	`weft_build_info{revision="[^"]*",version="[^"]+"`:                            "1",
}

// pricedModel starts a provider of one model, whose answers use 100 input and 10 output tokens.
func pricedModel(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id": "1", "object": "chat.completion", "model": "m", "choices": [{"index": 0, "finish_reason": "stop",
			"message": {"role": "assistant", "content": "yes"}}], "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}}`)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// runPriced runs the flow with a model that has a price.
func runPriced(t *testing.T, address, page string) {
	t.Helper()
	run, ctx := startPair(t, address, "pair-3", "priced/m", "")
	if err := run.Get(ctx, nil); err != nil {
		t.Fatal(err)
	}
	checkMetrics(t, page, map[string]string{
		`weft_model_tokens_total{.*kind="input",model="priced/m"`: "200",
		`weft_model_cost_total{.*model="priced/m"`:                "0.0024",
	})
}

// runLook runs a flow whose agent calls a tool once.
func runLook(t *testing.T, address string) {
	t.Helper()
	run, ctx := startFlow(t, address, "look", `{"name": "Look", "nodes": [{"id": "only", "name": "Only", "prompt": "Look.", "is_exit_node": true, "tools": [{"name": "look"}]}],
		"edges": [{"id": "in", "source": "START", "target": "only"}, {"id": "out", "source": "only", "target": "END"}]}`, "script", "rules:\n  - {turn: 1, call: [{tool: look}]}\n  - {say: done}\n")
	if err := run.Get(ctx, nil); err != nil {
		t.Fatal(err)
	}
}

// checkMetrics waits until the metrics page has the given values. The SDK counts the end of a run
// shortly after its client sees it, and waiting runs are counted every 30 seconds.
func checkMetrics(t *testing.T, address string, all ...map[string]string) {
	t.Helper()
	known := map[string]string{}
	for _, m := range all {
		maps.Copy(known, m)
	}
	var mismatches []string
	var page []byte
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		resp, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		page, err = io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		mismatches = nil
		for metric, want := range known {
			m := regexp.MustCompile(`(?m)^`+strings.Replace(metric, "{", `\{`, 1)+`.*\} (\S+)$`).FindAllSubmatch(page, -1)
			if len(m) != 1 || string(m[0][1]) != want {
				mismatches = append(mismatches, fmt.Sprintf("%s = %q, want exactly one of %s", metric, m, want))
			}
		}
		if mismatches == nil {
			return
		}
	}
	t.Errorf("%s\npage:\n%s", strings.Join(mismatches, "\n"), page)
}

// checkLog checks that the log contains two answers, and the failed attempt with its run, node and number.
func checkLog(t *testing.T, log, run string) {
	t.Helper()
	answers, failed := 0, false
	for line := range strings.Lines(log) {
		var l struct {
			Msg, WorkflowID, RunID, Node, ActivityType, Model, Class string
			Attempt, InputTokens                                     int
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Errorf("%v in the line %q", err, line)
			continue
		}
		if l.RunID != run || l.WorkflowID != "pair-1" || l.ActivityType != "CallModel" {
			continue
		}
		failed = failed || l.Msg == "attempt failed" && l.Node == "first" && l.Attempt == 1 && l.Class == contract.ClassRateLimited
		if l.Msg == "model answered" && l.Model == "script" && l.Node != "" && l.InputTokens > 0 {
			answers++
		}
	}
	if answers != 2 || !failed {
		t.Errorf("%d answers, failed attempt logged: %v; log:\n%s", answers, failed, log)
	}
}

// TestAddressInUse checks that the error for an address in use names the setting.
func TestAddressInUse(t *testing.T) {
	isolate(t, "127.0.0.1:1")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, name := range []string{"health_listen", "metrics_listen"} {
		if err := os.WriteFile("weft.yaml", fmt.Appendf(nil, "worker: {%s: %q}\n", name, l.Addr().String()), 0o600); err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		code := host.Command(t.Context(), nil, io.Discard, &stderr)
		if want := "worker: worker." + name + ": listen tcp " + l.Addr().String() + ": bind: address already in use; set another"; code != 2 || !strings.HasPrefix(stderr.String(), want) {
			t.Errorf("%s: exit code %d, %q", name, code, stderr.String())
		}
	}
}
