package dialects

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"weft/activities"
	"weft/activities/contract"
	"weft/activities/tool"
	"weft/tests/harness"
	"weft/tests/programs"
	"weft/workflows/plan"
)

// picnic returns a run of the flow in examples/embed, whose tools are Go functions of the worker.
func picnic(t *testing.T) harness.TestRun {
	return harness.TestRun{Document: harness.ReadFile(t, "../examples/embed/picnic.json"), Script: harness.ReadFile(t, "../examples/embed/picnic.script"),
		Input: "a picnic", Functions: exampleFunctions}
}

func TestFunctionsAsTools(t *testing.T) {
	t.Parallel()
	p := picnic(t).Execute(t)
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	want := []string{
		`!there is no forecast for "Bergen", only for Oslo`,
		`!arguments: $: additionalProperties 'town' not allowed; $: missing properties: 'city'`,
		`{"degrees":22,"sky":"clear"}`, "a table for 4 in Frogner",
	}
	if got := toolReplies(t, p, "plan#1"); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("tool replies:\n%s", strings.Join(got, "\n"))
	}
}

// partialRollout routes the first tool calls to a worker without functions, as during a rollout.
type partialRollout struct {
	worker.ActivityRegistry
	old   *activities.Activities
	calls *atomic.Int32
	first int32
}

// RegisterActivityWithOptions replaces the activity that calls tools.
func (h partialRollout) RegisterActivityWithOptions(fn any, o activity.RegisterOptions) {
	if next, ok := fn.(func(context.Context, contract.ToolInput, *contract.Grant) (*contract.ToolResult, error)); ok && o.Name == contract.ActivityCallTool {
		fn = func(ctx context.Context, in contract.ToolInput, g *contract.Grant) (*contract.ToolResult, error) {
			if h.calls.Add(1) <= h.first {
				return h.old.CallTool(ctx, in)
			}
			return next(ctx, in, g)
		}
	}
	h.ActivityRegistry.RegisterActivityWithOptions(fn, o)
}

// TestFunctionsDuringRollout checks that a call that reaches a worker of an older build, without the function, is retried.
func TestFunctionsDuringRollout(t *testing.T) {
	t.Parallel()
	none, err := tool.Open(tool.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(none.Close)
	var calls atomic.Int32
	r := picnic(t)
	r.Wrap = func(to worker.ActivityRegistry) worker.ActivityRegistry {
		return partialRollout{to, activities.New(activities.Deps{Tools: none}), &calls, 2}
	}
	p := r.Execute(t)
	if p.Err != nil || *p.Result.ResultText != "Tomorrow, 22 degrees, a table for four in Frogner." {
		t.Fatalf("result = %+v, %v", p.Result, p.Err)
	}
	if calls.Load() != 6 {
		t.Errorf("%d calls, want 6: four of the script and two retries", calls.Load())
	}
}

// TestFunctionsWithoutRetry checks that a call with an unknown outcome is not retried if its function has
// the option RetryNever, unlike calls of other functions of the connection.
func TestFunctionsWithoutRetry(t *testing.T) {
	t.Parallel()
	counts := map[string]*atomic.Int32{"charge": {}, "look": {}}
	failsOnce := func(name string) func(context.Context, struct{}) (string, error) {
		return func(context.Context, struct{}) (string, error) {
			if counts[name].Add(1) == 1 {
				return "", &contract.Failure{Class: contract.ClassUnavailable, Text: "the line is dead"}
			}
			return name + " done", nil
		}
	}
	p := harness.TestRun{
		Document:  harness.OneNode(`,"tools":[{"name":"charge"},{"name":"look"}]`),
		Script:    `rules: [{turn: 1, call: [{tool: charge}, {tool: look}]}, {say: done}]`,
		Functions: []tool.Function{tool.Func("charge", "", failsOnce("charge"), tool.RetryNever()), tool.Func("look", "", failsOnce("look"))},
	}.Execute(t)
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	want := "!outcome unknown: the line is dead; the call may have taken effect and is not retried: check whether it has before you repeat it\nlook done"
	if got := strings.Join(toolReplies(t, p, "a#1"), "\n"); got != want || counts["charge"].Load() != 1 || counts["look"].Load() != 2 {
		t.Errorf("tool replies:\n%s", got)
	}
}

// TestUnknownOutcome checks that a call with an unknown outcome of a function with RetryNever is retried only if the operator
// allows it, in the settings or by answering a request.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	const unknown = "!outcome unknown: the line is dead; the call may have taken effect and is not retried: check whether it has before you repeat it"
	tests := map[string]struct {
		retry, onError string
		giveUp         bool
		calls          int32
		reply          string
		asked          bool
	}{
		"default":                {calls: 1, reply: unknown},
		"never":                  {retry: "never", calls: 1, reply: unknown},
		"always":                 {retry: "always", calls: 2, reply: "paid"},
		"ask, operator retries":  {retry: "ask", asked: true, calls: 2, reply: "paid"},
		"ask, operator gives up": {retry: "ask", asked: true, giveUp: true, calls: 1, reply: strings.Replace(unknown, ";", " (given up: no);", 1)},
		"ask, on_error is fail":  {retry: "ask", onError: contract.OnErrorFail, calls: 1, reply: unknown},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			asked := false
			p := harness.TestRun{
				Document: harness.OneNode(`,"tools":[{"name":"pay"}]`), Script: `rules: [{turn: 1, call: {tool: pay}}, {say: done}]`,
				Functions: []tool.Function{tool.Func("pay", "", func(context.Context, struct{}) (string, error) {
					if calls.Add(1) == 1 {
						return "", &contract.Failure{Class: contract.ClassUnavailable, Text: "the line is dead"}
					}
					return "paid", nil
				}, tool.RetryNever())},
				ToolSettings: tool.Settings{Tools: map[string]string{"pay": "here"}, Connections: map[string]tool.Connection{"here": {Transport: tool.TransportLocal, Retry: tc.retry}}},
				SetInput:     func(in *contract.RunInput) { in.OnError = tc.onError },
				Prepare: func(env *testsuite.TestWorkflowEnvironment) {
					harness.AtTime(env, 3*time.Hour, func() {
						var status contract.Status
						harness.Query(t, env, contract.QueryStatus, &status)
						for _, q := range status.Requests {
							asked = true
							env.SignalWorkflow(contract.RequestRetry, contract.RetryAnswer{ID: q.ID, GiveUp: tc.giveUp, Reason: "no"})
						}
					})
				},
			}.Execute(t)
			if p.Err != nil {
				t.Fatal(p.Err)
			}
			if got := strings.Join(toolReplies(t, p, "a#1"), "\n"); got != tc.reply || calls.Load() != tc.calls || asked != tc.asked {
				t.Errorf("%d calls, operator asked: %v, tool reply %q", calls.Load(), asked, got)
			}
		})
	}
}

