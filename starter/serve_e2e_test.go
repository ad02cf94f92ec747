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

// doors are two doors before one Temporal with a worker.
type doors struct {
	*testing.T
	temporal string
	urls     []string
	checker  *servetest.Checker
}

// openDoors starts everything; it ends with the test. more are files of the folder of agents and
// flows, by name.
func openDoors(t *testing.T, more map[string]string) *doors {
	path := programs.Path(t, "WEFT_DEVSERVER")
	dir := t.TempDir()
	files := map[string]string{
		"worker.yaml": "model: script\nagents: {trusted: [" + filepath.Join(dir, "flows") + "]}\n", "door.yaml": "serve: {edit_agents: true}\n", "flows/wide.json": wideFlow,
		"flows/triage.json":                        stuckFlow,
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
	d := &doors{T: t, temporal: devserver(t, path, "-config", filepath.Join(dir, "worker.yaml"))}
	for range 2 {
		d.urls = append(d.urls, d.open(dir))
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

// open starts a door and gives its address.
func (d *doors) open(dir string) string {
	d.Helper()
	return serving(d.T, mapEnv{"TEMPORAL_ADDRESS": d.temporal, "TEMPORAL_CONFIG_FILE": dir + "/none"},
		"serve", "-listen", "127.0.0.1:0", "-agents", filepath.Join(dir, "flows"), "-config", filepath.Join(dir, "door.yaml"))
}

// call asks a door and gives the answer's body; headers come as "Name: value".
func (d *doors) call(n int, status int, method, path, body string, headers ...string) map[string]any {
	d.Helper()
	raw := d.raw(n, status, method, path, body, headers...)
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		d.Fatalf("%s %s: %v in %s", method, path, err, raw)
	}
	return v
}

func (d *doors) raw(n int, status int, method, path, body string, headers ...string) []byte {
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
		d.Fatalf("%s %s gives %d %s, %v; want %d", method, path, got.StatusCode, raw, err, status)
	}
	return raw
}

const parametricAgent = `{"name": "parametric-agent", "description": "Agent with custom input parameters", "type": "autonomous", "tags": ["internal"],
 "parameters_schema": {"type": "object", "required": ["topic", "format"], "properties": {
   "topic": {"type": "string"}, "format": {"type": "string", "enum": ["summary", "bullet_points", "essay"]},
   "max_words": {"type": "integer", "minimum": 50, "maximum": 2000}}, "additionalProperties": false}}`

// TestEndToEndServe uses two doors as clients do.
func TestEndToEndServe(t *testing.T) {
	d := openDoors(t, nil)
	t.Parallel() // after the start: servers that start at once may take each other's ports
	for name, test := range map[string]func(*doors){
		"the documents' own calls": documentsCalls, "README's calls": readmeCalls, "the dialect's calls": dialectCalls, "examples": examplesOverHTTP, "requests": requestsOverHTTP, "events": eventsOverHTTP, "partial answers": textOverHTTP,
		"repeated starts": repeatedStarts, "failures": failuresOverHTTP, "lists": listsOverHTTP,
		"sessions of others": sessionsOfOthers,
	} {
		t.Run(name, func(t *testing.T) { test(&doors{t, d.temporal, d.urls, d.checker}) })
	}
}

// curls runs the curl commands of a Markdown text through a shell and gives what each prints.
func (d *doors) curls(text string, env ...string) []string {
	d.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		d.Skip("there is no curl in PATH")
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

// documentsCalls runs what the specifications of the blueprint dialect's framework show.
func documentsCalls(d *doors) {
	var texts string
	for _, name := range []string{"agent-input-schema.md", "agent-output-schema.md"} {
		raw, err := os.ReadFile(filepath.Join("../../shared/specs", name))
		if err != nil {
			d.Skipf("the specifications are not here: %v", err)
		}
		texts += string(raw)
	}
	got := d.curls(texts)
	if len(got) != 2 {
		d.Fatalf("the documents have %d calls", len(got))
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
		d.Errorf("the agent was given %q", text)
	}
	// The agent that was created is one: its result is data and no text.
	made := d.call(1, 201, "POST", "/runs", `{"type": "start_session", "agent_name": "data-extractor", "parameters": {"prompt": "John Smith of Acme Corp"},
		"script": "rules: [{json: {entities: [{name: John Smith, type: person}]}}]"}`)
	end := d.result(0, made["run_id"].(string))
	if raw, _ := json.Marshal(end["result_data"]); end["result_text"] != nil || string(raw) != `{"entities":[{"name":"John Smith","type":"person"}]}` {
		d.Errorf("the result is %v", end)
	}
	d.raw(0, 204, "DELETE", "/agents/data-extractor", "")
}

// result waits for a run and gives its result event.
func (d *doors) result(n int, id string) map[string]any {
	d.Helper()
	run := d.call(n, 200, "GET", "/runs/"+id+"?wait=60s", "")
	end, ok := run["result"].(map[string]any)
	if !ok {
		d.Fatalf("the run is %v", run)
	}
	if alone := d.call(n, 200, "GET", "/runs/"+id+"/result", ""); fmt.Sprint(alone) != fmt.Sprint(end) {
		d.Errorf("the result is %v alone and %v in the run", alone, end)
	}
	keys := slices.Sorted(maps.Keys(end))
	if got := strings.Join(keys, " "); got != "event_type result_data result_text session_id timestamp" {
		d.Errorf("the result has the fields %s", got)
	}
	return end
}

// readmeCalls runs what README.md shows.
func readmeCalls(d *doors) {
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
		d.Fatalf("the first call gives %q", first)
	}
	got := d.curls(text, "RUN="+run.RunID)
	if len(got) != 3 {
		d.Fatalf("there are %d blocks of calls", len(got))
	}
	for i, want := range []string{`"status":"pending"`, `"status":"completed"`, `"run_id":"run_`} {
		if !strings.Contains(got[i], want) {
			d.Errorf("block %d prints %s, want %s in it", i, got[i], want)
		}
	}
	for _, want := range []string{`{"event_type":"result","session_id":"ses_`, "event: node_started\n", "event: result\nid: end\n", `{"messages":[`} {
		if !strings.Contains(got[1], want) {
			d.Errorf("%s prints nowhere %s", got[1], want)
		}
	}
}

// dialectCalls runs what the blueprint dialect's README.md shows, each block with the run that the one
// before it started.
func dialectCalls(d *doors) {
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
		d.Fatalf("there are %d blocks of calls", len(blocks))
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
				d.Errorf("block %d prints %s, want %s in it", i, got, want)
			}
		}
		if at := strings.Index(got, `{"run_id":"run_`); i < 2 {
			last := strings.LastIndex(got, `{"run_id":`)
			if at < 0 || json.Unmarshal([]byte(got[last:]), &run) != nil {
				d.Fatalf("block %d starts no run: %s", i, got)
			}
			session = run.SessionID
		}
		if i == 1 {
			// The same prompt under the same key is the same turn, at any door; another one is refused.
			again := d.call(1, 201, "POST", "/runs", resumption(session, "And in winter?"), "Idempotency-Key: mail-4711")
			if again["run_id"] != run.RunID {
				d.Errorf("the key makes two turns: %v and %s", again, run.RunID)
			}
			d.call(0, 422, "POST", "/runs", resumption(session, "And in spring?"), "Idempotency-Key: mail-4711")
		}
	}
	d.call(0, 409, "POST", "/runs", resumption(session, "Still there?"))
}

