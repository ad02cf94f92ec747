package services

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/tests/programs"
	"weft/workflows/plan"
)

// npmServer is an MCP server from npm, with calls that show whether it lost its state and how often a call took effect.
type npmServer struct {
	// script and args are the arguments of node; over HTTP, port adds the port to listen on.
	script    string
	args      []string
	transport string
	env       map[string]string
	port      func(port string) (args, env []string)
	path      string
	// open creates the session's state, change has a side effect, read has none. task, if any, becomes a task.
	open, change, read, task npmCall
	// afterLoss is contained in the last call's result if the session was lost before, kept if it was not.
	afterLoss, kept string
	// effects counts the side effects of change; if nil, the relay counts calls.
	effects func() int
}

// npmCall is a tool call in a model's script.
type npmCall struct{ tool, arguments string }

const (
	sessionLost    = "The session with this tool's server was lost"
	outcomeUnknown = "outcome unknown"
)

// npmServers returns new servers, each with its own files.
func npmServers(t *testing.T) map[string]npmServer {
	dir := t.TempDir()
	all := npmServer{script: "@modelcontextprotocol/server-everything/dist/index.js", args: []string{"stdio"}, open: npmCall{"echo", `{message: hello}`}, change: npmCall{"toggle-simulated-logging", `{}`},
		read: npmCall{"get-sum", `{a: 2, b: 3}`}, task: npmCall{"simulate-research-query", `{topic: tea}`}, afterLoss: "Started", kept: "Stopped"}
	overHTTP := func(s npmServer, transport, path string, port func(string) (args, env []string)) npmServer {
		s.transport, s.path, s.port = transport, path, port
		return s
	}
	file := filepath.Join(dir, "notes")
	if err := os.WriteFile(file, []byte("notes:"), 0o600); err != nil {
		t.Fatal(err)
	}
	thought := npmCall{"sequentialthinking", `{thought: hm, thoughtNumber: 1, totalThoughts: 9, nextThoughtNeeded: true}`}
	out := map[string]npmServer{
		"everything over stdio": all,
		"everything over sse":   overHTTP(all, "sse", "/sse", func(p string) ([]string, []string) { return []string{"sse"}, []string{"PORT=" + p} }),
		"everything over http":  overHTTP(all, "http", "/mcp", func(p string) ([]string, []string) { return []string{"streamableHttp"}, []string{"PORT=" + p} }),
		"filesystem": {script: "@modelcontextprotocol/server-filesystem/dist/index.js", args: []string{dir},
			open: npmCall{"list_directory", fmt.Sprintf(`{path: %q}`, dir)}, change: npmCall{"edit_file", fmt.Sprintf(`{path: %q, edits: [{oldText: "notes:", newText: "notes: one"}]}`, file)},
			read: npmCall{"write_file", fmt.Sprintf(`{path: %q, content: more}`, file+"2")}, afterLoss: "+notes: one",
			effects: func() int { return strings.Count(harness.ReadFile(t, file), "one") }},
		"memory": {script: "@modelcontextprotocol/server-memory/dist/index.js", env: map[string]string{"MEMORY_FILE_PATH": filepath.Join(dir, "memory.json")},
			open: npmCall{"create_entities", `{entities: [{name: tea, entityType: drink, observations: []}]}`}, change: npmCall{"add_observations", `{observations: [{entityName: tea, contents: [hot]}]}`},
			read: npmCall{"read_graph", `{}`}, afterLoss: "tea"},
		"sequential thinking": {script: "@modelcontextprotocol/server-sequential-thinking/dist/index.js", open: thought, change: thought, read: thought, afterLoss: `"thoughtHistoryLength": 3`},
	}
	return out
}

// browserServers returns Playwright servers, each with its own shop: open loads its page, which change requires.
func browserServers(t *testing.T) map[string]npmServer {
	browser := programs.Browser(t)
	server := func() npmServer {
		var bought atomic.Int64
		page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				bought.Add(1)
			}
			fmt.Fprint(w, "<title>Shop</title><h1>Shop</h1>")
		}))
		t.Cleanup(page.Close)
		return npmServer{script: "@playwright/mcp/cli.js", args: []string{"--headless", "--isolated", "--no-sandbox", "--output-dir", t.TempDir(), "--executable-path", browser},
			open: npmCall{"browser_navigate", fmt.Sprintf(`{url: %q}`, page.URL)}, change: npmCall{"browser_evaluate", `{function: "() => fetch('/', {method: 'POST'}).then(() => location.href)"}`},
			read: npmCall{"browser_snapshot", `{}`}, afterLoss: page.URL, kept: page.URL, effects: func() int { return int(bought.Load()) }}
	}
	web := server()
	args := web.args
	web.transport, web.path, web.port = "http", "/mcp", func(p string) ([]string, []string) { return append(slices.Clone(args), "--port", p), nil }
	return map[string]npmServer{"playwright over stdio": server(), "playwright over http": web}
}

