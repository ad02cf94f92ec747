package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"weft/activities"
	"weft/activities/contract"
	"weft/specadapter"
	"weft/worker/host"
	"weft/workflows"
	"weft/workflows/plan"
)

func TestSpreadOf(t *testing.T) {
	tests := map[string]struct {
		in   []float64
		want spread
	}{
		"nothing":         {in: nil, want: spread{}},
		"an odd number":   {in: []float64{3, 1, 2}, want: spread{1, 2, 3}},
		"an even number":  {in: []float64{4, 1, 2, 3}, want: spread{1, 2.5, 4}},
		"one measurement": {in: []float64{7}, want: spread{7, 7, 7}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(tc.in)
			if got := spreadOf(tc.in); got != tc.want {
				t.Errorf("spreadOf(%v) = %v, want %v", tc.in, got, tc.want)
			}
			if !slices.Equal(before, tc.in) {
				t.Errorf("the argument was sorted: %v", tc.in)
			}
		})
	}
}

func TestQuantile(t *testing.T) {
	v := []float64{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0: 1, 0.5: 3, 0.99: 5, 1: 5} {
		if got := quantile(v, q); got != want {
			t.Errorf("quantile(%v) = %v, want %v", q, got, want)
		}
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("quantile of an empty list is %v", got)
	}
}

func TestTable(t *testing.T) {
	tests := map[string]struct {
		ours, twin []float64
		show       func(float64) string
		limit      float64
		want       string
	}{
		"within the limit":  {[]float64{10, 11, 12}, []float64{10, 10, 10}, whole, 1.15, "row 11 10 1.00 / 1.10 / 1.20 <= 1.15 ok"},
		"over the limit":    {[]float64{13}, []float64{10}, whole, 1.05, "row 13 10 1.30 / 1.30 / 1.30 <= 1.05 OVER"},
		"no limit":          {[]float64{2.5e6}, []float64{1.25e6}, nanos, 0, "row 2.50 ms 1.25 ms 2.00 / 2.00 / 2.00"},
		"unmeasurable twin": {[]float64{3 << 20}, []float64{0}, bytes, 1, "row 3.00 MiB 0 B -"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			(&table{out: &b}).row("row", tc.ours, tc.twin, tc.show, tc.limit)
			if got := strings.Join(strings.Fields(b.String()), " "); got != tc.want {
				t.Errorf("row prints %q, want %q", got, tc.want)
			}
		})
	}
}

// asked is the content of a model call, which must be the same on both sides.
type asked struct{ Node, System, Text string }

// play runs a side with a model that records its calls.
func play(t *testing.T, s start) []asked {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet)
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute}) // the machine may be busy
	env.SetTestTimeout(4 * time.Minute)
	workflows.Register(env)
	registerTwins(env)
	var mu sync.Mutex
	var calls []asked
	said, profiles := map[string]string{}, map[string]json.RawMessage{}
	env.RegisterActivityWithOptions(func(_ context.Context, in contract.ModelInput) (*contract.ModelResult, error) {
		mu.Lock()
		defer mu.Unlock()
		var p contract.Profile
		if in.Profile.Body != nil {
			profiles[in.Profile.SHA] = in.Profile.Body
		}
		if err := json.Unmarshal(profiles[in.Profile.SHA], &p); err != nil {
			return nil, err
		}
		m, err := contract.DecodeMessage(in.Tail[len(in.Tail)-1].Message)
		if err != nil {
			return nil, err
		}
		text := m.Text
		for _, part := range m.Parts {
			own := part.Text
			if part.Ref != nil {
				own = said[part.Ref.SHA]
			}
			text += part.Shown(own)
		}
		calls = append(calls, asked{p.Node, p.System, text})
		answer := contract.Message{Role: contract.RoleAssistant, Text: p.Node + " is done"}
		raw, err := answer.Encode()
		said[contract.SHA(raw)] = answer.Text
		return &contract.ModelResult{Message: raw}, err
	}, activity.RegisterOptions{Name: contract.ActivityCallModel})
	env.RegisterActivityWithOptions(activities.New(activities.Deps{Begin: host.Begin}).CompileFlow, activity.RegisterOptions{Name: contract.ActivityCompileFlow})
	env.ExecuteWorkflow(s.kind, s.input)
	if err := env.GetWorkflowError(); err != nil {
		t.Fatalf("%s: %v", s.kind, err)
	}
	slices.SortFunc(calls, func(a, b asked) int { return strings.Compare(a.Node+"\n"+a.Text, b.Node+"\n"+b.Text) })
	return calls
}

