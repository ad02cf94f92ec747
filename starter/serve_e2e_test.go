package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/starter/serve/servetest"
	"weft/tests/programs"
)

// servers are two HTTP servers that use the same Temporal server, which has a worker.
type servers struct {
	*testing.T
	temporal string
	urls     []string
	checker  *servetest.Checker
}

// startServers starts everything until the end of the test. more are additional files in the folder of
// flows and agents, by name.
func startServers(t *testing.T, more map[string]string) *servers {
	path := programs.Path(t, "WEFT_DEVSERVER")
	dir := t.TempDir()
	files := map[string]string{
		"worker.yaml": "model: script\nagents: {trusted: [" + filepath.Join(dir, "flows") + "]}\n", "server.yaml": "serve: {edit_agents: true}\n", "flows/wide.json": wideFlow,
		"flows/triage.json":                        singleNodeFlow,
		"flows/agents/parametric-agent/agent.json": parametricAgent, "flows/agents/parametric-agent/agent.system-prompt.md": "You write.",
	}
	for name, text := range more {
		files["flows/"+name] = text
	}
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(dir, "flows"), os.DirFS("../tests/examples/blueprint")); err != nil {
		t.Fatal(err)
	}
	d := &servers{T: t, temporal: devserver(t, path, "-config", filepath.Join(dir, "worker.yaml"))}
	for range 2 {
		d.urls = append(d.urls, d.startServer(dir))
	}
	got, err := http.Get(d.urls[0] + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	raw, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	if d.checker, err = servetest.New(raw); err != nil {
		t.Fatal(err)
	}
	return d
}

// startServer starts an HTTP server and returns its URL.
func (d *servers) startServer(dir string) string {
	d.Helper()
	return startServe(d.T, mapEnv{"TEMPORAL_ADDRESS": d.temporal, "TEMPORAL_CONFIG_FILE": dir + "/none"},
		"serve", "-listen", "127.0.0.1:0", "-agents", filepath.Join(dir, "flows"), "-config", filepath.Join(dir, "server.yaml"))
}

// call sends a request to the n-th server, checks the status, and returns the JSON body; headers have the form "Name: value".
func (d *servers) call(n int, status int, method, path, body string, headers ...string) map[string]any {
	d.Helper()
	raw := d.raw(n, status, method, path, body, headers...)
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		d.Fatalf("%s %s: %v in %s", method, path, err, raw)
	}
	return v
}

// raw is like call, but returns the raw body.
func (d *servers) raw(n int, status int, method, path, body string, headers ...string) []byte {
	d.Helper()
	r, err := http.NewRequest(method, d.urls[n]+path, strings.NewReader(body))
	if err != nil {
		d.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		d.Fatal(err)
	}
	defer got.Body.Close()
	if err := d.checker.Check(r, got); err != nil {
		d.Error(err)
	}
	raw, err := io.ReadAll(got.Body)
	if err != nil || got.StatusCode != status {
		d.Fatalf("%s %s = %d %s, %v; want %d", method, path, got.StatusCode, raw, err, status)
	}
	return raw
}

const parametricAgent = `{"name": "parametric-agent", "description": "Agent with custom input parameters", "type": "autonomous", "tags": ["internal"],
 "parameters_schema": {"type": "object", "required": ["topic", "format"], "properties": {
   "topic": {"type": "string"}, "format": {"type": "string", "enum": ["summary", "bullet_points", "essay"]},
   "max_words": {"type": "integer", "minimum": 50, "maximum": 2000}}, "additionalProperties": false}}`

// TestEndToEndServe uses two HTTP servers as clients do.
func TestEndToEndServe(t *testing.T) {
	d := startServers(t, nil)
	t.Parallel() // after the start: servers that start concurrently may take each other's ports
	for name, test := range map[string]func(*servers){
		"calls in the specifications": specificationCalls, "calls in README.md": readmeCalls, "calls in the dialect's README.md": dialectCalls, "examples": examplesOverHTTP, "requests": requestsOverHTTP, "events": eventsOverHTTP, "partial answers": textOverHTTP,
		"repeated starts": repeatedStarts, "failures": failuresOverHTTP, "lists": listsOverHTTP,
		"sessions of other clients": otherSessions,
	} {
		t.Run(name, func(t *testing.T) { test(&servers{t, d.temporal, d.urls, d.checker}) })
	}
}

