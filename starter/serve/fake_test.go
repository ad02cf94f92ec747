package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/specadapter"
	"weft/specadapter/drawing"
	"weft/starter/fork"
	"weft/starter/runs"
	"weft/starter/runtree"
	"weft/starter/serve/servetest"
	"weft/starter/transcript"
	"weft/worker/config"
	"weft/workflows/plan"
)

var noon = time.Date(2026, 1, 18, 10, 30, 0, 0, time.UTC)

// defaultScopes are the scopes of a token without configured scopes.
var defaultScopes = []string{config.ScopeStart, config.ScopeRead, config.ScopeAnswer, config.ScopeCancel}

// fakeRuns implements Runs without executing anything: the test sets the state of each run.
type fakeRuns struct {
	// flow is the flow of all runs; nil means that of tree's root.
	flow     *plan.Flow
	mu       sync.Mutex
	byID     map[string]*Run
	inputs   map[string]*contract.RunInput
	results  map[string]*contract.RunResult
	failures map[string]*contract.Failure
	status   *contract.Status
	lines    []transcript.Line
	turns    []contract.Turn
	events   []Event
	// answers are the received answers and prompts; err is the error that most methods return.
	answers []any
	err     error
	// followed counts calls of Follow that returned, awaits those of Await that started.
	followed, awaits atomic.Int32
	// resumeErr is the error of Resume only.
	resumeErr error
	// cancelled are the ids of runs that were cancelled.
	cancelled []string
	// tree is the tree of every run, forks are the options of the calls of Fork.
	tree  *runtree.Tree
	forks []fork.Options
	// stale makes List omit open runs, as Temporal's visibility may do for a while.
	stale bool
}

func newFake() *fakeRuns {
	return &fakeRuns{byID: map[string]*Run{}, inputs: map[string]*contract.RunInput{}, results: map[string]*contract.RunResult{},
		failures: map[string]*contract.Failure{}, status: &contract.Status{Status: "running", Executions: []contract.Execution{}}}
}

// add adds an open run.
func (f *fakeRuns) add(id string) *Run {
	run := &Run{Summary: runs.Summary{ID: id, Flow: "Triage", Status: "running", Started: noon.Add(-time.Minute)}}
	f.byID[id] = run
	return run
}

// end ends a run, with a result or a failure.
func (f *fakeRuns) end(id string, res *contract.RunResult, fail *contract.Failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// Callers of Find may still use the old value.
	run := *f.byID[id]
	at := noon
	run.Closed, run.Status = &at, "completed"
	if fail != nil {
		run.Status = "failed"
	}
	f.byID[id] = &run
	f.results[id], f.failures[id] = res, fail
}

func (f *fakeRuns) Start(_ context.Context, s *Start) (*Run, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if run := f.byID[s.ID]; run != nil {
		return run, true, nil
	}
	run := &Run{Hash: s.Hash, Summary: runs.Summary{ID: s.ID, Session: s.Session, Flow: s.Input.Flow.Plan.Name, Status: "running", Started: noon, Owner: s.Input.Principal.Value()}}
	f.byID[s.ID], f.inputs[s.ID] = run, s.Input
	return run, false, f.err
}

func (f *fakeRuns) Find(_ context.Context, id string) (*Run, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if run := f.byID[id]; run != nil {
		return run, nil
	}
	return nil, NewProblem(UnknownRun, "", "run %q not found", id)
}

func (f *fakeRuns) List(_ context.Context, filter runs.Filter, token string) ([]Run, string, error) {
	var out []Run
	if filter.Owner != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, id := range slices.Sorted(maps.Keys(f.byID)) {
			if run := f.byID[id]; !f.stale && run.Owner == *filter.Owner && run.Closed == nil && id > token {
				return []Run{*run}, id, f.err
			}
		}
		return nil, "", f.err
	}
	for i := len(token); i < 3 && len(out) < filter.Limit; i++ {
		out = append(out, Run{Summary: runs.Summary{ID: strconv.Itoa(i), Status: "running", Started: noon}})
	}
	next := ""
	if n := len(token) + len(out); n < 3 {
		next = strings.Repeat("x", n)
	}
	return out, next, f.err
}

