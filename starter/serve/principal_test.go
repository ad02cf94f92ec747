package serve

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"weft/activities/contract"
	"weft/worker/config"
)

// TestRunsOfOthersAreNotFound goes to every address of a run, as its owner, as others, and as administrators.
func TestRunsOfOthersAreNotFound(t *testing.T) {
	all := append([]string{config.ScopeAdminister}, usual...)
	token := func(name, tenant string, scopes []string) config.Token {
		return config.Token{Name: name, Value: strings.Repeat(name, 6), Principal: config.Principal{Tenant: tenant, Scopes: scopes}}
	}
	tokens := []config.Token{token("kim", "north", usual), token("ann", "north", usual), token("kai", "south", usual), token("nia", "north", all), token("sam", "south", all), token("ops", "", all)}
	for _, tc := range []struct {
		name string
		sees bool
	}{{"kim", true}, {"ann", false}, {"kai", false}, {"nia", true}, {"sam", false}, {"ops", true}} {
		b := newBench(t, func(o *Options) { o.Tokens = tokens })
		b.runs.add("victim").Owner = contract.Principal{Name: "kim", Tenant: "north"}
		b.runs.add("victim/a#1")
		b.runs.add("nobody's")
		for _, rt := range routes {
			if !strings.HasPrefix(rt.path, "/runs/{id}") || strings.HasSuffix(rt.path, "/events") {
				continue
			}
			for _, id := range []string{"victim", "victim%2Fa%231"} {
				path := strings.NewReplacer("{id}", id, "{execution}", "a%231").Replace(rt.path)
				got := b.call(rt.method, path, `{"id": "q", "text": "t", "approve": true}`, "Authorization: Bearer "+strings.Repeat(tc.name, 6))
				if found := got.Code != 404; found != tc.sees {
					t.Errorf("%s %s as %s gives %d %s", rt.method, path, tc.name, got.Code, got.Body)
				}
				if !tc.sees && !strings.Contains(got.Body.String(), "not found") {
					t.Errorf("%s %s as %s tells %s", rt.method, path, tc.name, got.Body)
				}
			}
		}
		got := b.call("GET", "/runs/nobody's", "", "Authorization: Bearer "+strings.Repeat(tc.name, 6))
		if found := got.Code == 200; found != (tc.name == "ops") {
			t.Errorf("%s gets %d for a run that was not started here", tc.name, got.Code)
		}
		if len(b.runs.cancelled) > 0 != tc.sees {
			t.Errorf("%s cancelled %v", tc.name, b.runs.cancelled)
		}
		got = b.call("POST", "/runs", `{"id": "victim", "flow": {"name": "triage"}, "input": "a"}`, "Authorization: Bearer "+strings.Repeat(tc.name, 6))
		if got.Code != 409 || !tc.sees && strings.Contains(got.Body.String(), "Triage") {
			t.Errorf("%s starts with the id and gets %d %s", tc.name, got.Code, got.Body)
		}
	}
}

// TestScopes goes to every address with a token that lacks its scope, and starts flows that a token does not name.
func TestScopes(t *testing.T) {
	for _, rt := range routes {
		if rt.scope == "" {
			continue
		}
		var others []string
		for _, s := range append([]string{config.ScopeAdminister}, usual...) {
			if s != rt.scope {
				others = append(others, s)
			}
		}
		b := newBench(t, func(o *Options) {
			o.Tokens = []config.Token{{Name: "kim", Value: "kimkimkimkimkimkim", Principal: config.Principal{Scopes: others}}}
			o.Settings.EditAgents = true
		})
		b.call(rt.method, strings.NewReplacer("{id}", "r", "{name}", "writer").Replace(rt.path), "{}", "Authorization: Bearer kimkimkimkimkimkim").is(403, "no scope "+rt.scope)
	}
	b := newBench(t, func(o *Options) {
		o.Tokens = []config.Token{{Name: "kim", Value: "kimkimkimkimkimkim", Principal: config.Principal{Scopes: usual, Flows: []string{"tri*"}}}}
	})
	kim := "Authorization: Bearer kimkimkimkimkimkim"
	b.call("POST", "/runs", `{"flow": {"name": "triage"}}`, kim).is(201, "triage-1")
	if p := b.runs.inputs["triage-1"].Principal; p == nil || p.Name != "kim" {
		t.Errorf("the run is started by %v", p)
	}
	b.call("POST", "/runs", documented, kim).is(403, "may not start the flow")
	b.call("POST", "/runs", `{"flow": {"text": `+quoted(triage)+`}}`, kim).is(403, "may not start the flow")
	b.call("POST", "/runs", `{"flow": {"name": "triage"}, "principal": {"name": "ceo"}}`, kim).is(422, "principal")
}

