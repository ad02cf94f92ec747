package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/tests/harness"
)

// clusterFlow is a chain of three agents; clusterScript delays each answer.
const (
	clusterFlow = `{
  "name": "Chain",
  "nodes": [
    {"id": "a", "name": "A", "prompt": "Answer."},
    {"id": "b", "name": "B", "prompt": "Answer."},
    {"id": "c", "name": "C", "prompt": "Answer.", "is_exit_node": true}
  ],
  "edges": [
    {"id": "in", "source": "START", "target": "a"},
    {"id": "ab", "source": "a", "target": "b"},
    {"id": "bc", "source": "b", "target": "c"},
    {"id": "out", "source": "c", "target": "END"}
  ]
}`
	clusterScript = "rules:\n- {node: c, say: done, delay: 500ms}\n- {say: next, delay: 500ms}\n"
)

// TestEndToEndClusterLosesNodes checks that every open run completes after one of two workers
// and one of two servers, which use PostgreSQL, are killed.
func TestEndToEndClusterLosesNodes(t *testing.T) {
	dir := os.Getenv("WEFT_CLUSTER")
	if dir == "" {
		t.Skip("WEFT_CLUSTER is not set; make cluster-test starts a cluster and runs this")
	}
	// The client is connected to the server that survives.
	c := harness.Dial(t, harness.ServerAddress(t))
	const runs = 20
	var started []client.WorkflowRun
	for i := range runs {
		run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: fmt.Sprintf("chain-%d-%d", time.Now().UnixNano(), i), TaskQueue: contract.TaskQueue},
			contract.WorkflowFlow, contract.RunInput{V: contract.Version, Flow: contract.FlowRef{Text: clusterFlow, Name: "chain.json"}, Model: "script", Script: harness.Script(t, clusterScript), Input: "go"})
		if err != nil {
			t.Fatal(err)
		}
		started = append(started, run)
	}
	time.Sleep(700 * time.Millisecond)
	killProgram(t, dir, "worker-2")
	killProgram(t, dir, "temporal-2")
	for _, run := range started {
		out, err := harness.Result(t, run)
		if err != nil || out.ResultText == nil || *out.ResultText != "done" || out.Usage.Calls != 3 {
			t.Errorf("run %s: %+v, %v", run.GetID(), out, err)
		}
	}
}

// killProgram kills a program of the cluster with SIGKILL.
func killProgram(t *testing.T, dir, name string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, name+".pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || pid < 2 {
		t.Fatalf("the pid of %s is %q", name, raw)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("kill %s: %v", name, err)
	}
}
