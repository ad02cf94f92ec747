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

// TestRunAccess checks, for each route of a run, that only the owner of the run, administrators of its tenant and administrators without a tenant can find it.
func TestRunAccess(t *testing.T) {
	all := append([]string{config.ScopeAdminister}, defaultScopes...)
	token := func(name, tenant string, scopes []string) config.Token {
		return config.Token{Name: name, Value: strings.Repeat(name, 6), Principal: config.Principal{Tenant: tenant, Scopes: scopes}}
	}
	tokens := []config.Token{token("kim", "north", defaultScopes), token("ann", "north", defaultScopes), token("kai", "south", defaultScopes), token("nia", "north", all), token("sam", "south", all), token("ops", "", all)}
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
					t.Errorf("%s %s as %s = %d %s", rt.method, path, tc.name, got.Code, got.Body)
				}
				if !tc.sees && !strings.Contains(got.Body.String(), "not found") {
					t.Errorf("%s %s as %s = %s, want not found", rt.method, path, tc.name, got.Body)
				}
			}
		}
		got := b.call("GET", "/runs/nobody's", "", "Authorization: Bearer "+strings.Repeat(tc.name, 6))
		if found := got.Code == 200; found != (tc.name == "ops") {
			t.Errorf("GET of a run without an owner as %s = %d", tc.name, got.Code)
		}
		if len(b.runs.cancelled) > 0 != tc.sees {
			t.Errorf("runs cancelled by %s = %v", tc.name, b.runs.cancelled)
		}
		got = b.call("POST", "/runs", `{"id": "victim", "flow": {"name": "triage"}, "input": "a"}`, "Authorization: Bearer "+strings.Repeat(tc.name, 6))
		if got.Code != 409 || !tc.sees && strings.Contains(got.Body.String(), "Triage") {
			t.Errorf("start with the same id as %s = %d %s, want 409 without details of the run", tc.name, got.Code, got.Body)
		}
	}
}

// TestScopes checks that each route requires its scope, and that a token can start only the flows that it is configured for.
func TestScopes(t *testing.T) {
	for _, rt := range routes {
		if rt.scope == "" {
			continue
		}
		var others []string
		for _, s := range append([]string{config.ScopeAdminister}, defaultScopes...) {
			if s != rt.scope {
				others = append(others, s)
			}
		}
		b := newBench(t, func(o *Options) {
			o.Tokens = []config.Token{{Name: "kim", Value: "kimkimkimkimkimkim", Principal: config.Principal{Scopes: others}}}
			o.Settings.EditAgents = true
		})
		b.call(rt.method, strings.NewReplacer("{id}", "r", "{name}", "writer").Replace(rt.path), "{}", "Authorization: Bearer kimkimkimkimkimkim").expect(403, "no scope "+rt.scope)
	}
	b := newBench(t, func(o *Options) {
		o.Tokens = []config.Token{{Name: "kim", Value: "kimkimkimkimkimkim", Principal: config.Principal{Scopes: defaultScopes, Flows: []string{"tri*"}}}}
	})
	kim := "Authorization: Bearer kimkimkimkimkimkim"
	b.call("POST", "/runs", `{"flow": {"name": "triage"}}`, kim).expect(201, "triage-1")
	if p := b.runs.inputs["triage-1"].Principal; p == nil || p.Name != "kim" {
		t.Errorf("Principal = %v, want kim", p)
	}
	b.call("POST", "/runs", documentedStart, kim).expect(403, "may not start the flow")
	b.call("POST", "/runs", `{"flow": {"text": `+quote(triageFlow)+`}}`, kim).expect(403, "may not start the flow")
	b.call("POST", "/runs", `{"flow": {"name": "triage"}, "principal": {"name": "ceo"}}`, kim).expect(422, "principal")
}

// TestOpenRuns checks the limit of a token's open runs, for sequential and concurrent starts, with and without visibility lag.
func TestOpenRuns(t *testing.T) {
	kim, ops := "Authorization: Bearer kimkimkimkimkimkim", "Authorization: Bearer opsopsopsopsopsops"
	start := func(id string) string { return `{"id": "` + id + `", "flow": {"name": "triage"}}` }
	for _, stale := range []bool{false, true} {
		b := newBench(t, func(o *Options) {
			o.Tokens = []config.Token{{Name: "kim", Value: "kimkimkimkimkimkim", Principal: config.Principal{Scopes: defaultScopes, Open: 3, MaxBody: 1024}},
				{Name: "ops", Value: "opsopsopsopsopsops", Principal: config.Principal{Scopes: append([]string{config.ScopeAdminister}, defaultScopes...), Open: 1}}}
		})
		b.runs.stale = stale
		b.call("POST", "/runs", start("ended"), kim).expect(201, "")
		b.runs.end("ended", &contract.RunResult{}, nil)
		var codes [8]int
		var all sync.WaitGroup
		for i := range codes {
			all.Go(func() { codes[i] = b.call("POST", "/runs", start("r"+strconv.Itoa(i)), kim).Code })
		}
		all.Wait()
		slices.Sort(codes[:])
		if codes != [8]int{201, 201, 201, 429, 429, 429, 429, 429} {
			t.Errorf("stale list %v: status codes of eight concurrent starts = %v", stale, codes)
		}
		if refused := b.call("POST", "/runs", start("more"), kim).expect(429, "kim has 3 open runs").expect(429, "principals: {kim: {open_runs: N}}"); refused.Header().Get("Retry-After") == "" {
			t.Error("no Retry-After header")
		}
		for id := range b.runs.byID {
			if id != "ended" {
				b.call("POST", "/runs", start(id), kim).expect(201, id) // a repeated start does not count
				b.runs.end(id, &contract.RunResult{}, nil)
				break
			}
		}
		b.call("POST", "/runs", start("next"), kim).expect(201, "")
		b.call("POST", "/runs", start("theirs"), ops).expect(201, "") // runs of others do not count
		b.call("POST", "/runs", `{"id": "x", "flow": {"name": "triage"}, "input": "`+strings.Repeat("x", 1024)+`"}`, kim).expect(413, "exceeds 1024 bytes")
		b.runs.err = NewProblem(NoTemporal, "retry later", "Temporal does not answer")
		b.call("POST", "/runs", start("none"), ops).expect(503, "Temporal does not answer")
		if b.runs.byID["none"] != nil {
			t.Error("a run was started although open runs could not be counted")
		}
	}
}