// npmFault is a fault of a server and its worker.
type npmFault struct {
	// hold is the call, from 1, during which it occurs; 0 means after the first. If repeatable, the only call may be
	// repeated; if task, it becomes a task.
	hold                     int
	repeatable, task         bool
	killsServer, killsWorker bool
}

var npmFaults = map[string]npmFault{
	"server killed during a call":            {hold: 2, killsServer: true},
	"worker killed between calls":            {killsWorker: true},
	"both killed during a call":              {hold: 2, killsServer: true, killsWorker: true},
	"server killed during a repeatable call": {hold: 1, repeatable: true, killsServer: true},
	"server killed during a task":            {task: true, killsServer: true},
	"worker killed during a task":            {task: true, killsWorker: true},
}

// TestEndToEndMCPServers kills published MCP servers and the worker. It checks that the run ends, that the model is informed of unknown
// outcomes and lost sessions, and that no side effect is repeated silently. Without CHAOS, browsers are tested with two of the faults.
func TestEndToEndMCPServers(t *testing.T) {
	t.Parallel()
	for name, f := range npmFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for name, s := range npmServers(t) {
				if f.task && s.task.tool == "" {
					continue
				}
				t.Run(name, func(t *testing.T) { t.Parallel(); s.test(t, f) })
			}
			if f.task || os.Getenv("CHAOS") == "" && (f.repeatable || f.killsServer && f.killsWorker) {
				return
			}
			t.Run("browser", func(t *testing.T) {
				t.Parallel()
				for name, s := range browserServers(t) {
					t.Run(name, func(t *testing.T) { t.Parallel(); s.test(t, f) })
				}
			})
		})
	}
}

func (s npmServer) test(t *testing.T, f npmFault) {
	h := &npmRun{npmServer: s, relay: newRelay(t, f.hold)}
	k := &countingWorkers{Worker: &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}}
	raw, err := json.Marshal(map[string]any{"connections": map[string]any{"server": h.start(t)}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "weft.yaml")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	startWorker := func() *exec.Cmd {
		return harness.StartWorker(t, harness.ServerAddress(t), "WEFT_TASK_QUEUE="+k.Queue, "WEFT_CONFIG="+file, "WEFT_TIMEOUTS_HEARTBEAT=30s")
	}
	worker, calls := startWorker(), []npmCall{s.open, s.change, s.open, s.open, s.change}
	switch {
	case f.repeatable:
		calls = []npmCall{s.read}
	case f.task:
		calls = []npmCall{s.task}
	}
	delays := make([]int, len(calls))
	if f.hold == 0 && !f.task {
		delays[1] = 8 // time to kill the worker
	}
	flow, script := harness.OneAgent(), "rules:\n"
	flow.Policy.HeartbeatSeconds = 15 // the machine may be busy with browsers
	flow.Connections = []plan.Connection{{ID: "server"}}
	for i, c := range calls {
		script += fmt.Sprintf("- {turn: %d, delay: %ds, call: [{tool: %s, arguments: %s}]}\n", i+1, delays[i], c.tool, c.arguments)
	}
	for _, name := range slices.Compact([]string{s.open.tool, s.change.tool, s.read.tool, cmp.Or(s.task.tool, s.read.tool)}) {
		flow.Nodes[0].Agent.Tools = append(flow.Nodes[0].Agent.Tools, plan.Tool{Name: name, As: name, Connection: "server"})
	}
	run := k.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: flow}, Script: harness.Script(t, script+"- {say: done}")})
	harness.WaitFor(t, "the call", func() bool { return h.count("answered ") >= max(f.hold, 1) })
	if f.hold == 0 {
		harness.WaitFor(t, "the call's result in history", func() bool { return callsRecorded(t, k.Client, run) > 0 })
	}
	if f.killsWorker {
		programs.Kill(worker)
	}
	if f.killsServer {
		h.killServer(t)
	}
	if f.killsWorker {
		startWorker()
	}
	if out, err := harness.Result(t, run); err != nil || *out.ResultText != "done" {
		t.Fatalf("result = %+v, %v", out, err)
	}
	h.check(t, f, k.results(t, run.GetID(), "b1#1"))
}

// callsRecorded counts the tool calls with results in a run's history.
func callsRecorded(t *testing.T, c client.Client, run client.WorkflowRun) (n int) {
	tools := map[int64]bool{}
	for _, e := range harness.Events(t, c, run.GetID(), run.GetRunID()) {
		if a := e.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == contract.ActivityCallTool {
			tools[e.GetEventId()] = true
		}
		if a := e.GetActivityTaskCompletedEventAttributes(); a != nil && tools[a.GetScheduledEventId()] {
			n++
		}
	}
	return n
}