func (f *fakeRuns) Await(ctx context.Context, run *Run) error {
	f.awaits.Add(1)
	if _, ok := ctx.Deadline(); ok {
		return errors.New("Await was called with a deadline")
	}
	for {
		if current, _ := f.Find(ctx, run.ID); current.Closed != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

func (f *fakeRuns) Outcome(_ context.Context, run *Run) (*contract.RunResult, *contract.Failure, error) {
	return f.results[run.ID], f.failures[run.ID], f.err
}

func (f *fakeRuns) Graph(context.Context, *Run) (*runs.Graph, error) {
	if f.err != nil {
		return nil, f.err
	}
	if f.flow != nil {
		return &runs.Graph{Flow: f.flow}, nil
	}
	return &runs.Graph{Flow: f.tree.Root().Flow, States: drawing.States{"a": {State: drawing.Done, Runs: 1}}}, nil
}

func (f *fakeRuns) Inputs(context.Context, *Run) (*plan.Inputs, error) {
	if f.flow == nil {
		return nil, f.err
	}
	return f.flow.Inputs, f.err
}

func (f *fakeRuns) Tree(context.Context, *Run) (*runtree.Tree, error) { return f.tree, f.err }

func (f *fakeRuns) StateOf(_ context.Context, _ *Run, execution string) (*runs.StateChange, error) {
	return &runs.StateChange{Before: []runs.StateValue{{Key: "asked", Value: json.RawMessage(`"` + execution + `"`)}}}, f.err
}

func (f *fakeRuns) Fork(_ context.Context, _ *Run, o fork.Options) (*contract.RunInput, error) {
	f.forks = append(f.forks, o)
	in := *f.tree.Root().Input
	if o.Flow != nil {
		in.Flow = contract.FlowRef{Plan: o.Flow.Flow}
	}
	return &in, f.err
}

func (f *fakeRuns) Status(context.Context, *Run) (*contract.Status, error) { return f.status, f.err }

func (f *fakeRuns) State(context.Context, *Run) (map[string]json.RawMessage, error) {
	return map[string]json.RawMessage{"month": json.RawMessage(`"May"`)}, f.err
}

func (f *fakeRuns) Transcript(context.Context, *Run) ([]transcript.Line, []string, error) {
	return append([]transcript.Line{}, f.lines...), []string{"run/lost#1"}, f.err
}

func (f *fakeRuns) Answer(_ context.Context, _ *Run, _ string, answer any) (*contract.Receipt, error) {
	f.answers = append(f.answers, answer)
	return &contract.Receipt{ID: "a", Status: "accepted"}, f.err
}

func (f *fakeRuns) Cancel(_ context.Context, run *Run) error {
	f.cancelled = append(f.cancelled, run.ID)
	return f.err
}

func (f *fakeRuns) Resume(_ context.Context, _ *Run, in contract.PromptInput) error {
	f.answers = append(f.answers, in)
	return cmp.Or(f.resumeErr, f.err)
}

func (f *fakeRuns) Stop(_ context.Context, run *Run, _ string) error {
	f.cancelled = append(f.cancelled, run.ID)
	return f.err
}

func (f *fakeRuns) Turns(context.Context, *Run) ([]contract.Turn, bool, error) {
	return f.turns, true, f.err
}

func (f *fakeRuns) CheckEvent(id string) error {
	if _, err := strconv.Atoi(id); id != "" && err != nil {
		return NewProblem(BadRequest, "", "invalid Last-Event-ID %q", id)
	}
	return nil
}

func (f *fakeRuns) Follow(ctx context.Context, run *Run, after string, send func(*Event) error) error {
	defer f.followed.Add(1)
	n, _ := strconv.Atoi(after)
	for i := n; i < len(f.events); i++ {
		e := f.events[i]
		e.ID = strconv.Itoa(i + 1)
		if err := send(&e); err != nil {
			return err
		}
	}
	return f.Await(ctx, run)
}

func (f *fakeRuns) Ready(context.Context) error { return f.err }

// bench is a server with fake runs and a temporary folder of flows and agents.
type bench struct {
	*testing.T
	*Server
	runs *fakeRuns
	dir  string
	mu   sync.Mutex
	logs bytes.Buffer
}

// logged returns what the server has logged.
func (b *bench) logged() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.logs.String()
}

// newBench returns a server with the documented agent and the flow triage in its folder; the
// changes are applied to its options.
func newBench(t *testing.T, changes ...func(o *Options)) *bench {
	b := &bench{T: t, runs: newFake(), dir: t.TempDir()}
	b.put("agents/parametric-agent/agent.json", parametricAgent)
	b.put("agents/parametric-agent/agent.system-prompt.md", "You write.")
	b.put("triage.json", triageFlow)
	o := Options{Runs: b.runs, Flows: config.Flows{Dir: b.dir}, NewID: func(name string) string { return strings.ToLower(name) + "-1" },
		Reading: func(dialect, profile string) specadapter.Options {
			return specadapter.Options{Dialect: dialect, Profile: profile}
		},
		Settings: config.Serve{MaxBody: 1 << 20, Profile: "default"},
		Log: func(format string, args ...any) {
			b.mu.Lock()
			defer b.mu.Unlock()
			fmt.Fprintf(&b.logs, format+"\n", args...)
		}}
	for _, change := range changes {
		change(&o)
	}
	b.Server = New(o)
	return b
}

const parametricAgent = `{"name": "parametric-agent", "description": "Agent with custom input parameters", "type": "autonomous", "tags": ["internal"],
 "parameters_schema": {"type": "object", "required": ["topic", "format"], "properties": {
   "topic": {"type": "string"}, "format": {"type": "string", "enum": ["summary", "bullet_points", "essay"]},
   "tags": {"type": "array", "items": {"type": "string"}}}, "additionalProperties": false}}`

const triageFlow = `{"name": "Triage", "nodes": [{"id": "a", "name": "A", "prompt": "Do.", "is_exit_node": true}],
 "edges": [{"id": "i", "source": "START", "target": "a"}, {"id": "o", "source": "a", "target": "END"}]}`

func (b *bench) put(name, text string) {
	b.Helper()
	name = filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
}

// response is a response that was checked against openapi.json.
type response struct {
	*httptest.ResponseRecorder
	t *testing.T
}

// call sends a request, with the body as JSON and headers of the form "Name: value".
func (b *bench) call(method, path, body string, headers ...string) *response {
	b.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "127.0.0.1:8765"
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if r.Header.Set(name, value); name == "Host" {
			r.Host = value
		}
	}
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	c, err := checker()
	if err == nil {
		err = c.Check(r, w.Result())
	}
	if err != nil {
		b.Error(err)
	}
	return &response{w, b.T}
}

