package main

import (
	"os"
	"strings"
	"testing"

	"weft/activities/tool"
	"weft/worker/config"
	"weft/workflows/plan"
)

// commandFlow brings two commands, one of them twice and in a sub-agent.
func commandFlow() *plan.Flow {
	npx := plan.Connection{ID: "files", Kind: plan.ConnectionMCP, Transport: plan.TransportStdio, Command: "npx", Args: []string{"-y", "a b"}}
	set := plan.Connection{ID: "set", Kind: plan.ConnectionMCP, Transport: plan.TransportStdio, Command: "fine", Dir: "/srv/a b", Env: []plan.Header{{Name: "A", Value: "b c"}}}
	odd := plan.Connection{ID: "odd", Kind: plan.ConnectionMCP, Transport: plan.TransportStdio, Command: "x\x1b[2J"}
	mine := plan.Connection{ID: "mine", Kind: plan.ConnectionMCP, Transport: plan.TransportStdio, Command: "replaced"}
	fine := plan.Connection{ID: "fine", Kind: plan.ConnectionMCP, Transport: plan.TransportStdio, Command: "fine"}
	return &plan.Flow{Connections: []plan.Connection{npx, mine, fine, set}, Agents: []plan.Flow{{Connections: []plan.Connection{npx, odd}}}}
}

// TestCommandsAreAllowedOnTheTerminal asks once, and takes nothing but a yes.
func TestCommandsAreAllowedOnTheTerminal(t *testing.T) {
	cfg := &config.Config{AllowCommands: []string{"fine"}, Connections: map[string]tool.Connection{"mine": {}}}
	for typed, yes := range map[string]bool{"y\n": true, "Yes \n": true, "\n": false, "n\n": false, "yesterday\n": false, "\x04": false} {
		t.Run(strings.TrimSpace(typed), func(t *testing.T) {
			master, slave := pseudoTerminal(t)
			t.Cleanup(func() { slave.Close() })
			a := &app{stdin: slave, stderr: slave, env: mapEnv{"XDG_STATE_HOME": t.TempDir()}, flags: flags{dev: true}}
			said := make(chan error, 1)
			go func() { said <- a.approveCommands(cfg, commandFlow()) }()
			// What is typed before the question may be echoed in its midst.
			out := readTerminal(t, master, "[y/N] ")
			typeOn(t, master, typed)
			err := <-said
			if !strings.Contains(out, "the flow starts on this machine:\r\n\tnpx -y 'a b'\r\n\tcd '/srv/a b' && A='b c' fine\r\n\t\"x\\x1b[2J\"\r\ndev: allow it? [y/N] ") {
				t.Errorf("the terminal got %q", out)
			}
			if yes != (err == nil) || !yes && !strings.Contains(err.Error(), `allow_commands: ["fine", "npx", "x\x1b[2J"] and allow_env: ["A"] and allow_dirs: ["/srv/a b"]`) {
				t.Errorf("after %q: %v", typed, err)
			}
			// A second time nobody is asked, and who said no is refused again.
			a.stdin, a.stderr = strings.NewReader("y\n"), &strings.Builder{}
			if err := a.approveCommands(cfg, commandFlow()); yes != (err == nil) {
				t.Errorf("the second time, after %q: %v", typed, err)
			}
		})
	}
}

// readTerminal gives all that a terminal got, up to a text.
func readTerminal(t *testing.T, master *os.File, end string) string {
	t.Helper()
	var out strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(out.String(), end) {
		n, err := master.Read(buf)
		if err != nil {
			t.Fatalf("read the terminal: %v after %q", err, out.String())
		}
		out.Write(buf[:n])
	}
	return out.String()
}
