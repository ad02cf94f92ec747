package dialects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/specadapter"
	"weft/specadapter/source"
	"weft/tests/harness"
	"weft/tests/programs"
	"weft/worker/config"
)

// elsewhereTools returns the tool settings of examples/elsewhere/weft.yml for this task queue, and the
// tool nobody, whose task queue has no worker.
func elsewhereTools(t *testing.T, queue string) tool.Settings {
	t.Helper()
	cfg, err := config.Load(config.Options{File: "../examples/elsewhere/weft.yml"})
	if err != nil {
		t.Fatal(err)
	}
	settings, err := cfg.Tool()
	if err != nil {
		t.Fatal(err)
	}
	for name, a := range settings.Activities {
		a.TaskQueue = queue
		settings.Activities[name] = a
	}
	settings.Activities["nobody"] = tool.Activity{TaskQueue: queue + "-empty", StartTimeout: time.Second}
	return settings
}

// stockPlan compiles a flow for a worker that has the tools of [elsewhereTools].
func stockPlan(t *testing.T, text string) contract.FlowRef {
	t.Helper()
	res, diags := specadapter.Load("stock.json", []byte(text), specadapter.Options{
		Host: source.Host{UnboundTools: map[string]bool{"count": true, "reserve": true, "nobody": true}, Connections: map[string]bool{}},
	})
	if res == nil {
		t.Fatal(diags)
	}
	return contract.FlowRef{Plan: res.Flow, Source: &res.Source}
}

// TestEndToEndRecordExternalActivities runs a flow whose tools are activities of a worker that does not use Weft.
func TestEndToEndRecordExternalActivities(t *testing.T) {
	t.Parallel()
	address := harness.ServerAddress(t)
	queue := fmt.Sprintf("elsewhere-%d", time.Now().UnixNano())
	bin := filepath.Join(t.TempDir(), "elsewhere")
	if out, err := exec.Command("go", "build", "-o", bin, "../examples/elsewhere").CombinedOutput(); err != nil {
		t.Fatalf("build examples/elsewhere: %v\n%s", err, out)
	}
	other := exec.Command(bin, "-task-queue", queue+"-stock")
	other.Env = append(programs.CleanEnv(), "TEMPORAL_ADDRESS="+address)
	other.Stderr = programs.Log(t, "elsewhere")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })

	tools, err := tool.Open(elsewhereTools(t, queue+"-stock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tools.Close)
	h := &harness.Worker{Client: harness.Dial(t, address), Queue: queue}
	t.Cleanup(harness.RunWorker(t, h.Client, queue, 0, tools).Stop)

	run := h.Start(t, contract.RunInput{Flow: stockPlan(t, harness.ReadFile(t, "../examples/elsewhere/stock.json")), Script: harness.Script(t, harness.ReadFile(t, "../examples/elsewhere/stock.script"))})
	out, err := harness.Result(t, run)
	if err != nil || *out.ResultText != "Two of twelve apples are reserved." {
		t.Fatalf("result = %+v, %v", out, err)
	}
	want := []string{
		`!there are no "pears", only apples`, `{"item":"apples","pieces":12}`,
		"reserved 2 apples, reference " + run.GetRunID() + "/clerk#1/tool/2.2",
	}
	if got := queryToolReplies(t, h.Client, run, "clerk#1"); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("tool replies:\n%s", strings.Join(got, "\n"))
	}

	harness.Record(t, h.Client, "elsewhere", run.GetID(), run.GetRunID())

	run = h.Start(t, contract.RunInput{Flow: stockPlan(t, harness.OneNode(`,"tools":[{"name":"nobody"}]`)), Script: harness.Script(t, "rules: [{turn: 1, call: {tool: nobody}}, {say: nobody is there}]")})
	if out, err = harness.Result(t, run); err != nil || *out.ResultText != "nobody is there" {
		t.Fatalf("result = %+v, %v", out, err)
	}
	want = []string{fmt.Sprintf(`!no worker accepted the call within 1 seconds: no worker polls the task queue %q, or all are busy`, queue+"-stock-empty")}
	if got := queryToolReplies(t, h.Client, run, "a#1"); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("tool replies:\n%s", strings.Join(got, "\n"))
	}
	harness.Record(t, h.Client, "elsewhere-nobody", run.GetID(), run.GetRunID())
}

