//go:build unix

package tool

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/activities/tool/lines"
	"weft/workflows/plan"
)

// alive reports whether a process is running. A zombie is not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

// waitForExit waits until processes have exited.
func waitForExit(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		for i := 0; alive(pid); i++ {
			if i == 200 {
				t.Fatalf("process %d is still running", pid)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// spawn has the server start a child process and returns the ids of both.
func spawn(t *testing.T, tools *Tools) (server, child int) {
	t.Helper()
	text := mustCall(t, tools, "spawn", `{}`)
	if _, err := fmt.Sscan(text, &server, &child); err != nil {
		t.Fatal(text, err)
	}
	if !alive(server) || !alive(child) {
		t.Fatalf("processes %s are not both running", text)
	}
	return server, child
}

func TestCloseKillsProcessGroup(t *testing.T) {
	tools := open(t, overStdio(t, "serve"))
	server, child := spawn(t, tools)
	began := time.Now()
	tools.Close()
	if d := time.Since(began); d > time.Minute {
		t.Errorf("Close took %s", d)
	}
	waitForExit(t, server, child)
}

func TestCloseKillsShellChildren(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tools := open(t, Connection{
		Command: "/bin/sh", Args: []string{"-c", `sleep 1000 & "` + self + `"; true`}, Env: map[string]string{helperMode: "serve"},
	})
	server, child := spawn(t, tools)
	tools.Close()
	waitForExit(t, server, child)
}

func TestCommandRestarts(t *testing.T) {
	tools := open(t, overStdio(t, "serve"))
	server, child := spawn(t, tools)
	_, _, err := resultText(tools.Call(withTimeout(t, time.Minute), call("die", `{}`), Meta{}))
	wantFailure(t, err, contract.ClassUnavailable, "exit status 7", "out of cheese")
	waitForExit(t, server, child)
	mustCall(t, tools, "echo", `{}`)
	server, _ = spawn(t, tools)
	if err := syscall.Kill(server, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitForExit(t, server)
	time.Sleep(2 * lossGrace)
	mustCall(t, tools, "echo", `{}`)
}

func TestEnvironmentNotInherited(t *testing.T) {
	t.Setenv("WORKER_SECRET", "do-not-leak")
	c := overStdio(t, "serve")
	c.Dir = t.TempDir()
	c.Env["GREETING"] = "hello"
	tools := open(t, c, func(s *Settings) {
		s.BaseEnv = map[string]string{"PATH": "/bin:/usr/bin", "HOME": "/nowhere", "OTHER": "x"}
	})
	got := strings.Fields(mustCall(t, tools, "environ", `{}`))
	want := []string{"GREETING=hello", "HOME=/nowhere", "PATH=/bin:/usr/bin", helperMode + "=serve", "GORACE=atexit_sleep_ms=0", "cwd=" + c.Dir}
	for _, w := range want {
		if !strings.Contains(strings.Join(got, "\n"), w) {
			t.Errorf("environment %q has no %s", got, w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("environment is %q, want %q", got, want)
	}
}

func TestFailingCommand(t *testing.T) {
	crash := overStdio(t, "crash")
	crash.Env["API_KEY"] = "sk-0123456789"
	tests := map[string]struct {
		conn  Connection
		class string
		text  string
	}{
		"unknown name":   {Connection{Command: "no-such-command-here"}, contract.ClassConnection, "not found in PATH"},
		"unknown path":   {Connection{Command: "/no/such/command"}, contract.ClassConnection, "connections.c.command"},
		"not executable": {Connection{Command: "/etc/hostname"}, contract.ClassConnection, "does not start"},
		"unknown dir":    {Connection{Command: "/bin/sh", Dir: "/no/such/dir"}, contract.ClassConnection, "/no/such/dir"},
		"crashes":        {crash, contract.ClassConnection, "exit status 3; its last output: no such key: [secret]"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := open(t, tc.conn).List(withTimeout(t, time.Minute), plan.Connection{ID: connection})
			wantFailure(t, err, tc.class, tc.text)
		})
	}
}

func TestQueueBacklog(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	o := lines.NewQueue(w, 300_000)
	message := make([]byte, 100_000)
	for i := 0; ; i++ {
		if _, err := o.Write(message); err != nil {
			if err != lines.ErrBacklog || i < 3 {
				t.Errorf("write %d: %v", i, err)
			}
			break
		}
		if i > 10 {
			t.Fatal("the backlog is not limited")
		}
	}
	o.Close()
	if _, err := o.Write(message); err != lines.ErrEnded {
		t.Errorf("error is %v, want %v", err, lines.ErrEnded)
	}
}

// TestCommandSessionLost checks that the loss of a session is reported once after a command was restarted.
func TestCommandSessionLost(t *testing.T) {
	tools := open(t, overStdio(t, "serve"))
	m := Meta{Caller: "a"}
	echoFails := func() bool {
		t.Helper()
		_, isError, err := resultText(tools.Call(withTimeout(t, time.Minute), call("echo", `{}`), m))
		if err != nil {
			t.Fatal(err)
		}
		return isError
	}
	if echoFails() {
		t.Error("the first call reports an error")
	}
	server, _ := spawn(t, tools)
	if err := syscall.Kill(server, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitForExit(t, server)
	// Until the worker has noticed the exit, calls fail as unavailable.
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if text, isError, err := resultText(tools.Call(withTimeout(t, time.Minute), call("echo", `{}`), m)); err == nil {
			if !isError || text != sessionLostText(false) {
				t.Errorf("got %q, %v", text, isError)
			}
			break
		}
	}
	if echoFails() {
		t.Error("the loss was reported twice")
	}
}
