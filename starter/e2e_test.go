package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestEndToEnd runs testdata/e2e against a real server with a worker.
func TestEndToEnd(t *testing.T) {
	path := os.Getenv("WEFT_DEVSERVER")
	if path == "" {
		t.Skip("WEFT_DEVSERVER is not set; make e2e builds the server and runs this")
	}
	address := devserver(t, path)
	namespaces(t, address)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/e2e",
		UpdateScripts:       os.Getenv("UPDATE") == "1",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("TEMPORAL_ADDRESS", address)
			env.Setenv("TEMPORAL_CONFIG_FILE", env.WorkDir+"/no-temporal.toml")
			env.Setenv("XDG_STATE_HOME", env.WorkDir+"/state")
			env.Setenv("PATH", env.Getenv("PATH")+string(os.PathListSeparator)+filepath.Dir(path))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "freed": freed, "asks": asks, "seen": seen},
	})
}

// freed waits until no process has a lock on a file: freed FILE.
func freed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: freed FILE")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	f, err := ownLock(ctx, ts.MkAbs(args[0]))
	if err != nil {
		ts.Fatalf("%s is still locked: %v", args[0], err)
	}
	f.Close()
}

// devserver starts a server with a worker that has no model but the scripted one.
func devserver(t *testing.T, path string, flags ...string) string {
	t.Helper()
	cmd := exec.Command(path, append([]string{"-db", ":memory:", "-port", "0", "-ui-port", "0"}, flags...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	cmd.Dir = t.TempDir()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("no ready line: %v", err)
	}
	var ready struct{ Address string }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "ready ")), &ready); err != nil {
		t.Fatal(err)
	}
	return ready.Address
}
