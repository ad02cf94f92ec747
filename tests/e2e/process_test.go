package e2e

import (
	"context"
	"os/exec"
	"slices"
	"testing"
	"weft/tests/programs"

	"go.temporal.io/sdk/client"
)

// historyBytes is the size of a run's history as Temporal counts it.
func historyBytes(t testing.TB, c client.Client, id, run string) int {
	t.Helper()
	d, err := c.DescribeWorkflowExecution(context.Background(), id, run)
	if err != nil {
		t.Fatal(err)
	}
	return int(d.GetWorkflowExecutionInfo().GetHistorySizeBytes())
}

// startWorkerProcess runs the worker program against a server, with settings of its own.
func startWorkerProcess(t *testing.T, address string, settings ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(programs.Path(t, "WEFT_WORKER"))
	cmd.Dir = t.TempDir()
	cmd.Env = slices.Concat(programs.Clean(), []string{"TEMPORAL_ADDRESS=" + address}, settings)
	cmd.Stderr = programs.Log(t, "worker")
	cmd.Stdout = cmd.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}
