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

// onTerminal starts starter as a shell on a terminal does: what is typed at the first end
// reaches it, Ctrl-C too.
func onTerminal(t *testing.T, dir string, env []string, args ...string) (keys *os.File, got *screen, code func() int) {
	t.Helper()
	master, slave := pseudoTerminal(t)
	// testscript puts starter, which is this very program, into PATH.
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
			t.Fatal("starter does not end")
		}
		return cmd.ProcessState.ExitCode()
	}
}

// ctrlC is what a terminal makes an interrupt of.
const ctrlC = "\x03"

func typeOn(t *testing.T, keys *os.File, text string) {
	t.Helper()
	if _, err := keys.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// detached expects an end by Ctrl-C, with a text.
func detached(t *testing.T, got *screen, code int, want string) {
	t.Helper()
	if code != exitDetached {
		t.Errorf("exit code %d, want %d", code, exitDetached)
	}
	got.wait(t, want)
}

// waitFile waits until a program has written a line into a file.
func waitFile(t *testing.T, name string) string {
	t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(5 * time.Millisecond) {
		if raw, err := os.ReadFile(name); err == nil && strings.HasSuffix(string(raw), "\n") {
			return strings.TrimSpace(string(raw))
		}
	}
	t.Fatalf("nobody writes %s", name)
	return ""
}

// put writes a file, and the folder that it is in.
func put(t *testing.T, name, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(name), 0o700)
	if err == nil {
		err = os.WriteFile(name, []byte(text), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// lasting is a shell script that writes its process's number into a file, and then lasts.
func lasting(pid string) string { return "#!/bin/sh\necho $$ > " + pid + "\nexec sleep 300\n" }

// mute is an address at which somebody takes connections and never says a word; taken is
// closed at the first.
func mute(t *testing.T) (address string, taken chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	taken = make(chan struct{})
	go func() {
		for first := true; ; first = false {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			if first {
				close(taken)
			}
		}
	}()
	return l.Addr().String(), taken
}

const echoFlow = `{"name": "Echo", "nodes": [{"id": "echo", "name": "Echo", "prompt": "Repeat.", "is_exit_node": true}],
	"edges": [{"id": "in", "source": "START", "target": "echo"}, {"id": "out", "source": "echo", "target": "END"}]}`

// Ctrl-C before there is a run says that there is none.
func TestInterruptedBeforeTheRun(t *testing.T) {
	const none = "starter: interrupted; no run was started\r\n"
	dir := t.TempDir()
	flow := filepath.Join(dir, "flow.json")
	put(t, flow, echoFlow)
	base := []string{"TEMPORAL_ADDRESS=127.0.0.1:1", "TEMPORAL_CONFIG_FILE=" + dir + "/none.toml", "XDG_STATE_HOME=" + dir + "/state", "TERM=xterm"}
	for name, args := range map[string][]string{"the flow": {"-flow", "-"}, "-input": {"-flow", flow, "-input", "-"}} {
		t.Run("reading "+name, func(t *testing.T) {
			keys, got, code := onTerminal(t, dir, base, args...)
			got.wait(t, "reading "+name+" from the terminal; end with Ctrl-D on an empty line")
			typeOn(t, keys, "half a li"+ctrlC)
			detached(t, got, code(), none)
		})
	}
	for name, args := range map[string][]string{none: {"-flow", flow}, "starter: interrupted\r\n": {"list"}} {
		t.Run("connecting for "+args[0], func(t *testing.T) {
			address, taken := mute(t)
			keys, got, code := onTerminal(t, dir, append(base, "TEMPORAL_ADDRESS="+address), args...)
			<-taken
			typeOn(t, keys, ctrlC)
			detached(t, got, code(), name)
		})
	}
}

// Ctrl-C while -dev builds or starts its server leaves nothing that would have to be stopped.
func TestInterruptedWhileDevStarts(t *testing.T) {
	const ends = "starter: interrupted; processes that -dev has started stop by themselves\r\n"
	dir := t.TempDir()
	put(t, dir+"/flow.json", echoFlow)
	put(t, dir+"/go.mod", "module weft\n")
	put(t, dir+"/worker/devserver/main.go", "package main\n")
	put(t, dir+"/compiler/go", lasting(dir+"/build.pid"))
	put(t, dir+"/server/weft-devserver", lasting(dir+"/server.pid"))
	base := []string{"TEMPORAL_ADDRESS=127.0.0.1:1", "TEMPORAL_CONFIG_FILE=" + dir + "/none.toml", "XDG_STATE_HOME=" + dir + "/state", "TERM=xterm"}
	t.Run("building", func(t *testing.T) {
		keys, got, code := onTerminal(t, dir, append(base, "PATH="+dir+"/compiler:"+os.Getenv("PATH")), "-dev", "-flow", "flow.json")
		waitFile(t, dir+"/build.pid")
		typeOn(t, keys, ctrlC)
		detached(t, got, code(), ends)
	})
	t.Run("starting", func(t *testing.T) {
		keys, got, code := onTerminal(t, dir, append(base, "PATH="+dir+"/server:"+os.Getenv("PATH")), "-dev", "-flow", "flow.json")
		if pid, err := strconv.Atoi(waitFile(t, dir+"/server.pid")); err == nil {
			// This one would end by itself, were it what it is called.
			t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
		}
		typeOn(t, keys, ctrlC)
		detached(t, got, code(), ends)
	})
}

// Ctrl-C while a run is followed, or an answer is half typed, leaves it to itself and says how
// to come back.
func TestEndToEndDetached(t *testing.T) {
	path := programs.Path(t, "WEFT_DEVSERVER")
	dir := t.TempDir()
	base := []string{"TEMPORAL_ADDRESS=" + devserver(t, path), "TEMPORAL_CONFIG_FILE=" + dir + "/none.toml", "TERM=xterm"}
	guess, err := filepath.Abs("../tests/examples/agentspec/guess.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const comeBack = "detached; the run continues; follow it with: starter follow capital\r\n"
	keys, got, code := onTerminal(t, dir, base, "-flow", guess, "-model", "script", "-id", "capital")
	got.wait(t, "type the answer here, on one line, or use the command")
	typeOn(t, keys, "Ber"+ctrlC)
	detached(t, got, code(), comeBack)
	keys, got, code = onTerminal(t, dir, append(base, "TERM=dumb"), "follow", "capital")
	got.wait(t, "waits for message: What is the capital of Norway?")
	typeOn(t, keys, ctrlC)
	detached(t, got, code(), comeBack)
	// The half answer was none, and somebody else can give a whole one.
	keys, got, code = onTerminal(t, dir, base, "follow", "capital")
	got.wait(t, "type the answer here, on one line, or use the command")
	typeOn(t, keys, "Oslo\n")
	if code() != exitOK {
		t.Errorf("exit code %d", code())
	}
	got.wait(t, "message ask#2/ask-8bc47ac6: answered by ")
}