// TestTwinsMakeSameCalls checks that both sides make the same model calls, without which the ratios are meaningless.
func TestTwinsMakeSameCalls(t *testing.T) {
	chains, err := threeChains()
	if err != nil {
		t.Fatal(err)
	}
	fork, err := manyBranches(5)
	if err != nil {
		t.Fatal(err)
	}
	each, err := mapOver(25)
	if err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string]workload{"ten calls": tenCalls(), "three chains": chains, "a fork": fork, "a map": each} {
		t.Run(name, func(t *testing.T) {
			ours, twin := play(t, w.ours), play(t, w.twin)
			if len(ours) != w.steps {
				t.Errorf("%d model calls, want %d", len(ours), w.steps)
			}
			sortOutputs(ours)
			sortOutputs(twin)
			if diff := cmp.Diff(twin, ours); diff != "" {
				t.Errorf("model calls (-twin +ours):\n%s", diff)
			}
		})
	}
}

// sortOutputs sorts earlier answers, which ours orders by step and the twin by branch.
func sortOutputs(calls []asked) {
	for i := range calls {
		parts := strings.Split(calls[i].Text, "\n\n<output")
		slices.Sort(parts[1:])
		calls[i].Text = strings.Join(parts, "\n\n<output")
	}
}

func TestWorkloadPlans(t *testing.T) {
	loop, err := agentLoop(3)
	if err != nil {
		t.Fatal(err)
	}
	talk, err := monologue(3)
	if err != nil {
		t.Fatal(err)
	}
	wait, err := waiting()
	if err != nil {
		t.Fatal(err)
	}
	each, err := mapOver(3)
	if err != nil {
		t.Fatal(err)
	}
	large, err := wideFork(3, wideBytes)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]start{"ten": tenCalls().ours, "loop": loop.ours, "monologue": talk, "waiting": wait.ours, "map": each.ours, "wide": large.ours, "killed": killed(2, 3)} {
		in, ok := s.input.(contract.RunInput)
		if !ok || s.kind != contract.WorkflowFlow {
			t.Fatalf("%s: starts %s with %T", name, s.kind, s.input)
		}
		if p := in.Flow.Plan.Check(); len(p) > 0 {
			t.Errorf("%s: %v", name, p)
		}
		if in.Model == "" {
			t.Errorf("%s has no model: the run would call an activity to choose one", name)
		}
	}
}

func TestDocumentsLoad(t *testing.T) {
	for _, d := range documents {
		t.Run(d.name, func(t *testing.T) {
			raw, edges := d.make(50)
			out, diags := specadapter.Load("bench.json", raw, specadapter.Options{})
			if out == nil {
				t.Fatalf("diagnostics: %v", diags)
			}
			if len(out.Flow.Nodes) != 50 || len(out.Flow.Edges) != edges {
				t.Errorf("%d nodes and %d edges, want 50 and %d", len(out.Flow.Nodes), len(out.Flow.Edges), edges)
			}
		})
	}
}

func TestModelServer(t *testing.T) {
	m, err := serveModel(3, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.close)
	ask := func(ctx context.Context, key string, turn int) string {
		body := `{"messages":[{"role":"user"}` + strings.Repeat(`,{"role":"assistant"},{"role":"tool"}`, turn-1) + `]}`
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url+"/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return ""
		}
		req.Header.Set("Idempotency-Key", key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return "gone"
		}
		defer res.Body.Close()
		var raw strings.Builder
		_, _ = fmt.Fprint(&raw, res.StatusCode)
		buf := make([]byte, 4096)
		n, _ := res.Body.Read(buf)
		return raw.String() + " " + string(buf[:n])
	}
	if got := ask(t.Context(), "one", 1); !strings.Contains(got, plan.BuiltinListStateKeys) {
		t.Errorf("response to call 1 is %q", got)
	}
	ctx, crash := context.WithCancel(t.Context())
	gone := make(chan string)
	go func() { gone <- ask(ctx, "two", 2) }()
	<-m.held
	crash()
	if got := <-gone; got != "gone" {
		t.Errorf("response to the blocked call is %q", got)
	}
	if got := ask(t.Context(), "two", 2); !strings.Contains(got, "tool_calls") {
		t.Errorf("response to the repeated call is %q", got)
	}
	if got := ask(t.Context(), "three", 3); !strings.Contains(got, "done") || !strings.HasSuffix(got, "[DONE]\n\n") {
		t.Errorf("response to the last call is %q", got)
	}
	c := m.counts()
	if c.calls != 3 || c.repeated != 1 || c.again.IsZero() || c.next.Before(c.again) {
		t.Errorf("counts are %+v", c)
	}
}

func TestCountsGrown(t *testing.T) {
	recorded := counts{"a": 100, "b": 100, "gone": 5}
	got := counts{"a": 109, "b": 111, "new": 7}.grown(recorded)
	if want := []string{"b: 111.00, recorded are 100.00"}; !slices.Equal(got, want) {
		t.Errorf("grown = %q, want %q", got, want)
	}
	for row, want := range map[string]bool{"history bytes per step": true, "those not about workflow tasks": true, "wall time": false, "history events, children included": false} {
		if isCounted(row) != want {
			t.Errorf("isCounted(%q) = %t", row, !want)
		}
	}
}