func TestMissingFunctions(t *testing.T) {
	t.Parallel()
	r := picnic(t)
	r.Document = strings.Replace(r.Document, `"name": "weather"`, `"name": "wether"`, 1)
	p := r.Execute(t)
	if p.Err == nil || p.Err.Class != contract.ClassInvalidFlow || !strings.Contains(strings.Join(p.Err.Diagnostics, "\n"),
		"flow.json:11:17: error: the tool \"wether\" of node \"plan\" has no data_connection_id [V10]\n\tdid you mean \"weather\"?") {
		t.Errorf("failure = %#v", p.Err)
	}
	// A plan compiled for another worker.
	r = picnic(t)
	r.SetInput = func(in *contract.RunInput) {
		compiled, err := harness.CompileWith(exampleFunctions...)(in.Flow)
		if err != nil {
			t.Fatal(err)
		}
		compiled.Plan.Nodes[0].Agent.Tools = append(compiled.Plan.Nodes[0].Agent.Tools, plan.Tool{Name: "swim", As: "swim"})
		in.Flow = contract.FlowRef{Plan: compiled.Plan, Source: &compiled.Source}
	}
	p = r.Execute(t)
	if p.Err == nil || p.Err.Class != contract.ClassConnection ||
		!strings.Contains(p.Err.Text, `tool "swim" is not bound to a connection; available connections: web; functions of the worker: reserve, weather`) {
		t.Errorf("failure = %#v", p.Err)
	}
}

// TestReadmeProgramBuilds checks that the program in worker/README.md compiles.
func TestReadmeProgramBuilds(t *testing.T) {
	t.Parallel()
	_, rest, ok := strings.Cut(harness.ReadFile(t, "../../worker/README.md"), "```go\n")
	program, _, ok2 := strings.Cut(rest, "```")
	root, err := filepath.Abs("../..")
	if !ok || !ok2 || err != nil || !strings.HasPrefix(program, "package main") {
		t.Fatalf("worker/README.md contains no program: %q, %v", program, err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"main.go": program, "go.sum": harness.ReadFile(t, "../examples/embed/go.sum"),
		"go.mod": strings.Replace(harness.ReadFile(t, "../examples/embed/go.mod"), "=> ../../..", "=> "+root, 1)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "vet", ".")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the program in worker/README.md: %v\n%s", err, out)
	}
}