// sessionsOfOthers are sessions that another door has opened: the starter, or a plain client.
func sessionsOfOthers(d *doors) {
	const lone = `{"name": "lone", "nodes": [{"id": "a", "name": "A", "prompt": "Answer.", "is_exit_node": true}],
		"edges": [{"id": "in", "source": "START", "target": "a"}, {"id": "out", "source": "a", "target": "END"}]}`
	const script = `{"rules": [{"match": "(?i)hello", "say": "Good day."}, {"say": "Go on."}]}`
	c, err := client.Dial(client.Options{HostPort: d.temporal, Logger: silent{}})
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
		// Until a worker has begun it, a plain start does not say that it is a session.
		deadline := time.Now().Add(3 * time.Minute)
		for d.call(0, 200, "GET", "/runs/"+session+"?wait=1s", "")["status"] == contract.StatusRunning && time.Now().Before(deadline) {
			continue
		}
		id := d.call(0, 201, "POST", "/runs", resumption(session, "Hello!"))["run_id"].(string)
		if text := d.result(1, id)["result_text"]; text != "Good day." {
			d.Errorf("%s: the turn gives %v", session, text)
		}
		d.call(1, 202, "POST", "/sessions/"+session+"/stop", "")
	}
}

func resumption(session, prompt string) string {
	return `{"type": "resume_session", "session_id": "` + session + `", "parameters": {"prompt": "` + prompt + `"}}`
}

