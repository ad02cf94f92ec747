package serve

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/starter/runtree"
	"weft/worker/config"
	"weft/workflows/plan"
)

// TestSignIn gives a browser a cookie, and takes it from pages of this server alone where it changes something.
func TestSignIn(t *testing.T) {
	b := newBench(t, func(o *Options) {
		o.Settings.Origins = []string{"https://app.example"}
		o.Tokens = []config.Token{{Name: "kim", Value: "kimkimkimkimkimkim", Principal: config.Principal{Scopes: usual}}}
	})
	page := b.call("GET", "/", "").is(200, "page.js")
	if policy := page.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "script-src 'self';") || strings.Contains(policy, "unsafe") {
		t.Errorf("the page's policy is %q", policy)
	}
	b.call("GET", "/page.js", "").is(200, "'use strict'")
	b.call("GET", "/page.css", "").is(200, ":root")
	b.call("POST", "/sign-in", `{"token": "other"}`).is(401, "invalid token")
	b.call("POST", "/sign-in", `{"tokn": "x"}`).is(422, "did you mean")
	in := b.call("POST", "/sign-in", `{"token": "kimkimkimkimkimkim"}`).is(204, "")
	set := in.Header().Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/"} {
		if !strings.Contains(set, want) {
			t.Errorf("the cookie is %q, want it with %s", set, want)
		}
	}
	if s := b.call("POST", "/sign-in", `{"token": "kimkimkimkimkimkim"}`, "X-Forwarded-Proto: https").Header().Get("Set-Cookie"); !strings.Contains(s, "Secure") {
		t.Errorf("behind TLS the cookie is %q", s)
	}
	value, _, _ := strings.Cut(set, ";")
	cookie := "Cookie: " + value
	b.call("GET", "/runs", "", cookie).is(200, "runs")
	b.call("GET", "/runs", "", "Cookie: weft_token=wrong").is(401, "invalid token")
	b.runs.add("r")
	b.runs.byID["r"].Owner = contract.Principal{Name: "kim"}
	b.call("POST", "/runs/r/cancel", "", cookie, "Origin: https://app.example").is(403, "foreign origin")
	b.call("POST", "/runs/r/cancel", "", cookie, "Sec-Fetch-Site: cross-site").is(403, "foreign origin")
	b.call("POST", "/runs/r/cancel", "", "Authorization: Bearer kimkimkimkimkimkim", "Origin: https://app.example").is(202, "")
	b.call("POST", "/runs/r/cancel", "", cookie, "Origin: http://127.0.0.1:8765", "Sec-Fetch-Site: same-origin").is(202, "")
	if out := b.call("POST", "/sign-out", "").is(204, "").Header().Get("Set-Cookie"); !strings.Contains(out, "Max-Age=0") {
		t.Errorf("after signing out the cookie is %q", out)
	}
}

// TestNodes reads what nodes did, and runs a flow again from one of them.
func TestNodes(t *testing.T) {
	b := newBench(t)
	b.runs.add("r")
	b.runs.add("other")
	tree := runtree.New("r", "1")
	flow := &plan.Flow{Version: plan.Version, Name: "Triage", Dialect: "continuum", Nodes: []plan.Node{
		{ID: "a", Name: "First", Agent: &plan.Agent{Prompt: "Do it.", System: "You are a node.\nDo it."}}, {ID: "b", Name: "Second"}}}
	at := noon.Add(-time.Minute)
	*tree.Root() = runtree.Workflow{ID: "r", RunID: "1", Flow: flow, Input: &contract.RunInput{V: contract.Version, Flow: contract.FlowRef{Plan: flow}, Input: "x"},
		Executions: []contract.Execution{{Node: "b", Step: 2, Recorded: true}},
		Costs:      []*runtree.Cost{{Execution: "a#1", From: at, To: noon, Text: "done", Retries: 2, Usage: contract.Usage{Calls: 1, Input: 3}}, {Execution: "a#3", From: noon}}}
	b.runs.tree = tree
	got := b.call("GET", "/runs/r/executions", "").is(200, `"execution":"a#1","node":"a","name":"First","status":"done"`).is(200, `"retries":2,"text":"done"`).is(200, `{"execution":"b#2","node":"b","name":"Second","status":"recorded"`)
	if n := got.field("usage.calls"); n != json.Number("0") {
		t.Errorf("usage.calls is %v", n)
	}
	b.call("GET", "/runs/r/executions/boss%231:helper%20%E2%80%BA%20a%231/state", "").is(200, `{"before":[{"key":"asked","value":"boss#1:helper › a#1"}],"after":null}`)
	b.call("GET", "/runs/r/graph", "").is(200, `<g data-node="a">`)
	b.call("GET", "/runs/r/compare?with=other", "").is(200, `"runs":["r","other"]`)
	b.call("GET", "/runs/r/compare", "").is(400, "with is missing")
	b.call("POST", "/runs/r/fork", `{}`).is(422, "from is missing")
	b.call("POST", "/runs/r/fork", `{"from": "b", "prompt": "x"}`).is(422, "no prompt that can be replaced")
	b.call("POST", "/runs/r/fork", `{"from": "a#1", "prompt": "Do more.", "state": {"k": [1]}}`).is(201, `"run_id":"triage-1"`)
	last := b.runs.forks[len(b.runs.forks)-1]
	if last.From != "a#1" || last.Flow.Flow.Nodes[0].Agent.System != "You are a node.\nDo more." || flow.Nodes[0].Agent.Prompt != "Do it." ||
		len(last.Set) != 1 || last.Set[0].Key != "k" || string(last.Set[0].Raw) != "[1]" {
		t.Errorf("the fork is %+v", last)
	}
	if got := b.runs.inputs["triage-1"].Flow.Plan.Nodes[0].Agent.Prompt; got != "Do more." {
		t.Errorf("the new run has the prompt %q", got)
	}
	named := newBench(t, func(o *Options) { o.Flows.Accept = config.AcceptNamed })
	named.runs.tree = tree
	named.runs.add("r")
	named.call("POST", "/runs/r/fork", `{"from": "a"}`).is(403, "flows.accept: named")
}