// TestEndToEndFunctionHeartbeats checks that the worker sends heartbeats for a slow function, and that
// the function's context is cancelled with its run.
func TestEndToEndFunctionHeartbeats(t *testing.T) {
	t.Parallel()
	entered, ctxErrs := make(chan string, 9), make(chan error, 9)
	functions := []tool.Function{
		tool.Func("slow", "", func(context.Context, struct{}) (string, error) {
			entered <- "slow"
			time.Sleep(2500 * time.Millisecond)
			return "slept", nil
		}),
		tool.Func("forever", "", func(ctx context.Context, _ struct{}) (string, error) {
			entered <- "forever"
			<-ctx.Done()
			ctxErrs <- ctx.Err()
			return "", ctx.Err()
		}),
	}
	tools, err := tool.Open(tool.Settings{Functions: functions})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tools.Close)
	h := &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("functions-%d", time.Now().UnixNano())}
	t.Cleanup(harness.RunWorker(t, h.Client, h.Queue, 0, tools).Stop)
	run := func(name string) client.WorkflowRun {
		compiled, err := harness.CompileWith(functions...)(contract.FlowRef{Text: harness.OneNode(`,"tools":[{"name":"` + name + `"}]`), Name: "one.json"})
		if err != nil {
			t.Fatal(err)
		}
		compiled.Plan.Policy.HeartbeatSeconds = 1
		return h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: compiled.Plan}, Script: harness.Script(t, "rules: [{turn: 1, call: [{tool: "+name+"}]}, {after: slow, contains: slept, say: done}]")})
	}
	out, err := harness.Result(t, run("slow"))
	if err != nil || *out.ResultText != "done" || len(entered) != 1 {
		t.Errorf("the slow tool was called %d times: %+v, %v", len(entered), out, err)
	}
	cancelled := run("forever")
	for name := ""; name != "forever"; name = <-entered {
	}
	if err := h.Client.CancelWorkflow(context.Background(), cancelled.GetID(), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := harness.Result(t, cancelled); !contract.Cancelled(err) {
		t.Errorf("cancelled run ended with %v", err)
	}
	select {
	case err := <-ctxErrs:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("context error of the function = %v, want context.Canceled", err)
		}
	case <-time.After(time.Minute):
		t.Error("the context of the function was not cancelled")
	}
}

// TestEndToEndEmbed runs the flow in examples/embed on the worker there, a separate module, built and started as a user
// would. It also checks that this worker reports a missing Temporal server like any other.
func TestEndToEndEmbed(t *testing.T) {
	t.Parallel()
	address := harness.ServerAddress(t)
	bin := filepath.Join(t.TempDir(), "embed")
	build := exec.Command("go", "build", "-o", bin, ".")
	build.Dir = "../examples/embed"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build examples/embed: %v\n%s", err, out)
	}
	alone := exec.Command(bin)
	alone.Dir, alone.Env = t.TempDir(), append(programs.CleanEnv(), "TEMPORAL_ADDRESS=127.0.0.1:1")
	output, err := alone.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.HasPrefix(string(output), "worker: no Temporal at 127.0.0.1:1") {
		t.Errorf("without a Temporal server the worker exited with %v: %s", err, output)
	}
	queue := fmt.Sprintf("embed-%d", time.Now().UnixNano())
	cmd := exec.Command(bin, "-task-queue", queue)
	cmd.Dir, cmd.Env = t.TempDir(), append(programs.CleanEnv(), "TEMPORAL_ADDRESS="+address, "WEFT_MODEL=script")
	log := programs.Log(t, "embed")
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	h := &harness.Worker{Client: harness.Dial(t, address), Queue: queue}
	flow := contract.FlowRef{Text: harness.ReadFile(t, "../examples/embed/picnic.json"), Name: "picnic.json"}
	run := h.Start(t, contract.RunInput{Flow: flow, Script: harness.Script(t, harness.ReadFile(t, "../examples/embed/picnic.script"))})
	out, err := harness.Result(t, run)
	if err != nil || *out.ResultText != "Tomorrow, 22 degrees, a table for four in Frogner." {
		t.Fatalf("result = %+v, %v", out, err)
	}
	want := []string{
		`!there is no forecast for "Bergen", only for Oslo`,
		`!arguments: $: additionalProperties 'town' not allowed; $: missing properties: 'city'`,
		`{"sky":"clear","degrees":22}`,
		"a table for 4 in Frogner, reference " + run.GetRunID() + "/plan#1/tool/3.1",
	}
	if got := queryToolReplies(t, h.Client, run, "plan#1"); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("tool replies:\n%s", strings.Join(got, "\n"))
	}
	if text := harness.ReadFile(t, log.Name()); !strings.Contains(text, "worker: functions: reserve, weather\n") {
		t.Errorf("log of the worker: %s", text)
	}

	flow.Text = strings.Replace(flow.Text, `"name": "weather"`, `"name": "swim"`, 1)
	_, err = harness.Result(t, h.Start(t, contract.RunInput{Flow: flow}))
	if f := contract.FailureOf(err); f == nil || f.Class != contract.ClassInvalidFlow || !strings.Contains(f.Text, "tools that need no connection here: \"reserve\", \"weather\"") {
		t.Errorf("unknown tool: failure = %+v", f)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("interrupted worker exited with %v", err)
	}
}

// queryToolReplies queries a run for the texts of a thread's tool messages, with ! before errors.
func queryToolReplies(t *testing.T, c client.Client, run client.WorkflowRun, thread string) []string {
	t.Helper()
	v, err := c.QueryWorkflow(context.Background(), run.GetID(), run.GetRunID(), contract.QueryTranscript, contract.TranscriptQuery{Thread: thread})
	if err != nil {
		t.Fatal(err)
	}
	var page contract.TranscriptPage
	if err := v.Get(&page); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, raw := range page.Messages {
		m, err := contract.DecodeMessage(raw)
		if err != nil {
			t.Fatal(err)
		}
		if m.Role == contract.RoleTool {
			text := m.Text
			if m.Error {
				text = "!" + text
			}
			out = append(out, text)
		}
	}
	return out
}
