package main

import (
	"os"
	"strings"
	"testing"

	"weft/activities/tool"
	"weft/worker/config"
	"weft/workflows/plan"
)

// commandFlow returns a flow whose MCP servers are commands: new ones, one that is already allowed, one that the settings replace, and those of a sub-agent, of which one is repeated.
func commandFlow() *plan.Flow {
	npx := plan.Connection{ID: "files", Kind: plan.ConnectionMCP, Transport: plan.TransportStdio, Command: "npx", Args: []string{"-y", "a b"}}
	set := plan.Connection{ID: "set", Kind: plan.ConnectionMCP, Transport: plan.TransportStdio, Command: "fine", Dir: "/srv/a b", Env: []plan.Header{{Name: "A", Value: "b c"}}}
	odd := plan.Connection{ID: "odd", Kind: plan.ConnectionMCP, Transport: plan.TransportStdio, Command: "x\x1b[2J"}
	mine := plan.Connection{ID: "mine", Kind: plan.ConnectionMCP, Transport: plan.TransportStdio, Command: "replaced"}
	fine := plan.Connection{ID: "fine", Kind: plan.ConnectionMCP, Transport: plan.TransportStdio, Command: "fine"}
	return &plan.Flow{Connections: []plan.Connection{npx, mine, fine, set}, Agents: []plan.Flow{{Connections: []plan.Connection{npx, odd}}}}
}

// TestApproveCommands checks that -dev asks once on the terminal, and that only y or yes approves the commands.
func TestApproveCommands(t *testing.T) {
	cfg := &config.Config{AllowCommands: []string{"fine"}, Connections: map[string]tool.Connection{"mine": {}}}
	for typed, yes := range map[string]bool{"y\n": true, "Yes \n": true, "\n": false, "n\n": false, "yesterday\n": false, "\x04": false} {
		t.Run(strings.TrimSpace(typed), func(t *testing.T) {
			master, slave := pseudoTerminal(t)
			t.Cleanup(func() { slave.Close() })
			a := &app{stdin: slave, stderr: slave, env: mapEnv{"XDG_STATE_HOME": t.TempDir()}, flags: flags{dev: true}}
			approved := make(chan error, 1)
			go func() { approved <- a.approveCommands(cfg, commandFlow()) }()
			// Wait for the end of the question, because the terminal could echo earlier input in the middle of it.
			out := readTerminal(t, master, "[y/N] ")
			typeText(t, master, typed)
			err := <-approved
			if !strings.Contains(out, "the flow starts on this machine:\r\n\tnpx -y 'a b'\r\n\tcd '/srv/a b' && A='b c' fine\r\n\t\"x\\x1b[2J\"\r\ndev: allow it? [y/N] ") {
				t.Errorf("terminal = %q", out)
			}
			if yes != (err == nil) || !yes && !strings.Contains(err.Error(), `allow_commands: ["fine", "npx", "x\x1b[2J"] and allow_env: ["A"] and allow_dirs: ["/srv/a b"]`) {
				t.Errorf("error after %q = %v", typed, err)
			}
			// The second call does not ask: an approval is remembered, and without one it fails as stdin is not a terminal.
			a.stdin, a.stderr = strings.NewReader("y\n"), &strings.Builder{}
			if err := a.approveCommands(cfg, commandFlow()); yes != (err == nil) {
				t.Errorf("error of the second call after %q = %v", typed, err)
			}
		})
	}
}

// readTerminal reads what was written to a terminal until it contains a text.
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