// expect checks the status, and that the body contains part.
func (r *response) expect(status int, part string) *response {
	r.t.Helper()
	if r.Code != status || !strings.Contains(r.Body.String(), part) {
		r.t.Errorf("response = %d %s, want %d with %s", r.Code, r.Body, status, part)
	}
	return r
}

// field returns a value of the body by its dotted path; nil if it is absent or null.
func (r *response) field(path string) any {
	r.t.Helper()
	v := decodeJSON(r.t, r.Body.Bytes())
	for _, key := range strings.Split(path, ".") {
		m, ok := v.(map[string]any)
		if !ok || m[key] == nil {
			return nil
		}
		v = m[key]
	}
	return v
}

// checker returns the checker of responses against openapi.json.
var checker = sync.OnceValues(func() (*servetest.Checker, error) { return servetest.New(description) })

// checkSchema checks a JSON value against a schema of openapi.json.
func checkSchema(t *testing.T, schema, raw string) {
	t.Helper()
	c, err := checker()
	if err == nil {
		err = c.Schema(schema, []byte(raw))
	}
	if err != nil {
		t.Errorf("%s does not match schema %s: %v", raw, schema, err)
	}
}

// TestResponseChecker checks that the checker that these tests rely on detects values that do not match their schema.
func TestResponseChecker(t *testing.T) {
	for name, body := range map[string]string{
		"unknown field": `{"event_type": "result", "session_id": "s", "timestamp": "2026-01-18T10:30:00Z", "result_text": "x", "result_data": null, "more": 1}`,
		"text and data": `{"event_type": "result", "session_id": "s", "timestamp": "2026-01-18T10:30:00Z", "result_text": "x", "result_data": 1}`,
		"invalid time":  `{"event_type": "result", "session_id": "s", "timestamp": "today", "result_text": "x", "result_data": null}`,
	} {
		c, err := checker()
		if err != nil {
			t.Fatal(err)
		}
		if c.Schema("ResultEvent", []byte(body)) == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

var errStrange = errors.New("strange")
