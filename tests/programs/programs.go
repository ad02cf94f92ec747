// Package programs starts the project's programs for tests, and reads what they print when they are
// ready.
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

// patience is how long a program may take until it is ready: machines are busy.
const patience = 5 * time.Minute

// Path is where a built program is that a variable names. Without it the test is skipped.
func Path(t testing.TB, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Skipf("%s is not set; make e2e builds the programs and runs this", variable)
	}
	return path
}

// Browser is where a browser is. Without one the test is skipped.
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

// SealKeys is a key for the variable WEFT_SEAL_KEYS.
const SealKeys = "test:YSBrZXkgb2YgdGhpcnR5LXR3byBieXRlcywgdGVzdHM="

// Clean is the environment without what could lead a test to a real provider or cluster, or to the
// settings of whoever runs it.
func Clean() []string {
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

// Log is a file for what a program says. A test that fails shows its end.
func Log(t testing.TB, name string) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), name+"-*.log")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.Close()
		if t.Failed() {
			if text := end(f.Name()); text != "" {
				t.Logf("%s said:\n%s", name, text)
			}
		}
	})
	return f
}

// end is the last of a file.
func end(name string) string {
	raw, _ := os.ReadFile(name) // what cannot be read is not shown
	return string(raw[max(0, len(raw)-4000):])
}

// Ready starts a server, which is killed with the test, and decodes its ready line.
func Ready(t testing.TB, cmd *exec.Cmd, to any) {
	t.Helper()
	line := Line(t, cmd, "ready ")
	if err := json.Unmarshal([]byte(line), to); err != nil {
		t.Fatalf("%s is ready with %q: %v", cmd.Path, line, err)
	}
}

// Line starts a program, which is killed with the test, waits for the first line of its standard
// output that begins with a prefix, and gives the rest of it.
func Line(t testing.TB, cmd *exec.Cmd, prefix string) string {
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
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), prefix); ok {
			go func() { _, _ = io.Copy(io.Discard, out) }() // else it stands still where the pipe is full
			return rest
		}
	}
	Kill(cmd)
	t.Fatalf("%s ended, or took %v, and said no line that begins with %q; it said:\n%s", cmd.Path, patience, prefix, message(cmd))
	return ""
}

// message returns what an ended program has written to its standard error.
func message(cmd *exec.Cmd) string {
	switch to := cmd.Stderr.(type) {
	case *os.File:
		return end(to.Name())
	case fmt.Stringer:
		return to.String()
	}
	return ""
}

// Kill ends a program at once, as a crash would. One that has ended is left alone.
func Kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}
