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

// TestSignIn checks that a browser gets a cookie, which authorizes requests that change something only from the server's own pages.
func TestSignIn(t *testing.T) {
	b := newBench(t, func(o *Options) {
		o.Settings.Origins = []string{"https://app.example"}
		o.Tokens = []config.Token{{Name: "kim", Value: "kimkimkimkimkimkim", Principal: config.Principal{Scopes: defaultScopes}}}
	})
	page := b.call("GET", "/", "").expect(200, "page.js")
	if policy := page.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "script-src 'self';") || strings.Contains(policy, "unsafe") {
		t.Errorf("Content-Security-Policy = %q", policy)
	}
	b.call("GET", "/page.js", "").expect(200, "'use strict'")
	b.call("GET", "/page.css", "").expect(200, ":root")
	b.call("POST", "/sign-in", `{"token": "other"}`).expect(401, "invalid token")
	b.call("POST", "/sign-in", `{"tokn": "x"}`).expect(422, "did you mean")
	signedIn := b.call("POST", "/sign-in", `{"token": "kimkimkimkimkimkim"}`).expect(204, "")
	set := signedIn.Header().Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/"} {
		if !strings.Contains(set, want) {
			t.Errorf("Set-Cookie = %q, want %s in it", set, want)
		}
	}
	if s := b.call("POST", "/sign-in", `{"token": "kimkimkimkimkimkim"}`, "X-Forwarded-Proto: https").Header().Get("Set-Cookie"); !strings.Contains(s, "Secure") {
		t.Errorf("Set-Cookie behind a TLS proxy = %q, want Secure in it", s)
	}
	value, _, _ := strings.Cut(set, ";")
	cookie := "Cookie: " + value
	b.call("GET", "/runs", "", cookie).expect(200, "runs")
	b.call("GET", "/runs", "", "Cookie: weft_token=wrong").expect(401, "invalid token")
	b.runs.add("r")
	b.runs.byID["r"].Owner = contract.Principal{Name: "kim"}
	b.call("POST", "/runs/r/cancel", "", cookie, "Origin: https://app.example").expect(403, "foreign origin")
	b.call("POST", "/runs/r/cancel", "", cookie, "Sec-Fetch-Site: cross-site").expect(403, "foreign origin")
	b.call("POST", "/runs/r/cancel", "", "Authorization: Bearer kimkimkimkimkimkim", "Origin: https://app.example").expect(202, "")
	b.call("POST", "/runs/r/cancel", "", cookie, "Origin: http://127.0.0.1:8765", "Sec-Fetch-Site: same-origin").expect(202, "")
	if out := b.call("POST", "/sign-out", "").expect(204, "").Header().Get("Set-Cookie"); !strings.Contains(out, "Max-Age=0") {
		t.Errorf("Set-Cookie after signing out = %q, want Max-Age=0 in it", out)
	}
}

// TestNodes checks the executions, state, graph and comparison of runs, and forks from a node.
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
	got := b.call("GET", "/runs/r/executions", "").expect(200, `"execution":"a#1","node":"a","name":"First","status":"done"`).expect(200, `"retries":2,"text":"done"`).expect(200, `{"execution":"b#2","node":"b","name":"Second","status":"recorded"`)
	if n := got.field("usage.calls"); n != json.Number("0") {
		t.Errorf("usage.calls = %v, want 0", n)
	}
	b.call("GET", "/runs/r/executions/boss%231:helper%20%E2%80%BA%20a%231/state", "").expect(200, `{"before":[{"key":"asked","value":"boss#1:helper › a#1"}],"after":null}`)
	b.call("GET", "/runs/r/graph", "").expect(200, `<g data-node="a">`)
	b.call("GET", "/runs/r/compare?with=other", "").expect(200, `"runs":["r","other"]`)
	b.call("GET", "/runs/r/compare", "").expect(400, "with is missing")
	b.call("POST", "/runs/r/fork", `{}`).expect(422, "from is missing")
	b.call("POST", "/runs/r/fork", `{"from": "b", "prompt": "x"}`).expect(422, "no prompt that can be replaced")
	b.call("POST", "/runs/r/fork", `{"from": "a#1", "prompt": "Do more.", "state": {"k": [1]}}`).expect(201, `"run_id":"triage-1"`)
	last := b.runs.forks[len(b.runs.forks)-1]
	if last.From != "a#1" || last.Flow.Flow.Nodes[0].Agent.System != "You are a node.\nDo more." || flow.Nodes[0].Agent.Prompt != "Do it." ||
		len(last.Set) != 1 || last.Set[0].Key != "k" || string(last.Set[0].Raw) != "[1]" {
		t.Errorf("options of the fork = %+v", last)
	}
	if got := b.runs.inputs["triage-1"].Flow.Plan.Nodes[0].Agent.Prompt; got != "Do more." {
		t.Errorf("prompt of the new run = %q, want %q", got, "Do more.")
	}
	named := newBench(t, func(o *Options) { o.Flows.Accept = config.AcceptNamed })
	named.runs.tree = tree
	named.runs.add("r")
	named.call("POST", "/runs/r/fork", `{"from": "a"}`).expect(403, "flows.accept: named")
}