// TestOpenRuns starts more runs than a token may have open, one by one and at once, whether lists have them yet or not.
func TestOpenRuns(t *testing.T) {
	kim, ops := "Authorization: Bearer kimkimkimkimkimkim", "Authorization: Bearer opsopsopsopsopsops"
	start := func(id string) string { return `{"id": "` + id + `", "flow": {"name": "triage"}}` }
	for _, late := range []bool{false, true} {
		b := newBench(t, func(o *Options) {
			o.Tokens = []config.Token{{Name: "kim", Value: "kimkimkimkimkimkim", Principal: config.Principal{Scopes: usual, Open: 3, MaxBody: 1024}},
				{Name: "ops", Value: "opsopsopsopsopsops", Principal: config.Principal{Scopes: append([]string{config.ScopeAdminister}, usual...), Open: 1}}}
		})
		b.runs.late = late
		b.call("POST", "/runs", start("ended"), kim).is(201, "")
		b.runs.end("ended", &contract.RunResult{}, nil)
		var codes [8]int
		var all sync.WaitGroup
		for i := range codes {
			all.Go(func() { codes[i] = b.call("POST", "/runs", start("r"+strconv.Itoa(i)), kim).Code })
		}
		all.Wait()
		slices.Sort(codes[:])
		if codes != [8]int{201, 201, 201, 429, 429, 429, 429, 429} {
			t.Errorf("late %v: eight starts at once give %v", late, codes)
		}
		if refused := b.call("POST", "/runs", start("more"), kim).is(429, "kim has 3 open runs").is(429, "principals: {kim: {open_runs: N}}"); refused.Header().Get("Retry-After") == "" {
			t.Error("it is not said when to start again")
		}
		for id := range b.runs.byID {
			if id != "ended" {
				b.call("POST", "/runs", start(id), kim).is(201, id) // a repeated start is none
				b.runs.end(id, &contract.RunResult{}, nil)
				break
			}
		}
		b.call("POST", "/runs", start("next"), kim).is(201, "")
		b.call("POST", "/runs", start("theirs"), ops).is(201, "") // the runs that it may see are not its own
		b.call("POST", "/runs", `{"id": "x", "flow": {"name": "triage"}, "input": "`+strings.Repeat("x", 1024)+`"}`, kim).is(413, "exceeds 1024 bytes")
		b.runs.err = NewProblem(NoTemporal, "retry later", "Temporal does not answer")
		b.call("POST", "/runs", start("none"), ops).is(503, "Temporal does not answer")
		if b.runs.byID["none"] != nil {
			t.Error("a run was started though nobody could count")
		}
	}
}

// TestLimitsOfTokens starts and follows more than a token may, and with another.
func TestLimitsOfTokens(t *testing.T) {
	b := newBench(t, func(o *Options) {
		o.Tokens = []config.Token{{Name: "kim", Value: "kimkimkimkimkimkim", Principal: config.Principal{Scopes: usual, Starts: 2, Streams: 1}}, {Name: "ann", Value: "annannannannannann", Principal: config.Principal{Scopes: usual, Starts: 2, Streams: 1}}}
	})
	kim, ann := "Authorization: Bearer kimkimkimkimkimkim", "Authorization: Bearer annannannannannann"
	start := func(id string) string { return `{"id": "` + id + `", "flow": {"name": "triage"}}` }
	b.call("POST", "/runs", start("a"), kim).is(201, "")
	b.call("POST", "/runs", start("b"), kim).is(201, "")
	if late := b.call("POST", "/runs", start("c"), kim).is(429, "more than 2 runs per minute"); late.Header().Get("Retry-After") == "" {
		t.Error("it is not said when to start again")
	}
	b.call("POST", "/runs", start("d"), ann).is(201, "")
	ended, err := b.limits.stream(&b.Tokens[0])
	if err != nil {
		t.Fatal(err)
	}
	b.call("GET", "/runs/a/events", "", kim).is(429, "has 1 open event streams")
	b.call("GET", "/runs/a?wait=1ms", "", kim).is(429, "has 1 open event streams") // to wait is to follow
	b.call("GET", "/runs/a", "", kim).is(200, "")
	ended()
	if again, err := b.limits.stream(&b.Tokens[0]); err != nil {
		t.Error(err)
	} else {
		again()
	}
}

// TestStartsAtOnceWithOneID repeats a start of a run that lists do not have yet: it stays counted.
func TestStartsAtOnceWithOneID(t *testing.T) {
	b := newBench(t, func(o *Options) {
		o.Tokens = []config.Token{{Name: "kim", Value: "kimkimkimkimkimkim", Principal: config.Principal{Scopes: usual, Open: 2}}}
	})
	b.runs.late = true
	b.call("POST", "/runs", `{"id": "r1", "flow": {"name": "triage"}}`, "Authorization: Bearer kimkimkimkimkimkim").is(201, "")
	// The second of two starts at once has not found the first, and is told by Temporal that the run exists.
	failed, err := b.limits.reserve(t.Context(), b.runs, &b.Tokens[0], "r1")
	if err != nil {
		t.Fatal(err)
	}
	failed()
	b.call("POST", "/runs", `{"id": "r2", "flow": {"name": "triage"}}`, "Authorization: Bearer kimkimkimkimkimkim").is(201, "")
	b.call("POST", "/runs", `{"id": "r3", "flow": {"name": "triage"}}`, "Authorization: Bearer kimkimkimkimkimkim").is(429, "open_runs")
}

// TestTurnsAreStarts gives a session more prompts than a token may start runs.
func TestTurnsAreStarts(t *testing.T) {
	b := newBench(t, func(o *Options) {
		o.Tokens = []config.Token{{Name: "kim", Value: "kimkimkimkimkimkim", Principal: config.Principal{Scopes: usual, Starts: 2}}}
	})
	kim := "Authorization: Bearer kimkimkimkimkimkim"
	made := b.call("POST", "/runs", `{"type": "start_session", "parameters": {"prompt": "one"}}`, kim).is(201, "pending")
	b.runs.byID[made.field("run_id").(string)].IsTurn = true
	resume := `{"type": "resume_session", "session_id": "` + made.field("session_id").(string) + `", "parameters": {"prompt": "x"}}`
	b.call("POST", "/runs", resume, kim, "Idempotency-Key: k").is(201, "")
	b.runs.turns = []contract.Turn{{N: 2, ID: b.runs.answers[0].(contract.PromptInput).ID}}
	b.call("POST", "/runs", resume, kim, "Idempotency-Key: k").is(201, "") // a repeated prompt is none
	b.call("POST", "/runs", resume, kim).is(429, "more than 2 runs per minute")
}