// npmRun is a running server behind a relay.
type npmRun struct {
	npmServer
	relay  *mcpRelay
	listen func() *exec.Cmd
	server *exec.Cmd
}

// start starts the server, unless the worker starts it over stdio, and returns its connection.
func (h *npmRun) start(t *testing.T) map[string]any {
	node, script := npmFile(t, "node/bin/node"), npmFile(t, h.script)
	if h.port == nil {
		command, args, env := h.relay.command(t, append([]string{node, script}, h.args...)...)
		for name, value := range h.env {
			env[name] = value
		}
		return map[string]any{"transport": "stdio", "command": command, "args": args, "env": env}
	}
	// Below the ephemeral port range: the port must still be free when the server is restarted.
	port := ""
	harness.WaitFor(t, "a free port", func() bool {
		port = strconv.Itoa(10_000 + rand.IntN(10_000))
		l, err := net.Listen("tcp", net.JoinHostPort("localhost", port))
		if err == nil {
			l.Close()
		}
		return err == nil
	})
	address := net.JoinHostPort("localhost", port)
	args, env := h.port(port)
	h.listen = func() *exec.Cmd {
		cmd := exec.Command(node, append([]string{script}, args...)...)
		cmd.Env, cmd.Stderr = append(programs.CleanEnv(), env...), programs.Log(t, "server")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { programs.Kill(cmd) })
		return cmd
	}
	h.server = h.listen()
	harness.WaitFor(t, "the server", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return map[string]any{"transport": h.transport, "url": h.relay.serve(t, "http://"+address) + h.path}
}

// killServer kills the server, and restarts it unless the worker does.
func (h *npmRun) killServer(t *testing.T) {
	if h.listen != nil {
		programs.Kill(h.server)
		h.relay.end()
		h.server = h.listen()
		return
	}
	var last string
	for _, line := range h.relay.logged() {
		if pid, ok := strings.CutPrefix(line, "server "); ok {
			last = pid
		}
	}
	pid, err := strconv.Atoi(last)
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL) // it may have exited with its worker
}

// count returns how many lines of the relay's log begin with prefix.
func (h *npmRun) count(prefix string) (n int) {
	for _, line := range h.relay.logged() {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

// check compares the tool results of the model with the calls of the server.
func (h *npmRun) check(t *testing.T, f npmFault, got []string) {
	t.Helper()
	kept, repeatable := h.transport == "http" && !f.killsServer, h.change == h.read // all tools of the server may be repeated
	want := []string{"", outcomeUnknown, sessionLost, "", ""}
	switch {
	case f.task && kept:
		want = []string{"# Research Report"}
	case f.task:
		want = []string{outcomeUnknown}
	case f.repeatable:
		want = []string{""}
	case kept:
		want = []string{"", "", "", "", ""}
	case f.hold == 0, repeatable:
		want = []string{"", sessionLost, "", "", ""}
	}
	matches := func(got, want string) bool {
		if want == "" {
			return !strings.HasPrefix(got, sessionLost) && !strings.HasPrefix(got, outcomeUnknown)
		}
		return strings.HasPrefix(got, want)
	}
	if !slices.EqualFunc(got, want, matches) {
		t.Fatalf("tool results = %q, want %q; relay log: %q", got, want, h.relay.logged())
	}
	if f.repeatable || f.task {
		if n := h.count("answered "); f.repeatable && n != 2 || f.task && n != 1 {
			t.Errorf("the server answered %d calls: %q", n, h.relay.logged())
		}
		return
	}
	last := h.afterLoss
	if kept {
		last = h.kept
	}
	if !strings.Contains(got[4], last) {
		t.Errorf("last result = %q, want it to contain %q", got[4], last)
	}
	known := 0 // side effects that the model knows of
	for _, i := range []int{1, 4} {
		if !matches(got[i], sessionLost) {
			known++
		}
	}
	if n := h.count("answered " + h.change.tool); n != known && !repeatable {
		t.Errorf("%d calls took effect, the model knows of %d: %q; relay log: %q", n, known, got, h.relay.logged())
	}
	if h.effects != nil && h.effects() != known {
		t.Errorf("%d side effects, the model knows of %d: %q", h.effects(), known, got)
	}
}

// npmFile returns the path of a file of an npm package, or skips the test if it is not installed.
func npmFile(t *testing.T, path string) string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join("../npm/node_modules", path))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Skipf("%v; make npm installs it", err)
	}
	return file
}
