package check

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// confined runs a program as its user on an image's files, mounted read-only, as a container engine does for
// read_only in the Compose file and readOnlyRootFilesystem in the chart. The folder flows is mounted
// like a volume. The exit code is 99 if the files are writable
// anyway.
const confined = `root=$1; flows=$2; shift 2
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --bind "$flows" "$root/flows"
mount -o remount,bind,ro "$root/flows"
mount -o remount,bind,ro "$root"
if touch "$root/written" 2>/dev/null || touch "$root/flows/written" 2>/dev/null; then exit 99; fi
exec chroot --userspec=65532:65532 "$root" "$@"`

// cell is a read-only mount of an image's files.
type cell struct {
	root, flows string
	env         []string
}

// newCell mounts an image, or skips the test if that is impossible.
func newCell(t *testing.T, program string, env ...string) *cell {
	t.Helper()
	name, _ := container(t, program)
	if out, err := exec.Command("unshare", "--mount", "true").CombinedOutput(); err != nil {
		t.Skipf("no program can have mounts of its own here (unshare --mount: %v %s); read-only files are not looked at", err, out)
	}
	root, errs, err := buildah(t, "mount", name)
	if err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	t.Cleanup(func() { _, _, _ = buildah(t, "umount", name) })
	for _, dir := range []string{"proc", "flows"} { // as an engine does
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	flows, err := filepath.Abs("../../tests/examples")
	if err != nil {
		t.Fatal(err)
	}
	return &cell{root, flows, env}
}

// command returns a command that runs a program in the cell.
func (c *cell) command(args ...string) *exec.Cmd {
	cmd := exec.Command("unshare", append([]string{"--mount", "sh", "-ec", confined, "sh", c.root, c.flows}, args...)...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/"}, c.env...)
	return cmd
}

// stay starts a program and, as an engine does, stops it at the end of the test.
func (c *cell) stay(t *testing.T, args ...string) {
	t.Helper()
	var log bytes.Buffer
	cmd := c.command(args...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // each wrapper has replaced itself by the program
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%v exited with %v", args, err)
			}
		case <-time.After(time.Minute):
			_ = cmd.Process.Kill()
			t.Errorf("%v did not exit", args)
		}
		if t.Failed() {
			t.Logf("%v stdout:\n%s", args, log.String())
		}
	})
}

// sealKeys sets the worker's seal keys.
const sealKeys = "WEFT_SEAL_KEYS=local:b25seSBmb3IgdGhpcyBtYWNoaW5lLCAzMiBieXRlcy4="

// TestImagesReadOnly runs the images' worker and starter serve on read-only files and runs a flow to its
// end: nothing needs a writable file system.
func TestImagesReadOnly(t *testing.T) {
	server := os.Getenv("WEFT_DEVSERVER")
	if server == "" {
		t.Skip("WEFT_DEVSERVER is not set; make images runs this where make devserver has built the server")
	}
	address, health, listen := "TEMPORAL_ADDRESS="+temporal(t, server), free(t), free(t)
	worker := newCell(t, "worker", address, "WEFT_WORKER_HEALTH_LISTEN="+health, "WEFT_WORKER_METRICS_LISTEN="+health, "WEFT_WORKER_SLOTS=resources", "WEFT_MODEL=script", sealKeys)
	starter := newCell(t, "starter", address, "WEFT_SERVE_TOKENS=local:only-for-this-machine")
	worker.stay(t, "/worker")
	starter.stay(t, "/starter", "serve", "-listen", listen)

	var out []byte
	var err error
	eventually(t, "the health check", func() bool {
		out, err = worker.command("/worker", "health").CombinedOutput()
		return err == nil && strings.Contains(string(out), `{"ok":true,`)
	}, &out)
	eventually(t, "the server", func() bool {
		resp, err := http.Get("http://" + listen + "/health")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		out, err = io.ReadAll(resp.Body)
		return err == nil && resp.StatusCode == http.StatusOK
	}, &out)
	flow := starter.command("/starter", "-flow", "/flows/continuum/triage.json", "-input", "@/flows/continuum/triage.input.txt", "-model", "script", "-script", "/flows/continuum/triage.script")
	var stdout, stderr bytes.Buffer
	flow.Stdout, flow.Stderr = &stdout, &stderr
	if err := flow.Run(); err != nil || !strings.Contains(stdout.String(), "refund") {
		t.Errorf("the flow exited with %v, output %q\n%s", err, stdout.String(), stderr.String())
	}
}

// eventually waits until a condition holds, and otherwise fails with the last output.
func eventually(t *testing.T, what string, so func() bool, last *[]byte) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !so(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s is not ready, last output %s", what, *last)
		}
	}
}