// examplesOverHTTP runs flows of several dialects by their documents.
func examplesOverHTTP(d *doors) {
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
			d.Errorf("%s gives %s, want what ends\n%s", name, got, want)
		}
	}
}

// repeatedStarts sends one start many times at once.
func repeatedStarts(d *doors) {
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
		d.Errorf("the same start gave %q", slices.Compact(ids))
	}
	d.call(1, 422, "POST", "/runs", `{"flow": {"name": "triage"}, "input": "other"}`, "Idempotency-Key: key-1")
	d.call(0, 201, "POST", "/runs", `{"id": "mine", "flow": {"name": "triage"}}`)
	d.result(1, "mine")
	d.call(1, 201, "POST", "/runs", `{"id": "mine", "flow": {"name": "triage"}}`)
	d.call(1, 409, "POST", "/runs", `{"id": "mine", "flow": {"name": "triage"}, "input": "other"}`)
}

// failuresOverHTTP looks at runs that end without a result, and at what is no run.
func failuresOverHTTP(d *doors) {
	made := d.call(0, 201, "POST", "/runs", `{"flow": {"name": "extract-order"}, "input": "x", "script": "rules: [{say: I cannot say.}]"}`)
	id := made["run_id"].(string)
	failed := d.call(1, 200, "GET", "/runs/"+id+"?wait=60s", "")
	want := `{"error":"OutputSchemaValidationError","errors":[{"message":"No JSON output found but output_schema requires structured output","path":"$"}],"message":"Output validation failed after 1 retry"}`
	if raw, _ := json.Marshal(failed["error"]); string(raw) != want || failed["status"] != "failed" {
		d.Errorf("the run is %v", failed)
	}
	d.call(0, 409, "GET", "/runs/"+id+"/result", "")
	events := <-d.follow(0, id, "", nil)
	if last := events[len(events)-1]; last.kind != "run_failed" || !strings.Contains(last.data, "OutputSchemaValidationError") {
		d.Errorf("the last event is %v", last)
	}
	d.call(0, 201, "POST", "/runs", `{"id": "parks", "flow": {"name": "triage"}, "script": "rules: [{fail: {class: denied, text: no such key}}]"}`)
	for len(d.call(1, 200, "GET", "/runs/parks/requests", "")["requests"].([]any)) == 0 {
		time.Sleep(50 * time.Millisecond)
	}
	d.call(0, 202, "POST", "/runs/parks/cancel", "")
	if run := d.call(1, 200, "GET", "/runs/parks?wait=60s", ""); run["status"] != "cancelled" || run["result"] != nil || run["error"] == nil {
		d.Errorf("the cancelled run is %v", run)
	}
	c, err := client.Dial(client.Options{HostPort: d.temporal, Logger: silent{}})
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
			d.Errorf("%s %s of a session without a worker gives %v", q[0], q[1], p)
		}
	}
	if p := d.call(0, 503, "GET", "/runs/deaf/state", ""); p["type"] != "urn:weft:problem:no-worker" {
		d.Errorf("a run without a worker gives %v", p)
	}
}

// listsOverHTTP pages through runs.
func listsOverHTTP(d *doors) {
	want := map[string]bool{}
	for i := range 5 {
		id := fmt.Sprintf("listed-%d", i)
		want[id] = true
		d.call(i%2, 201, "POST", "/runs", fmt.Sprintf(`{"id": %q, "flow": {"text": %q, "name": "x.json"}}`, id, strings.Replace(stuckFlow, "Echo", "Listed", 1)))
		d.result(0, id)
	}
	var got []string
	for end := time.Now().Add(3 * time.Minute); len(got) < len(want) && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		got = nil // lists are a little behind
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
		d.Errorf("the lists have %q", got)
	}
	d.call(0, 400, "GET", "/runs?page_token=zzzzzzzzzzzzzzzz", "")
}