// TestExternalActivityResults checks that results and errors of external activities are returned to the model,
// and that failures of the contract's classes are handled as for any tool.
func TestExternalActivityResults(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	keys := map[string]int{}
	tests := map[string]struct {
		fn    any
		cfg   tool.Activity
		reply string
		class string
	}{
		"a text":                  {fn: func(context.Context, map[string]any) (string, error) { return "as <it> is", nil }, reply: "as <it> is"},
		"JSON":                    {fn: func(context.Context, map[string]any) ([]string, error) { return []string{"<a>"}, nil }, reply: `["<a>"]`},
		"nothing":                 {fn: func(context.Context, map[string]any) error { return nil }, reply: ""},
		"arguments":               {fn: func(_ context.Context, in json.RawMessage) (string, error) { return string(in), nil }, reply: `{"n":7}`},
		"an error":                {fn: func(context.Context, map[string]any) (string, error) { return "", errors.New("no luck") }, reply: "!no luck"},
		"an error, without retry": {fn: func(context.Context, map[string]any) (string, error) { return "", errors.New("no luck") }, cfg: tool.Activity{Retry: "never"}, reply: "!no luck"},
		"a failure with a class": {
			fn: func(context.Context, map[string]any) (string, error) {
				return "", (&contract.Failure{Class: contract.ClassUnavailable, Text: "the line is dead"}).ApplicationError()
			},
			cfg: tool.Activity{Retry: "never"}, reply: "!outcome unknown: the line is dead; the call may have taken effect and is not retried: check whether it has before you repeat it",
		},
		"a failure for the operator": {
			fn: func(context.Context, map[string]any) (string, error) {
				return "", (&contract.Failure{Class: contract.ClassDenied, Text: "expired"}).ApplicationError()
			},
			class: contract.ClassDenied,
		},
		"same key for all attempts": {
			fn: func(_ context.Context, _ map[string]any, key contract.CallKey) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				if keys[key.IdempotencyKey]++; keys[key.IdempotencyKey] < 3 {
					return "", errors.New("busy")
				}
				return strings.Join(slices.Collect(maps.Keys(keys)), " "), nil
			},
			cfg: tool.Activity{Key: true}, reply: "default-test-run-id/a#1/tool/1.1",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.cfg.TaskQueue, tc.cfg.Activity = "other", "Other"
			p := harness.TestRun{
				Script:       `rules: [{turn: 1, call: {tool: nobody, arguments: {n: 7}}}, {say: done}]`,
				ToolSettings: tool.Settings{Activities: map[string]tool.Activity{"nobody": tc.cfg}},
				Prepare: func(env *testsuite.TestWorkflowEnvironment) {
					env.RegisterActivityWithOptions(tc.fn, activity.RegisterOptions{Name: "Other"})
				},
				SetInput: func(in *contract.RunInput) {
					in.Flow, in.OnError = stockPlan(t, harness.OneNode(`,"tools":[{"name":"nobody"}]`)), contract.OnErrorFail
				},
			}.Execute(t)
			if got := harness.FailureClass(p.Err); got != tc.class {
				t.Fatalf("class %q, want %q: %v", got, tc.class, p.Err)
			}
			if tc.class != "" {
				return
			}
			if got := toolReplies(t, p, "a#1"); len(got) != 1 || got[0] != tc.reply {
				t.Errorf("tool reply = %q, want %q", got, tc.reply)
			}
		})
	}
}

// TestExternalActivitySettings checks that weft.yml determines how an external activity is called and described.
func TestExternalActivitySettings(t *testing.T) {
	t.Parallel()
	tools, err := tool.Open(elsewhereTools(t, "q"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tools.Close)
	act, spec, err := tools.ExternalActivity("count")
	if err != nil || act.Activity != "CountStock" || act.TaskQueue != "q" || act.StartSeconds != 60 || act.Attempts != 3 || act.IdempotencyKey {
		t.Errorf("activity = %+v, %v", act, err)
	}
	if !strings.Contains(spec.Description, "how many pieces") || !json.Valid(spec.Schema) {
		t.Errorf("spec = %+v", spec)
	}
}
