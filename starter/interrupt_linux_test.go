package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"weft/tests/programs"
)

// startOnTerminal runs starter in the foreground of a terminal, as a shell does, so that it receives
// what is written to keys, and Ctrl-C as an interrupt.
func startOnTerminal(t *testing.T, dir string, env []string, args ...string) (keys *os.File, got *screen, code func() int) {
	t.Helper()
	master, slave := pseudoTerminal(t)
	// testscript has put starter, which is this test binary, in PATH.
	cmd := exec.Command("starter", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err := cmd.Start()
	slave.Close()
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{}
	go s.read(master)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	return master, s, func() int {
		t.Helper()
		select {
		case <-ended:
		case <-time.After(3 * time.Minute):
			t.Fatal("starter does not exit")
		}
		return cmd.ProcessState.ExitCode()
	}
}

// ctrlC is the character for which a terminal sends an interrupt.
const ctrlC = "\x03"

func typeText(t *testing.T, keys *os.File, text string) {
	t.Helper()
	if _, err := keys.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// expectDetached checks the exit code after Ctrl-C, and waits for a text.
func expectDetached(t *testing.T, got *screen, code int, want string) {
	t.Helper()
	if code != exitDetached {
		t.Errorf("exit code %d, want %d", code, exitDetached)
	}
	got.wait(t, want)
}

// waitFile waits until a file has a complete line, and returns it.
func waitFile(t *testing.T, name string) string {
	t.Helper()
	for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(5 * time.Millisecond) {
		if raw, err := os.ReadFile(name); err == nil && strings.HasSuffix(string(raw), "\n") {
			return strings.TrimSpace(string(raw))
		}
	}
	t.Fatalf("%s was not written", name)
	return ""
}

// writeFile writes a file and creates its folder.
func writeFile(t *testing.T, name, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(name), 0o700)
	if err == nil {
		err = os.WriteFile(name, []byte(text), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// sleepScript returns a shell script that writes its process id to a file and then sleeps.
func sleepScript(pid string) string { return "#!/bin/sh\necho $$ > " + pid + "\nexec sleep 300\n" }

// silentServer listens for connections and never sends anything; accepted is closed at the first
// connection.
func silentServer(t *testing.T) (address string, accepted chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	accepted = make(chan struct{})
	go func() {
		for first := true; ; first = false {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			if first {
				close(accepted)
			}
		}
	}()
	return l.Addr().String(), accepted
}

const echoFlow = `{"name": "Echo", "nodes": [{"id": "echo", "name": "Echo", "prompt": "Repeat.", "is_exit_node": true}],
	"edges": [{"id": "in", "source": "START", "target": "echo"}, {"id": "out", "source": "echo", "target": "END"}]}`

// TestInterruptBeforeStart checks that Ctrl-C before the start of a run reports that no run was started.
func TestInterruptBeforeStart(t *testing.T) {
	const none = "starter: interrupted; no run was started\r\n"
	dir := t.TempDir()
	flow := filepath.Join(dir, "flow.json")
	writeFile(t, flow, echoFlow)
	base := []string{"TEMPORAL_ADDRESS=127.0.0.1:1", "TEMPORAL_CONFIG_FILE=" + dir + "/none.toml", "XDG_STATE_HOME=" + dir + "/state", "TERM=xterm"}
	for name, args := range map[string][]string{"the flow": {"-flow", "-"}, "-input": {"-flow", flow, "-input", "-"}} {
		t.Run("reading "+name, func(t *testing.T) {
			keys, got, code := startOnTerminal(t, dir, base, args...)
			got.wait(t, "reading "+name+" from the terminal; end with Ctrl-D on an empty line")
			typeText(t, keys, "half a li"+ctrlC)
			expectDetached(t, got, code(), none)
		})
	}
	for want, args := range map[string][]string{none: {"-flow", flow}, "starter: interrupted\r\n": {"list"}} {
		t.Run("connecting for "+args[0], func(t *testing.T) {
			address, accepted := silentServer(t)
			keys, got, code := startOnTerminal(t, dir, append(base, "TEMPORAL_ADDRESS="+address), args...)
			<-accepted
			typeText(t, keys, ctrlC)
			expectDetached(t, got, code(), want)
		})
	}
}

// TestInterruptDevStart checks that Ctrl-C ends starter while -dev builds or starts its server.
func TestInterruptDevStart(t *testing.T) {
	const message = "starter: interrupted; processes that -dev has started stop by themselves\r\n"
	dir := t.TempDir()
	writeFile(t, dir+"/flow.json", echoFlow)
	writeFile(t, dir+"/go.mod", "module weft\n")
	writeFile(t, dir+"/worker/devserver/main.go", "package main\n")
	writeFile(t, dir+"/compiler/go", sleepScript(dir+"/build.pid"))
	writeFile(t, dir+"/server/weft-devserver", sleepScript(dir+"/server.pid"))
	base := []string{"TEMPORAL_ADDRESS=127.0.0.1:1", "TEMPORAL_CONFIG_FILE=" + dir + "/none.toml", "XDG_STATE_HOME=" + dir + "/state", "TERM=xterm"}
	t.Run("building", func(t *testing.T) {
		keys, got, code := startOnTerminal(t, dir, append(base, "PATH="+dir+"/compiler:"+os.Getenv("PATH")), "-dev", "-flow", "flow.json")
		waitFile(t, dir+"/build.pid")
		typeText(t, keys, ctrlC)
		expectDetached(t, got, code(), message)
	})
	t.Run("starting", func(t *testing.T) {
		keys, got, code := startOnTerminal(t, dir, append(base, "PATH="+dir+"/server:"+os.Getenv("PATH")), "-dev", "-flow", "flow.json")
		if pid, err := strconv.Atoi(waitFile(t, dir+"/server.pid")); err == nil {
			// Unlike the real server, the script does not exit by itself.
			t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
		}
		typeText(t, keys, ctrlC)
		expectDetached(t, got, code(), message)
	})
}

// TestEndToEndDetached checks that the run continues after Ctrl-C, even in the middle of typing an
// answer, and that the message tells how to follow it again.
func TestEndToEndDetached(t *testing.T) {
	path := programs.Path(t, "WEFT_DEVSERVER")
	dir := t.TempDir()
	base := []string{"TEMPORAL_ADDRESS=" + devserver(t, path), "TEMPORAL_CONFIG_FILE=" + dir + "/none.toml", "TERM=xterm"}
	guess, err := filepath.Abs("../tests/examples/agentspec/guess.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const message = "detached; the run continues; follow it with: starter follow capital\r\n"
	keys, got, code := startOnTerminal(t, dir, base, "-flow", guess, "-model", "script", "-id", "capital")
	got.wait(t, "type the answer here, on one line, or use the command")
	typeText(t, keys, "Ber"+ctrlC)
	expectDetached(t, got, code(), message)
	keys, got, code = startOnTerminal(t, dir, append(base, "TERM=dumb"), "follow", "capital")
	got.wait(t, "waits for message: What is the capital of Norway?")
	typeText(t, keys, ctrlC)
	expectDetached(t, got, code(), message)
	// The incomplete answer was not sent, so the next client can answer.
	keys, got, code = startOnTerminal(t, dir, base, "follow", "capital")
	got.wait(t, "type the answer here, on one line, or use the command")
	typeText(t, keys, "Oslo\n")
	if code() != exitOK {
		t.Errorf("exit code %d", code())
	}
	got.wait(t, "message ask#2/ask-8bc47ac6: answered by ")
}