// curls runs the blocks of a Markdown text that start with curl in a shell, and returns the output of each.
func (d *servers) curls(text string, env ...string) []string {
	d.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		d.Skip("curl is not installed")
	}
	var out []string
	for _, block := range regexp.MustCompile("(?ms)^```(?:bash|sh)\n(.*?)^```").FindAllStringSubmatch(text, -1) {
		if !strings.HasPrefix(block[1], "curl") {
			continue
		}
		script := strings.ReplaceAll(block[1], "http://localhost:8765", d.urls[len(out)%2])
		cmd := exec.Command("sh", "-ec", script)
		cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "no_proxy=*"}, env...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		got, err := cmd.Output()
		if err != nil {
			d.Fatalf("%s\n%v: %s", script, err, &stderr)
		}
		out = append(out, string(got))
	}
	return out
}

// specificationCalls runs the calls in the specifications of the blueprint dialect's framework.
func specificationCalls(d *servers) {
	var texts string
	for _, name := range []string{"agent-input-schema.md", "agent-output-schema.md"} {
		raw, err := os.ReadFile(filepath.Join("../../shared/specs", name))
		if err != nil {
			d.Skipf("the specifications are not available: %v", err)
		}
		texts += string(raw)
	}
	got := d.curls(texts)
	if len(got) != 2 {
		d.Fatalf("%d calls in the specifications, want 2", len(got))
	}
	if err := d.checker.Schema("Started", []byte(got[0])); err != nil {
		d.Fatal(err)
	}
	if err := d.checker.Schema("Agent", []byte(got[1])); err != nil {
		d.Fatal(err)
	}
	var run struct {
		RunID string `json:"run_id"`
	}
	if err := json.Unmarshal([]byte(got[0]), &run); err != nil {
		d.Fatal(err)
	}
	text := d.result(1, run.RunID)["result_text"].(string)
	if !strings.Contains(text, "<inputs>\ntopic: Machine Learning in Healthcare\nformat: bullet_points\nmax_words: 300\n</inputs>\n\nCreate content about this topic.") {
		d.Errorf("prompt of the agent = %q", text)
	}
	// The created agent can be run, and its result is data.
	started := d.call(1, 201, "POST", "/runs", `{"type": "start_session", "agent_name": "data-extractor", "parameters": {"prompt": "John Smith of Acme Corp"},
		"script": "rules: [{json: {entities: [{name: John Smith, type: person}]}}]"}`)
	end := d.result(0, started["run_id"].(string))
	if raw, _ := json.Marshal(end["result_data"]); end["result_text"] != nil || string(raw) != `{"entities":[{"name":"John Smith","type":"person"}]}` {
		d.Errorf("result = %v", end)
	}
	d.raw(0, 204, "DELETE", "/agents/data-extractor", "")
}

// result waits for the end of a run and returns its result event.
func (d *servers) result(n int, id string) map[string]any {
	d.Helper()
	run := d.call(n, 200, "GET", "/runs/"+id+"?wait=60s", "")
	end, ok := run["result"].(map[string]any)
	if !ok {
		d.Fatalf("run = %v, want a result", run)
	}
	if single := d.call(n, 200, "GET", "/runs/"+id+"/result", ""); fmt.Sprint(single) != fmt.Sprint(end) {
		d.Errorf("result = %v, but %v in the run", single, end)
	}
	keys := slices.Sorted(maps.Keys(end))
	if got := strings.Join(keys, " "); got != "event_type result_data result_text session_id timestamp" {
		d.Errorf("fields of the result = %s", got)
	}
	return end
}

// readmeCalls runs the calls in README.md.
func readmeCalls(d *servers) {
	raw, err := os.ReadFile("README.md")
	if err != nil {
		d.Fatal(err)
	}
	_, text, _ := strings.Cut(string(raw), "## Over HTTP")
	text, _, _ = strings.Cut(text, "\n## ")
	first := d.curls(strings.Replace(text, "-X POST", "-sX POST", 1)[:strings.Index(text, "returns 201")])
	var run struct {
		RunID string `json:"run_id"`
	}
	if len(first) != 1 || json.Unmarshal([]byte(first[0]), &run) != nil {
		d.Fatalf("output of the first call = %q", first)
	}
	got := d.curls(text, "RUN="+run.RunID)
	if len(got) != 3 {
		d.Fatalf("%d blocks of calls, want 3", len(got))
	}
	for i, want := range []string{`"status":"pending"`, `"status":"completed"`, `"run_id":"run_`} {
		if !strings.Contains(got[i], want) {
			d.Errorf("output of block %d = %s, want %s in it", i, got[i], want)
		}
	}
	for _, want := range []string{`{"event_type":"result","session_id":"ses_`, "event: node_started\n", "event: result\nid: end\n", `{"messages":[`} {
		if !strings.Contains(got[1], want) {
			d.Errorf("output = %s, want %s in it", got[1], want)
		}
	}
}

