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

// smallDisk mounts a disk of a size such as 32m. It skips the test if that is not possible.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	disk := t.TempDir()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small disk")
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "none", disk).CombinedOutput(); err != nil {
		t.Skipf("mount a small disk: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", disk).Run() })
	return disk
}

// fillDisk fills a disk of less than 64 MiB with a file. The returned function removes the file.
func fillDisk(t *testing.T, disk string) (free func()) {
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

// TestEndToEndDatabaseFull fills the disk of a development server's database during a model call. It checks that
// starts are rejected, and that the run continues when there is space, with the call's idempotency key unchanged.
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
	free := fillDisk(t, disk)
	harness.WaitFor(t, "a start to be rejected", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: "nobody"}, contract.WorkflowFlow, in)
		return err != nil
	})
	close(model.free)
	free()
	if out, err := harness.Result(t, run); err != nil || *out.ResultText != "done" || out.Usage.Calls != 1 {
		t.Fatalf("result = %+v, %v", out, err)
	}
	for _, k := range model.calls() {
		if k != key {
			t.Errorf("a call has the key %q, the first has %q", k, key)
		}
	}
}
