package check

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"weft/tests/programs"
)

// TestImagesHealth runs the image's worker against a server and checks its health check.
func TestImagesHealth(t *testing.T) {
	server := os.Getenv("WEFT_DEVSERVER")
	if server == "" {
		t.Skip("WEFT_DEVSERVER is not set; make images runs this where make devserver has built the server")
	}
	name, _ := container(t, "worker")
	address := temporal(t, server)
	listen := free(t)
	env := []string{"--env", "TEMPORAL_ADDRESS=" + address, "--env", "WEFT_WORKER_HEALTH_LISTEN=" + listen, "--env", "WEFT_WORKER_METRICS_LISTEN=", "--env", sealKeys}
	inside := func(args ...string) []string {
		return append(append(append([]string{"run", "--isolation", "chroot"}, env...), name, "--", "/worker"), args...)
	}
	var log bytes.Buffer
	cmd := exec.Command("buildah", inside()...)
	cmd.Stderr = &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	healthy := false
	var out, errs string
	for end := time.Now().Add(time.Minute); !healthy && time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		var err error
		out, errs, err = buildah(t, inside("health")...)
		healthy = err == nil && strings.Contains(out, `{"ok":true,`)
	}
	if !healthy {
		t.Errorf("the health check says %s %s", out, errs)
	}
	// buildah kills its process when it is stopped; graceful shutdown is tested elsewhere.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(time.Minute):
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		t.Error("the container did not exit")
	}
	if t.Failed() {
		t.Logf("the worker said:\n%s", log.String())
	}
}

// temporal starts an in-memory server and returns its address.
func temporal(t *testing.T, program string) string {
	t.Helper()
	cmd := exec.Command(program, "-db", ":memory:", "-port", "0", "-ui-port", "0", "-worker=false")
	cmd.Dir = t.TempDir()
	var ready struct{ Address string }
	programs.Ready(t, cmd, &ready)
	return ready.Address
}

// free returns an address that nothing listens on.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return fmt.Sprint(l.Addr())
}
