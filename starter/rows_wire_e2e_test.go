package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"weft/activities/contract"
	"weft/specadapter"
)

// openAgent accepts any parameters.
const openAgent = `{"name":"open","description":"d","parameters_schema":{"type":"object"}}`

// wireParams are JSON parameters in the forms that clients in other languages write, with the inputs in the agent's prompt.
var wireParams = []struct{ params, want string }{
	{`{"z": 1, "prompt": "Go", "a": 2, "m": {"y": 1, "b": [2, {"x": 3, "a": 4}]}}`, "z: 1\na: 2\nm: {\"y\": 1, \"b\": [2, {\"x\": 3, \"a\": 4}]}"},
	{`{"prompt":"Go","a":1e21,"b":-0,"c":1.0,"d":12345678901234567890123,"e":-0.0,"f":1E2,"g":0.1e-6,"h":[1e22,1.50,-0]}`,
		"a: 1e+21\nb: 0\nc: 1.0\nd: 12345678901234567890123\ne: -0.0\nf: 100.0\ng: 1e-07\nh: [1e+22, 1.5, 0]"},
	{`{"\u0070rompt":"Go","\u00fc":"\u00e4\ud83d\ude00\u2028<&>","l":["\u00e4","\ud83d\ude00","<&>\u2028\u0000"]}`,
		"ü: ä😀\u2028<&>\nl: [\"\\u00e4\", \"\\ud83d\\ude00\", \"<&>\\u2028\\u0000\"]"},
	{`{"prompt":"Go","t":true,"f":false,"n":null,"":"no key","s":" two\nlines ","o":{},"q":"\"'\\/"}`,
		"t: True\nf: False\nn: null\n: no key\ns:\n   two\n  lines \no: {}\nq: \"'\\/"},
}

// wireStarts checks that an agent gets the same prompt for the same parameters over HTTP, from the
// command line, and from a plain Temporal client, with a document and with a plan.
func wireStarts(d *servers) {
	dir := d.TempDir()
	main := filepath.Join(dir, "agents", "open", "agent.json")
	if err := os.MkdirAll(filepath.Dir(main), 0o755); err != nil {
		d.Fatal(err)
	}
	const script = `{"rules": [{"say": "fine"}]}`
	for name, text := range map[string]string{main: openAgent, filepath.Join(dir, "script.json"): script} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			d.Fatal(err)
		}
	}
	res, diags := specadapter.Load("agent.json", []byte(openAgent), specadapter.Options{Dialect: "blueprint"})
	if res == nil {
		d.Fatal(diags)
	}
	plan, err := json.Marshal(res.Flow)
	if err != nil {
		d.Fatal(err)
	}
	c, err := client.Dial(client.Options{HostPort: d.temporal, Logger: discardLogger{}})
	if err != nil {
		d.Fatal(err)
	}
	defer c.Close()
	start := func(id, flow, params string) {
		payload := &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("json/plain")},
			Data: fmt.Appendf(nil, `{"params": %s, "model": "script", "script": %s, "flow": %s, "v": %d}`, params, script, flow, contract.Version)}
		if _, err := c.ExecuteWorkflow(d.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: "weft"}, contract.WorkflowFlow, converter.NewRawValue(payload)); err != nil {
			d.Fatal(err)
		}
	}
	text, _ := json.Marshal(openAgent)
	for i, tc := range wireParams {
		ids := map[string]string{"HTTP": d.startRun("open", tc.params, "- {say: fine}").run}
		for source, flow := range map[string]string{"document": fmt.Sprintf(`{"text": %s, "dialect": "blueprint"}`, text), "plan": fmt.Sprintf(`{"plan": %s}`, plan)} {
			ids[source] = fmt.Sprintf("wire-%d-%s", i, source)
			start(ids[source], flow, tc.params)
		}
		ids["command"] = fmt.Sprintf("wire-%d-command", i)
		params := filepath.Join(dir, fmt.Sprintf("params-%d.json", i))
		if err := os.WriteFile(params, []byte(tc.params), 0o600); err != nil {
			d.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, env: mapEnv{"TEMPORAL_ADDRESS": d.temporal, "TEMPORAL_CONFIG_FILE": dir + "/none"}}
		if code := a.run(d.Context(), []string{"-flow", filepath.Dir(main), "-params", "@" + params, "-id", ids["command"], "-model", "script", "-script", filepath.Join(dir, "script.json")}); code != exitOK {
			d.Fatalf("exit code %d: %s", code, &stderr)
		}
		want := "<inputs>\n" + tc.want + "\n</inputs>\n\nGo"
		for source, id := range ids {
			if got := d.inputOf(id); got != want {
				d.Errorf("%s, started by %s: prompt =\n%q, want\n%q", tc.params, source, got, want)
			}
		}
	}
	// Duplicate keys are rejected with their position.
	start("wire-twice", fmt.Sprintf(`{"plan": %s}`, plan), `{"prompt":"Go","a":1,"a":2}`)
	end := (&startedRun{d: d, run: "wire-twice"}).wait()
	if text := fmt.Sprint(end); end["status"] != "failed" || !strings.Contains(text, `"params.a" appears twice`) {
		d.Errorf("run with a duplicate key = %s", text)
	}
	if body := string(d.raw(0, 400, "POST", "/runs", startBody("open", `{"prompt":"Go","a":1,"a":2}`, "- {say: fine}"))); !strings.Contains(body, `duplicate key \"a\", first used at`) {
		d.Errorf("response to a duplicate key = %s", body)
	}
}

// inputOf waits for the end of a run and returns its input.
func (d *servers) inputOf(run string) string {
	d.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		if now := d.call(1, 200, "GET", "/runs/"+run+"?wait=30s", ""); now["status"] == "running" {
			continue
		} else if now["status"] != "completed" {
			d.Fatalf("run %s = %v, want completed", run, now)
		}
		var page struct {
			Messages []struct {
				Thread  string
				Message struct{ Text string }
			}
		}
		if err := json.Unmarshal(d.raw(0, 200, "GET", "/runs/"+run+"/transcript?thread=input", ""), &page); err != nil {
			d.Fatal(err)
		}
		if len(page.Messages) != 1 {
			d.Fatalf("thread input of %s = %+v, want one message", run, page)
		}
		return page.Messages[0].Message.Text
	}
	d.Fatalf("run %s did not end", run)
	return ""
}
