package browser

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
)

// example is the tested flow: a fork, branches of unequal length, a deferred join.
const example = "../examples/continuum/briefing"

// held keeps the legal review running during the test.
const held = `rules:
- {node: demand, turn: 1, call: [{tool: set_state, arguments: {key: demand, value: 12}}]}
- {node: prices, delay: 200ms, say: Prices fall by 4 %.}
- {node: rules, delay: 400ms, say: The subsidy ends in June.}
- {node: counsel, delay: 10m, say: late}
- {say: done}`

// run is the workflow id passed to the starter.
const run = "market-briefing-k3v9x0aa"

// pages lists what the pages of a running run show: the nodes and what they wait for, the summary of each call, the
// position of each branch, and which lists find the run.
var pages = []struct {
	id, page string
	want     []string
	// picture marks the page of README's picture.
	picture bool
}{
	{id: run, page: "user-metadata", picture: true, want: []string{
		"Market Briefing · model script · ",
		"execution node state",
		"counsel#3 Legal Review running",
		"rules#2 Regulation Desk done",
		"editor#3 Editor join, waiting until no branch can reach it",
		"prices#2 Price Desk done",
		"demand#2 Demand Desk done",
		"outline#1 Outline done",
		"Three desks look into a question at the same time",
	}},
	{id: run, page: "timeline", want: []string{"outline · script", "demand · script", "prices · script", "rules · script", "branch rules · counsel · script"}},
	{id: run, page: "search-attributes", want: []string{"WeftFlow", "Market Briefing", "WeftDialect", "continuum", "WeftStatus", "running", "WeftPlanHash"}},
	{id: run, page: "memo", want: []string{"flow_hash", `"Market Briefing"`}},
	{id: waiting, page: "user-metadata", want: []string{
		"A <b>|</b> *b* &lt; $x$ ~~y~~ waiting for an answer", "<!--42--> _x_ [y](http://z/_a_)",
		"Waiting for 1 answer.", "tool_result", "run look_up with", `{"id": "a#1/client/1.1-`, `"result": "…"}`,
	}},
	{id: waiting, page: "timeline", want: []string{"a#1 · waits for tool_result"}},
	{id: waiting, page: "search-attributes", want: []string{"WeftStatus", "waiting"}},
	{id: failing, page: "user-metadata", want: []string{"Failed at a#1", "no_exit_node_reached", "To fix it: let the conditions cover all cases"}},
}

// TestEndToEndWebUI checks the Web UI's pages of a run started by the starter.
func TestEndToEndWebUI(t *testing.T) {
	s := open(t)
	s.start(t)
	s.ask(t)
	s.fail(t)
	for _, p := range pages {
		t.Run(p.id+"/"+p.page, func(t *testing.T) {
			s.look(t, p.id, p.page, p.want...)
			if p.picture && !t.Failed() {
				s.snap(t, "webui")
			}
		})
	}
}

// waiting is a run that waits for its client to execute a tool.
const waiting = "lookup-7w2m1c9q"

// ask starts a run as a client and waits until it requests a tool call.
func (s *site) ask(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	_, err := s.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: waiting, TaskQueue: "weft"}, "Flow", json.RawMessage(`{"v":1,"model":"script",
"flow":{"name":"lookup.json","text":"{\"name\":\"Lookup\",\"nodes\":[{\"id\":\"a\",\"name\":\"A <b>|</b> *b* &lt; $x$ ~~y~~\",\"prompt\":\"p\",\"is_exit_node\":true,\"tools\":[{\"name\":\"look_up\",\"data_connection_id\":\"web\"}]}],\"edges\":[{\"id\":\"e1\",\"source\":\"START\",\"target\":\"a\"},{\"id\":\"e2\",\"source\":\"a\",\"target\":\"END\"}]}"},
"data_connections":[{"id":"web","kind":"client","tools":[{"name":"look_up"}]}],
"script":{"rules":[{"turn":1,"call":[{"tool":"look_up","arguments":{"q":"<!--42--> _x_ [y](http://z/_a_)"}}]},{"say":"done"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		var status struct{ Requests []json.RawMessage }
		if v, err := s.client.QueryWorkflow(ctx, waiting, "", "status"); err == nil && v.Get(&status) == nil && len(status.Requests) == 1 {
			return
		}
	}
	t.Fatal("the run asks for nothing")
}

// failing is a run whose conditions are all false.
const failing = "picky-3k9d0w2x"

// fail starts a run that fails.
func (s *site) fail(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	run, err := s.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: failing, TaskQueue: "weft"}, "Flow", json.RawMessage(`{"v":1,"model":"script","input":"x",
"flow":{"name":"picky.json","text":"{\"name\":\"Picky\",\"nodes\":[{\"id\":\"a\",\"name\":\"A\",\"prompt\":\"p\"},{\"id\":\"b\",\"name\":\"B\",\"prompt\":\"p\",\"is_exit_node\":true}],\"edges\":[{\"id\":\"e1\",\"source\":\"START\",\"target\":\"a\"},{\"id\":\"e2\",\"source\":\"a\",\"target\":\"b\",\"condition_prompt\":\"Is it?\"},{\"id\":\"e3\",\"source\":\"b\",\"target\":\"END\"}]}"},
"script":{"rules":[{"question":"Is it?","yes":false},{"say":"hm"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Get(ctx, nil); err == nil {
		t.Fatal("the run does not fail")
	}
}

// start starts the example and waits until the legal review is running.
func (s *site) start(t *testing.T) {
	t.Helper()
	script := filepath.Join(t.TempDir(), "held.script")
	if err := os.WriteFile(script, []byte(held), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(s.programs, "starter"), "-flow", example+".json", "-input", "@"+example+".input.txt",
		"-model", "script", "-script", script, "-id", run, "-detach")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TEMPORAL_ADDRESS=" + s.address}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("start the example: %v\n%s", err, out)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		d, err := s.client.DescribeWorkflowExecution(context.Background(), run, "")
		if err == nil && len(d.GetPendingActivities()) == 1 && d.GetPendingActivities()[0].GetActivityId() == "counsel#3/model/1" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the legal review does not begin: %v, %v", d.GetPendingActivities(), err)
		}
	}
}
