package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/tests/programs"
	"weft/workflows/plan"
)

// clientPrograms runs the programs of tests/clients against a server and a worker that calls a model over
// HTTP.
type clientPrograms struct {
	dir, address string
	client       client.Client
}

func newClientPrograms(t *testing.T) *clientPrograms {
	t.Helper()
	worker := programs.Path(t, "WEFT_WORKER")
	e := &clientPrograms{dir: t.TempDir(), address: harness.StartServer(t, "-db", ":memory:", "-port=0").Address}
	for name, text := range map[string]string{"one.json": harness.OneNode(""), "bad.json": strings.Replace(harness.OneNode(""), `"target":"a"`, `"target":"nobody"`, 1), "flows/kept.json": harness.OneNode(""),
		"mail.json": harness.OneNode(`,"tools":[{"name":"send_mail","data_connection_id":"web"}]`)} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(e.dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(e.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(worker)
	cmd.Dir = t.TempDir()
	cmd.Env = append(programs.CleanEnv(), "TEMPORAL_ADDRESS="+e.address, "WEFT_MODEL=fake/m", "WEFT_FLOWS_DIR="+filepath.Join(e.dir, "flows"),
		"WEFT_CONFIRM_MAIL_TOOLS=send_*", "WEFT_PROVIDERS_FAKE_KIND=compatible", "WEFT_PROVIDERS_FAKE_BASE_URL="+newModelServer(t).url)
	cmd.Stderr = programs.Log(t, "worker")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	e.client = harness.Dial(t, e.address)
	return e
}

// run runs a program in a folder and returns its output.
func (e *clientPrograms) run(t *testing.T, dir string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, append(programs.CleanEnv(), "TEMPORAL_ADDRESS="+e.address)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// check runs a program with a valid flow and with an invalid one.
func (e *clientPrograms) check(t *testing.T, dir, wantInvalid string, program ...string) {
	t.Helper()
	out, errs, err := e.run(t, dir, append(program, filepath.Join(e.dir, "one.json"), "hello")...)
	if err != nil || out != "turn 4\n" {
		t.Errorf("program printed %q: %v\n%s", out, err, errs)
	}
	out, errs, err = e.run(t, dir, append(program, filepath.Join(e.dir, "bad.json"))...)
	if err == nil || out != "" || !strings.Contains(errs, wantInvalid) || !strings.Contains(errs, "bad.json:") {
		t.Errorf("with an invalid flow, the program printed %q: %v\n%s\nwant %q", out, err, errs, wantInvalid)
	}
}

// checkAnswers runs a program that answers the requests of its run.
func (e *clientPrograms) checkAnswers(t *testing.T, dir string, program ...string) {
	t.Helper()
	out, errs, err := e.run(t, dir, append(program, filepath.Join(e.dir, "mail.json"), "hello")...)
	if err != nil || out != "turn 2\n" || !strings.Contains(errs, "confirm: a wants to call send_mail") && !strings.Contains(errs, "confirm a wants to call send_mail") ||
		!strings.Contains(errs, "send_mail with {\"to\":\"ann\"}") || !strings.Contains(errs, "tool_result") {
		t.Errorf("program printed %q: %v\n%s", out, err, errs)
	}
}

// TestEndToEndClients checks that client programs in several languages can start runs with a document, a plan or the
// name of a flow, and answer their requests.
func TestEndToEndClients(t *testing.T) {
	t.Parallel()
	e := newClientPrograms(t)
	t.Run("node", func(t *testing.T) {
		for _, name := range []string{"node", "npm"} {
			if _, err := exec.LookPath(name); err != nil {
				t.Skipf("%s is not installed", name)
			}
		}
		dir := t.TempDir()
		for _, name := range []string{"package.json", "package-lock.json", "start.mjs", "answer.mjs"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(harness.ReadFile(t, "../clients/node/"+name)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if out, errs, err := e.run(t, dir, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"); err != nil {
			t.Skipf("npm ci did not install @temporalio/client: %v\n%s%s", err, out, errs)
		}
		e.check(t, dir, "invalid_flow: the document has ", "node", "start.mjs")
		e.checkAnswers(t, dir, "node", "answer.mjs")
	})
	t.Run("python", func(t *testing.T) {
		if _, _, err := e.run(t, "", "python3", "-c", "import temporalio"); err != nil {
			t.Skip("python3 with temporalio is not installed")
		}
		e.check(t, "../clients/python", "invalid_flow the document has ", "python3", "start.py")
		e.checkAnswers(t, "../clients/python", "python3", "answer.py")
	})
	t.Run("go", func(t *testing.T) {
		bin := filepath.Join(t.TempDir(), "embed")
		if out, err := exec.Command("go", "build", "-o", bin, "../clients/go").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		e.check(t, "", "bad.json cannot be run", bin)
	})
	t.Run("a folder's files", func(t *testing.T) {
		run, err := e.client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{TaskQueue: contract.TaskQueue}, "Flow",
			map[string]any{"v": 1, "input": "hello", "model": "script", "script": map[string]any{"rules": []any{map[string]any{"contains": "hello", "say": "greeted"}}},
				"flow": map[string]any{"name": "agents/greeter/agent.json", "text": `{"name": "greeter", "description": "Greets", "capabilities": ["tone"]}`,
					"files": []any{
						map[string]any{"name": "agents/greeter/agent.system-prompt.md", "text": "Greet the user."},
						map[string]any{"name": "capabilities/tone/capability.json", "text": `{"name": "tone", "description": "How to speak"}`},
						map[string]any{"name": "capabilities/tone/capability.text.md", "text": "Speak kindly."},
					}}})
		if err != nil {
			t.Fatal(err)
		}
		out, err := harness.Result(t, run)
		if err != nil || *out.ResultText != "greeted" {
			t.Fatalf("result = %+v, %v", out, contract.FailureOf(err))
		}
		value, err := e.client.QueryWorkflow(context.Background(), run.GetID(), "", contract.QueryPlan)
		if err != nil {
			t.Fatal(err)
		}
		var f plan.Flow
		if err := value.Get(&f); err != nil || len(f.Nodes) != 1 || !strings.Contains(f.Nodes[0].Agent.System, "Speak kindly.") {
			t.Errorf("plan = %+v, %v", f, err)
		}
	})
	t.Run("by name", func(t *testing.T) {
		run, err := e.client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{TaskQueue: contract.TaskQueue}, "Flow",
			map[string]any{"v": 1, "flow": map[string]any{"name": "kept"}, "input": "hello"})
		if err != nil {
			t.Fatal(err)
		}
		out, err := harness.Result(t, run)
		if err != nil || *out.ResultText != "turn 4" {
			t.Errorf("result = %+v, %v", out, err)
		}
		run, err = e.client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{TaskQueue: contract.TaskQueue}, "Flow",
			map[string]any{"v": 1, "flow": map[string]any{"name": "../one"}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = harness.Result(t, run)
		if f := contract.FailureOf(err); f == nil || f.Class != contract.ClassInvalidFlow || !strings.Contains(f.Text, "is not a plain file name") {
			t.Errorf("failure = %+v", f)
		}
	})
}