// dialectCalls runs the calls in the blueprint dialect's README.md, each block with the run that the
// previous one started.
func dialectCalls(d *servers) {
	raw, err := os.ReadFile("../specadapter/blueprint/README.md")
	if err != nil {
		d.Fatal(err)
	}
	_, text, _ := strings.Cut(string(raw), "## Over HTTP")
	text, _, _ = strings.Cut(text, "\n## ")
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```\n").FindAllString(text, -1)
	wants := [][]string{
		{`"status":"pending"`},
		{`"status":"completed"`, "guide answered turn 1; the last message was: A day in Bergen?", `"run_id":"run_`},
		{`"status":"completed"`, `"status":"idle"`, `"turns":2`, `"agent_name":"guide"`, "guide answered turn 2; the last message was: And in winter?", `"status":"stopping"`},
		{`"name":"namer"`, `"output_schema":{"type":"object","required":["name"]}`, `"description":"Names them well"`, `"agents":[`, `"name":"guide"`},
	}
	if len(blocks) != len(wants) {
		d.Fatalf("%d blocks of calls, want %d", len(blocks), len(wants))
	}
	var run struct {
		RunID     string `json:"run_id"`
		SessionID string `json:"session_id"`
	}
	session := ""
	for i, block := range blocks {
		got := d.curls(block, "RUN="+run.RunID, "SESSION="+session)[0]
		for _, want := range wants[i] {
			if !strings.Contains(got, want) {
				d.Errorf("output of block %d = %s, want %s in it", i, got, want)
			}
		}
		if at := strings.Index(got, `{"run_id":"run_`); i < 2 {
			last := strings.LastIndex(got, `{"run_id":`)
			if at < 0 || json.Unmarshal([]byte(got[last:]), &run) != nil {
				d.Fatalf("block %d did not start a run: %s", i, got)
			}
			session = run.SessionID
		}
		if i == 1 {
			// The same prompt with the same key returns the same turn from any server; a different prompt is rejected.
			again := d.call(1, 201, "POST", "/runs", resumeBody(session, "And in winter?"), "Idempotency-Key: mail-4711")
			if again["run_id"] != run.RunID {
				d.Errorf("one key started two turns: %v and %s", again, run.RunID)
			}
			d.call(0, 422, "POST", "/runs", resumeBody(session, "And in spring?"), "Idempotency-Key: mail-4711")
		}
	}
	d.call(0, 409, "POST", "/runs", resumeBody(session, "Still there?"))
}

// otherSessions resumes sessions that were started by the starter or by a plain Temporal client.
func otherSessions(d *servers) {
	const lone = `{"name": "lone", "nodes": [{"id": "a", "name": "A", "prompt": "Answer.", "is_exit_node": true}],
		"edges": [{"id": "in", "source": "START", "target": "a"}, {"id": "out", "source": "a", "target": "END"}]}`
	const script = `{"rules": [{"match": "(?i)hello", "say": "Good day."}, {"say": "Go on."}]}`
	c, err := client.Dial(client.Options{HostPort: d.temporal, Logger: discardLogger{}})
	if err != nil {
		d.Fatal(err)
	}
	defer c.Close()
	raw := json.RawMessage(`{"v": 1, "flow": {"name": "lone.json", "text": ` + strconv.Quote(lone) + `}, "input": "One.", "session": true, "model": "script", "script": ` + script + `}`)
	if _, err := c.ExecuteWorkflow(d.Context(), client.StartWorkflowOptions{ID: "plain-session", TaskQueue: contract.TaskQueue}, contract.WorkflowFlow, raw); err != nil {
		d.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	a := &app{stdin: strings.NewReader(lone), stdout: &stdout, stderr: &stderr, env: mapEnv{"TEMPORAL_ADDRESS": d.temporal, "TEMPORAL_CONFIG_FILE": d.TempDir() + "/none"}}
	file := filepath.Join(d.TempDir(), "lone.yaml")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		d.Fatal(err)
	}
	if code := a.run(d.Context(), []string{"-flow", "-", "-session", "-detach", "-id", "starter-session", "-input", "One.", "-model", "script", "-script", file}); code != exitOK {
		d.Fatalf("exit code %d: %s", code, &stderr)
	}
	for _, session := range []string{"plain-session", "starter-session"} {
		// A run of a plain client is known to be a session only once a worker has started it.
		deadline := time.Now().Add(3 * time.Minute)
		for d.call(0, 200, "GET", "/runs/"+session+"?wait=1s", "")["status"] == contract.StatusRunning && time.Now().Before(deadline) {
			continue
		}
		id := d.call(0, 201, "POST", "/runs", resumeBody(session, "Hello!"))["run_id"].(string)
		if text := d.result(1, id)["result_text"]; text != "Good day." {
			d.Errorf("%s: result of the turn = %v", session, text)
		}
		d.call(1, 202, "POST", "/sessions/"+session+"/stop", "")
	}
}

