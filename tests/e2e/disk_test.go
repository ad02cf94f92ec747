package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/tests/harness"
)

// smallDisk mounts a disk of a size such as 32m, or skips where that cannot be done.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	disk := t.TempDir()
	if os.Geteuid() != 0 {
		t.Skip("a small disk is mounted, which only root may do")
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "none", disk).CombinedOutput(); err != nil {
		t.Skipf("no small disk can be mounted here: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", disk).Run() })
	return disk
}

// fill has somebody else take all room of a disk of less than 64 MiB, and says how to get it back.
func fill(t *testing.T, disk string) (room func()) {
	t.Helper()
	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, make([]byte, 64<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	return func() {
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEndToEndDatabaseFull fills the disk of a laptop's database while a call is running: starts
// are refused, and when there is room again the run goes on, with the call under its key.
func TestEndToEndDatabaseFull(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "48m")
	s := harness.StartServer(t, "-db", filepath.Join(disk, "t.db"), "-port=0")
	c := harness.Dial(t, s.Address)
	model := newBlockingModel(t)
	harness.StartWorker(t, s.Address, "WEFT_PROVIDERS_FAKE_KIND=compatible", "WEFT_PROVIDERS_FAKE_STREAM=false", "WEFT_PROVIDERS_FAKE_BASE_URL="+model.URL)
	h := &harness.Worker{Client: c, Queue: contract.TaskQueue}
	in := contract.RunInput{Flow: contract.FlowRef{Text: harness.OneNode(""), Name: "flow.json"}, Model: "fake/m", Input: "go"}
	run := h.Start(t, in)
	harness.WaitFor(t, "the call", func() bool { return len(model.calls()) == 1 })
	key := model.calls()[0]
	room := fill(t, disk)
	harness.WaitFor(t, "a start to be refused", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: "nobody"}, contract.WorkflowFlow, in)
		return err != nil
	})
	close(model.free)
	room()
	if out, err := harness.Result(t, run); err != nil || *out.ResultText != "done" || out.Usage.Calls != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	for _, k := range model.calls() {
		if k != key {
			t.Errorf("a call came under the key %q, the first under %q", k, key)
		}
	}
}
