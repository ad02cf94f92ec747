package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/tests/programs"
	"weft/worker/config"
	"weft/workflows/plan"
)

// TestEndToEndNamedFlows starts flows by name from the command line, a schedule and the HTTP server, with workers that accept
// only the flows of a folder, and lists the runs of one principal among those of others.
func TestEndToEndNamedFlows(t *testing.T) {
	path, dir := programs.Path(t, "WEFT_DEVSERVER"), t.TempDir()
	put := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	flow := put("flows/triage.json", singleNodeFlow)
	put("flows/agents/plain/agent.json", `{"name":"plain","description":"d"}`)
	outside := put("mine.json", singleNodeFlow)
	named := "flows: {dir: " + filepath.Join(dir, "flows") + ", accept: named}\n"
	worker := put("worker.yaml", named+"model: script\npolicies:\n  a: {tenants: [north], scripts: true}\n  b: {principals: [ann], clients: [model], scripts: true}\n")
	settings := put("client.yaml", named+"starter: {principal: kim, tenant: north}\nprincipals:\n  kim: {tenant: north, open_runs: 5}\n")
	address := devserver(t, path, "-config", worker)
	t.Parallel() // after the start: servers that start concurrently may take each other's ports
	env := mapEnv{"TEMPORAL_ADDRESS": address, "TEMPORAL_CONFIG_FILE": dir + "/none", "WEFT_MODEL": "script", "WEFT_SERVE_TOKENS": "kim:kimkimkimkimkimkim"}

	command := func(code int, want string, args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, env: env}
		if got := a.run(t.Context(), args); got != code || !strings.Contains(stdout.String()+stderr.String(), want) {
			t.Errorf("starter %q: exit code %d: %s%s, want %d with %s", args, got, &stdout, &stderr, code, want)
		}
		return stdout.String()
	}
	command(0, "hello", "-flow", "triage", "-input", "hello", "-id", "by-name", "-config", settings)
	command(0, "hello", "-flow", flow, "-input", "hello", "-config", settings)
	command(0, "hello", "-flow", "plain", "-input", "hello", "-session", "-config", settings)
	command(2, "is not a flow of flows.dir", "-flow", outside, "-input", "hello", "-config", settings)
	command(1, "the run supplies model", "-flow", "triage", "-input", "hello", "-model", "script", "-config", settings)
	command(1, "start the run with the name of a flow instead", "-flow", flow, "-input", "hello", "-config", put("other.yaml", "starter: {principal: kim, tenant: north}\n"))
	command(0, "hello", "-flow", "triage", "-input", "hello", "-model", "script", "-config", put("ann.yaml", named+"starter: {principal: ann}\n"))
	command(0, "next", "schedule", "create", "nightly", "-flow", "triage", "-input", "hello", "-every", "30d", "-config", settings)

	cfg, err := config.Load(config.Options{File: settings, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	a := &app{stderr: io.Discard, env: env, cfg: cfg}
	c, err := a.connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Client.Close()
	if err := c.Client.ScheduleClient().GetHandle(t.Context(), "nightly").Trigger(t.Context(), client.ScheduleTriggerOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Run("lists", func(t *testing.T) {
		const others = 1000
		in := &contract.RunInput{V: contract.Version, Principal: &contract.Principal{Name: "sam", Tenant: "north"}, Flow: contract.FlowRef{Name: "triage"}}
		work := make(chan int, others)
		for i := range others {
			work <- i
		}
		close(work)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for i := range work {
					o := client.StartWorkflowOptions{ID: fmt.Sprint("other-", i), TaskQueue: "nobody"}
					if _, err := c.Start(t.Context(), o, &plan.Flow{Version: plan.Version, Name: "Echo"}, in); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		url := startServe(t, env, "serve", "-listen", "127.0.0.1:0", "-config", settings)
		call := func(method, path, body string) (status int, got struct {
			Runs []struct {
				ID string `json:"run_id"`
			}
			Next   string `json:"next_page_token"`
			Detail string
		}) {
			t.Helper()
			r, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer kimkimkimkimkimkim")
			r.Header.Set("Content-Type", "application/json")
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
				t.Fatal(err)
			}
			return response.StatusCode, got
		}
		if status, got := call("POST", "/runs", `{"id": "posted", "flow": {"name": "triage"}, "input": "hello"}`); status != 201 {
			t.Errorf("start by name: status %d: %s", status, got.Detail)
		}
		if status, got := call("POST", "/runs", `{"flow": {"text": "{}"}, "input": "hello"}`); status != 403 {
			t.Errorf("start of a document: status %d: %s", status, got.Detail)
		}
		// The runs by-name, by path, the session, two that failed, the schedule's, and posted.
		var ids []string
		pages := 0
		for deadline := time.Now().Add(3 * time.Minute); len(ids) != 7 && time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
			ids, pages = nil, 0
			for next := ""; ; pages++ {
				start := time.Now()
				status, got := call("GET", "/runs?limit=3&page_token="+next, "")
				if status != 200 || len(got.Runs) > 3 || got.Next != "" && len(got.Runs) < 3 {
					t.Fatalf("page: status %d: %+v", status, got)
				}
				t.Logf("a page took %v", time.Since(start).Round(time.Millisecond))
				for _, run := range got.Runs {
					ids = append(ids, run.ID)
				}
				if next = got.Next; next == "" {
					break
				}
			}
		}
		if text := strings.Join(ids, " "); len(ids) != 7 || strings.Contains(text, "other-") || !strings.Contains(text, "by-name") || !strings.Contains(text, "nightly") || pages > 2 {
			t.Errorf("runs of kim = %q, on %d pages", ids, pages+1)
		}
		for i := range 5 { // open_runs is 5, and the session that was started above is still open
			want := 201
			if i == 4 {
				want = 429
			}
			if status, got := call("POST", "/runs", `{"type": "start_session", "agent_name": "plain", "parameters": {"prompt": "hello"}}`); status != want {
				t.Errorf("start of session %d: status %d: %s", i, status, got.Detail)
			}
		}
	})
}

// startServe starts an HTTP server, which is stopped at the end of the test, and returns its URL.
func startServe(t *testing.T, env mapEnv, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	var stderr syncBuffer
	a := &app{stdin: strings.NewReader(""), stdout: in, stderr: &stderr, env: env}
	code := make(chan int, 1)
	go func() {
		code <- a.run(ctx, args)
		in.Close()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("start the server: %v, %s", err, stderr.buf.String())
	}
	t.Cleanup(func() {
		cancel()
		if got := <-code; got != exitOK {
			t.Errorf("exit code of the server = %d: %s", got, stderr.buf.String())
		}
	})
	return strings.TrimSpace(line)
}