func resumeBody(session, prompt string) string {
	return `{"type": "resume_session", "session_id": "` + session + `", "parameters": {"prompt": "` + prompt + `"}}`
}

// examplesOverHTTP runs documents of several dialects.
func examplesOverHTTP(d *servers) {
	for _, name := range []string{"continuum/triage", "continuum/refine", "continuum/extract", "koog/boolean-routing", "koog/parallel", "koog/retry-loop", "blueprint/extract-order"} {
		read := func(ext string) string {
			raw, err := os.ReadFile("../tests/examples/" + name + ext)
			if err != nil {
				d.Fatal(err)
			}
			return string(raw)
		}
		body, err := json.Marshal(map[string]any{"input": strings.TrimSpace(read(".input.txt")), "script": read(".script"),
			"flow": map[string]string{"name": filepath.Base(name) + ".json", "text": read(".json")}})
		if err != nil {
			d.Fatal(err)
		}
		id := d.call(0, 201, "POST", "/runs", string(body))["run_id"].(string)
		d.result(1, id)
		var end struct {
			Text *string         `json:"result_text"`
			Data json.RawMessage `json:"result_data"`
		}
		if err := json.Unmarshal(d.raw(0, 200, "GET", "/runs/"+id+"/result", ""), &end); err != nil {
			d.Fatal(err)
		}
		got := string(end.Data)
		if end.Text != nil {
			got = *end.Text
		}
		if want := read(".want"); !strings.HasSuffix(want, "result: "+got+"\n") {
			d.Errorf("%s: result = %s, want the end of\n%s", name, got, want)
		}
	}
}

