package harness

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"weft/tests/programs"
)

// ClusterDir is the folder of the cluster that these tests break, or skips.
func ClusterDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("WEFT_CLUSTER")
	if dir == "" {
		t.Skip("WEFT_CLUSTER is not set; make cluster-test starts a cluster, where Debian's postgresql is installed, and runs this")
	}
	return dir
}

// StartWorkerProcess runs the worker program against a server, with settings of its own.
func StartWorkerProcess(t *testing.T, address string, settings ...string) *exec.Cmd {
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
