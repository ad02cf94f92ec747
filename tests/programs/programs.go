// Package programs starts the project's programs for tests and waits until they are ready. It also has fake MCP servers.
package programs

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// readyTimeout is how long a program may take to become ready on a busy machine.
const readyTimeout = 5 * time.Minute

// Path returns the path of a built program from an environment variable, or skips the test if it is not set.
func Path(t testing.TB, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Skipf("%s is not set; make e2e builds the programs and runs this", variable)
	}
	return path
}

// Browser returns the path of an installed browser, or skips the test if there is none.
func Browser(t testing.TB) string {
	t.Helper()
	names := []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless-shell"}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skipf("no browser is installed (%s); on Debian: apt-get install chromium fonts-dejavu-core", strings.Join(names, ", "))
	return ""
}

// SealKeys is a value of the variable WEFT_SEAL_KEYS.
const SealKeys = "test:YSBrZXkgb2YgdGhpcnR5LXR3byBieXRlcywgdGVzdHM="

// CleanEnv returns the environment without variables that refer to real providers, clusters or the user's settings, with [SealKeys] and scripts in flows.
func CleanEnv() []string {
	out := []string{"WEFT_SEAL_KEYS=" + SealKeys, "WEFT_FLOWS_SCRIPTS=true"}
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, "WEFT_") || strings.HasPrefix(name, "TEMPORAL_") || strings.HasPrefix(name, "OLLAMA_") || strings.Contains(name, "_API_KEY") {
			continue
		}
		out = append(out, e)
	}
	return out
}

// Log creates a file for the output of a program. If the test fails, the end of the file is logged.
func Log(t testing.TB, name string) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), name+"-*.log")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.Close()
		if t.Failed() {
			if text := tail(f.Name()); text != "" {
				t.Logf("output of %s:\n%s", name, text)
			}
		}
	})
	return f
}

// tail returns the end of a file.
func tail(name string) string {
	raw, _ := os.ReadFile(name) // an unreadable file is not shown
	return string(raw[max(0, len(raw)-4000):])
}

// Ready starts a server, which is killed at the end of the test, and decodes its ready line.
func Ready(t testing.TB, cmd *exec.Cmd, to any) {
	t.Helper()
	line := StartAndReadLine(t, cmd, "ready ")
	if err := json.Unmarshal([]byte(line), to); err != nil {
		t.Fatalf("%s: invalid ready line %q: %v", cmd.Path, line, err)
	}
}

// StartAndReadLine starts a program, which is killed at the end of the test, waits for the first line of its
// standard output that begins with prefix, and returns the rest of that line.
func StartAndReadLine(t testing.TB, cmd *exec.Cmd, prefix string) string {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if cmd.Stderr == nil {
		cmd.Stderr = Log(t, filepath.Base(cmd.Path))
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Kill(cmd) })
	timeout := time.AfterFunc(readyTimeout, func() { _ = cmd.Process.Kill() })
	defer timeout.Stop()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), prefix); ok {
			go func() { _, _ = io.Copy(io.Discard, out) }() // otherwise it blocks when the pipe is full
			return rest
		}
	}
	Kill(cmd)
	t.Fatalf("%s printed no line that begins with %q within %v or before it exited; stderr:\n%s", cmd.Path, prefix, readyTimeout, stderrOf(cmd))
	return ""
}

// stderrOf returns the standard error of a program that has exited.
func stderrOf(cmd *exec.Cmd) string {
	switch to := cmd.Stderr.(type) {
	case *os.File:
		return tail(to.Name())
	case fmt.Stringer:
		return to.String()
	}
	return ""
}

// Kill kills a program immediately, like a crash, and waits until it has exited.
func Kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}