// repeatedStarts sends the same start many times concurrently.
func repeatedStarts(d *servers) {
	const body = `{"flow": {"name": "triage"}, "input": "go"}`
	ids := make([]string, 12)
	var group sync.WaitGroup
	for i := range ids {
		group.Go(func() {
			r, err := http.NewRequest("POST", d.urls[i%2]+"/runs", strings.NewReader(body))
			if err != nil {
				d.Error(err)
				return
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Idempotency-Key", "key-1")
			got, err := http.DefaultClient.Do(r)
			if err != nil {
				d.Error(err)
				return
			}
			defer got.Body.Close()
			raw, _ := io.ReadAll(got.Body)
			ids[i] = fmt.Sprint(got.StatusCode, " ", string(raw))
		})
	}
	group.Wait()
	if slices.Sort(ids); ids[0] != ids[len(ids)-1] || !strings.HasPrefix(ids[0], "201 ") {
		d.Errorf("responses to the same start = %q", slices.Compact(ids))
	}
	d.call(1, 422, "POST", "/runs", `{"flow": {"name": "triage"}, "input": "other"}`, "Idempotency-Key: key-1")
	d.call(0, 201, "POST", "/runs", `{"id": "mine", "flow": {"name": "triage"}}`)
	d.result(1, "mine")
	d.call(1, 201, "POST", "/runs", `{"id": "mine", "flow": {"name": "triage"}}`)
	d.call(1, 409, "POST", "/runs", `{"id": "mine", "flow": {"name": "triage"}, "input": "other"}`)
}

// failuresOverHTTP checks runs that end without a result, workflows of other types, and runs without a worker.
func failuresOverHTTP(d *servers) {
	started := d.call(0, 201, "POST", "/runs", `{"flow": {"name": "extract-order"}, "input": "x", "script": "rules: [{say: I cannot say.}]"}`)
	id := started["run_id"].(string)
	failed := d.call(1, 200, "GET", "/runs/"+id+"?wait=60s", "")
	want := `{"error":"OutputSchemaValidationError","errors":[{"message":"No JSON output found but output_schema requires structured output","path":"$"}],"message":"Output validation failed after 1 retry"}`
	if raw, _ := json.Marshal(failed["error"]); string(raw) != want || failed["status"] != "failed" {
		d.Errorf("failed run = %v", failed)
	}
	d.call(0, 409, "GET", "/runs/"+id+"/result", "")
	events := <-d.follow(0, id, "", nil)
	if last := events[len(events)-1]; last.kind != "run_failed" || !strings.Contains(last.data, "OutputSchemaValidationError") {
		d.Errorf("last event = %v", last)
	}
	d.call(0, 201, "POST", "/runs", `{"id": "parks", "flow": {"name": "triage"}, "script": "rules: [{fail: {class: denied, text: no such key}}]"}`)
	for len(d.call(1, 200, "GET", "/runs/parks/requests", "")["requests"].([]any)) == 0 {
		time.Sleep(50 * time.Millisecond)
	}
	d.call(0, 202, "POST", "/runs/parks/cancel", "")
	if run := d.call(1, 200, "GET", "/runs/parks?wait=60s", ""); run["status"] != "cancelled" || run["result"] != nil || run["error"] == nil {
		d.Errorf("cancelled run = %v", run)
	}
	c, err := client.Dial(client.Options{HostPort: d.temporal, Logger: discardLogger{}})
	if err != nil {
		d.Fatal(err)
	}
	defer c.Close()
	if _, err := c.ExecuteWorkflow(d.Context(), client.StartWorkflowOptions{ID: "foreign", TaskQueue: "nobody"}, "Payroll"); err != nil {
		d.Fatal(err)
	}
	for _, path := range []string{"/runs/foreign", "/runs/foreign/events", "/runs/foreign/state"} {
		d.call(0, 404, "GET", path, "")
	}
	d.call(0, 404, "POST", "/runs/foreign/cancel", "")
	d.call(0, 409, "POST", "/runs", `{"id": "foreign", "flow": {"name": "triage"}}`)
	if _, err := c.ExecuteWorkflow(d.Context(), client.StartWorkflowOptions{ID: "deaf", TaskQueue: "nobody"}, contract.WorkflowFlow, contract.RunInput{V: contract.Version}); err != nil {
		d.Fatal(err)
	}
	if _, err := c.ExecuteWorkflow(d.Context(), client.StartWorkflowOptions{ID: "deaf-session", TaskQueue: "nobody", Memo: map[string]any{contract.MemoSession: true}}, contract.WorkflowFlow, contract.RunInput{V: contract.Version, Session: true}); err != nil {
		d.Fatal(err)
	}
	for _, q := range [][]string{{"GET", "/sessions/deaf-session/status", ""}, {"GET", "/sessions/deaf-session/result", ""}, {"POST", "/sessions/deaf-session/stop", ""},
		{"POST", "/runs", `{"type": "resume_session", "session_id": "deaf-session", "parameters": {"prompt": "Hello?"}}`}} {
		if p := d.call(0, 503, q[0], q[1], q[2]); p["type"] != "urn:weft:problem:no-worker" || p["remedy"] == nil {
			d.Errorf("%s %s for a session without a worker = %v", q[0], q[1], p)
		}
	}
	if p := d.call(0, 503, "GET", "/runs/deaf/state", ""); p["type"] != "urn:weft:problem:no-worker" {
		d.Errorf("state of a run without a worker = %v", p)
	}
}

// listsOverHTTP pages through a list of runs.
func listsOverHTTP(d *servers) {
	want := map[string]bool{}
	for i := range 5 {
		id := fmt.Sprintf("listed-%d", i)
		want[id] = true
		d.call(i%2, 201, "POST", "/runs", fmt.Sprintf(`{"id": %q, "flow": {"text": %q, "name": "x.json"}}`, id, strings.Replace(singleNodeFlow, "Echo", "Listed", 1)))
		d.result(0, id)
	}
	var got []string
	for end := time.Now().Add(3 * time.Minute); len(got) < len(want) && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		got = nil // lists are eventually consistent
		token := ""
		for range 20 {
			page := d.call(len(got)%2, 200, "GET", "/runs?limit=2&flow=Listed&status=completed"+token, "")
			for _, r := range page["runs"].([]any) {
				got = append(got, r.(map[string]any)["run_id"].(string))
			}
			next, ok := page["next_page_token"].(string)
			if !ok {
				break
			}
			token = "&page_token=" + next
		}
	}
	slices.Sort(got)
	if len(slices.Compact(got)) != len(want) || !want[got[0]] {
		d.Errorf("listed runs = %q", got)
	}
	d.call(0, 400, "GET", "/runs?page_token=zzzzzzzzzzzzzzzz", "")
}