// TestTokenLimits checks the limits of starts per minute and of event streams, which each token has separately.
func TestTokenLimits(t *testing.T) {
	b := newBench(t, func(o *Options) {
		o.Tokens = []config.Token{{Name: "kim", Value: "kimkimkimkimkimkim", Principal: config.Principal{Scopes: defaultScopes, Starts: 2, Streams: 1}}, {Name: "ann", Value: "annannannannannann", Principal: config.Principal{Scopes: defaultScopes, Starts: 2, Streams: 1}}}
	})
	kim, ann := "Authorization: Bearer kimkimkimkimkimkim", "Authorization: Bearer annannannannannann"
	start := func(id string) string { return `{"id": "` + id + `", "flow": {"name": "triage"}}` }
	b.call("POST", "/runs", start("a"), kim).expect(201, "")
	b.call("POST", "/runs", start("b"), kim).expect(201, "")
	if late := b.call("POST", "/runs", start("c"), kim).expect(429, "more than 2 runs per minute"); late.Header().Get("Retry-After") == "" {
		t.Error("no Retry-After header")
	}
	b.call("POST", "/runs", start("d"), ann).expect(201, "")
	ended, err := b.limits.stream(&b.Tokens[0])
	if err != nil {
		t.Fatal(err)
	}
	b.call("GET", "/runs/a/events", "", kim).expect(429, "has 1 open event streams")
	b.call("GET", "/runs/a?wait=1ms", "", kim).expect(429, "has 1 open event streams") // wait counts as a stream
	b.call("GET", "/runs/a", "", kim).expect(200, "")
	ended()
	if again, err := b.limits.stream(&b.Tokens[0]); err != nil {
		t.Error(err)
	} else {
		again()
	}
}

// TestConcurrentStarts checks that a run remains counted as open if a concurrent start with the same id fails before lists show the run.
func TestConcurrentStarts(t *testing.T) {
	b := newBench(t, func(o *Options) {
		o.Tokens = []config.Token{{Name: "kim", Value: "kimkimkimkimkimkim", Principal: config.Principal{Scopes: defaultScopes, Open: 2}}}
	})
	b.runs.stale = true
	b.call("POST", "/runs", `{"id": "r1", "flow": {"name": "triage"}}`, "Authorization: Bearer kimkimkimkimkimkim").expect(201, "")
	// The second of two concurrent starts does not find the run, reserves, and fails because the run already exists.
	failed, err := b.limits.reserve(t.Context(), b.runs, &b.Tokens[0], "r1")
	if err != nil {
		t.Fatal(err)
	}
	failed()
	b.call("POST", "/runs", `{"id": "r2", "flow": {"name": "triage"}}`, "Authorization: Bearer kimkimkimkimkimkim").expect(201, "")
	b.call("POST", "/runs", `{"id": "r3", "flow": {"name": "triage"}}`, "Authorization: Bearer kimkimkimkimkimkim").expect(429, "open_runs")
}

// TestPromptsCountAsStarts checks that each prompt for a session counts toward the token's starts per minute.
func TestPromptsCountAsStarts(t *testing.T) {
	b := newBench(t, func(o *Options) {
		o.Tokens = []config.Token{{Name: "kim", Value: "kimkimkimkimkimkim", Principal: config.Principal{Scopes: defaultScopes, Starts: 2}}}
	})
	kim := "Authorization: Bearer kimkimkimkimkimkim"
	started := b.call("POST", "/runs", `{"type": "start_session", "parameters": {"prompt": "one"}}`, kim).expect(201, "pending")
	b.runs.byID[started.field("run_id").(string)].IsTurn = true
	resume := `{"type": "resume_session", "session_id": "` + started.field("session_id").(string) + `", "parameters": {"prompt": "x"}}`
	b.call("POST", "/runs", resume, kim, "Idempotency-Key: k").expect(201, "")
	b.runs.turns = []contract.Turn{{N: 2, ID: b.runs.answers[0].(contract.PromptInput).ID}}
	b.call("POST", "/runs", resume, kim, "Idempotency-Key: k").expect(201, "") // a repeated prompt does not count
	b.call("POST", "/runs", resume, kim).expect(429, "more than 2 runs per minute")
}
