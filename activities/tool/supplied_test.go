package tool

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// TestFlowCommand checks that a command that a flow supplies is started only if the operator allows it.
func TestFlowCommand(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := plan.Connection{ID: "flow", Kind: plan.ConnectionMCP, Transport: plan.TransportStdio, Command: "/bin/sh",
		Args: []string{"-c", helperMode + `=serve exec "` + self + `"`}}
	list := func(c plan.Connection, allowed ...string) ([]contract.ToolSpec, error) {
		tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.AllowCommands = allowed })
		return tools.List(withTimeout(t, time.Minute), c)
	}
	_, err = list(c)
	wantFailure(t, err, contract.ClassConnection, `wants the command "/bin/sh" started`, `allow_commands: ["/bin/sh"]`, "connections.flow")
	_, err = list(c, "sh", "/bin/s")
	wantFailure(t, err, contract.ClassConnection, "has not allowed")
	for _, allowed := range []string{"/bin/sh", "*"} {
		if specs, err := list(c, allowed); err != nil || len(specs) == 0 {
			t.Errorf("allow_commands %s: %d tools, %v", allowed, len(specs), err)
		}
	}
	interactive := open(t, Connection{URL: "http://x"}, func(s *Settings) {
		s.AllowCommand = func(own Connection) bool {
			return own.Command == "/bin/sh" && len(own.Args) == 2 && own.Args[1] == c.Args[1] && len(own.Env) == 0 && own.Dir == ""
		}
	})
	if specs, err := interactive.List(withTimeout(t, time.Minute), c); err != nil || len(specs) == 0 {
		t.Errorf("allowed by AllowCommand: %d tools, %v", len(specs), err)
	}
	_, err = interactive.List(withTimeout(t, time.Minute), plan.Connection{ID: "flow", Kind: plan.ConnectionMCP, Transport: plan.TransportStdio, Command: "/bin/sh", Args: []string{"-c", "true"}})
	wantFailure(t, err, contract.ClassConnection, "has not allowed", "starter -dev -allow-commands")
	c.Headers = []plan.Header{{Name: "A", Value: "b"}}
	_, err = list(c, "*")
	wantFailure(t, err, contract.ClassConnection, "are settings of transports http and sse")
	// An operator's connection with the same id replaces the one of the flow.
	sameID := plan.Connection{ID: connection, Kind: plan.ConnectionMCP, Transport: plan.TransportStdio, Command: "evil"}
	tools := open(t, overStdio(t, "serve"))
	if specs, err := tools.List(withTimeout(t, time.Minute), sameID); err != nil || len(specs) == 0 {
		t.Errorf("operator's connection: %d tools, %v", len(specs), err)
	}
}

// TestFlowCommandEnvironment checks that variables and the folder of a flow's command must be allowed separately, and are applied.
func TestFlowCommandEnvironment(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	inner := filepath.Join(dir, "inner")
	if err := os.Mkdir(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(inner, link); err != nil {
		t.Fatal(err)
	}
	command := func(in string) plan.Connection {
		return plan.Connection{ID: "flow", Kind: plan.ConnectionMCP, Transport: plan.TransportStdio, Command: "/bin/sh", Dir: in,
			Env:  []plan.Header{{Name: "GREETING", Value: "a b"}, {Name: "LD_PRELOAD", Value: ""}},
			Args: []string{"-c", `test "$GREETING" = "a b" && echo "$PWD" >here && ` + helperMode + `=serve exec "` + self + `"`}}
	}
	list := func(c plan.Connection, env, dirs []string) ([]contract.ToolSpec, error) {
		tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.AllowCommands, s.AllowEnv, s.AllowDirs = []string{"/bin/sh"}, env, dirs })
		return tools.List(withTimeout(t, time.Minute), c)
	}
	both := []string{"GREETING", "LD_PRELOAD"}
	for name, tc := range map[string]struct {
		in        string
		env, dirs []string
		want      []string
	}{
		"nothing allowed":                 {inner, nil, nil, []string{`the variable GREETING set`, `started in "` + inner, `allow_env: ["GREETING"] and allow_env: ["LD_PRELOAD"] and allow_dirs: ["` + inner + `"]`, "connections.flow"}},
		"one variable not allowed":        {inner, []string{"GREETING"}, []string{dir}, []string{`the variable LD_PRELOAD set`, "has not allowed"}},
		"sibling folder":                  {inner, both, []string{inner + "x"}, []string{"started in", "has not allowed"}},
		"parent folder":                   {inner + "/../..", both, []string{dir}, []string{"started in", "has not allowed"}},
		"symbolic link out of the folder": {link, both, []string{filepath.Dir(link)}, []string{"started in", "has not allowed"}},
		"relative folder":                 {"inner", both, []string{"/"}, []string{"write absolute paths"}},
	} {
		_, err := list(command(tc.in), tc.env, tc.dirs)
		if wantFailure(t, err, contract.ClassConnection, tc.want...); t.Failed() {
			t.Fatal(name)
		}
	}
	for _, allowed := range [][2][]string{{both, {inner}}, {{"*"}, {dir}}, {{"*"}, {"/"}}} {
		if specs, err := list(command(inner), allowed[0], allowed[1]); err != nil || len(specs) == 0 {
			t.Errorf("allowed %v: %d tools, %v", allowed, len(specs), err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(inner, "here")); err != nil || !strings.HasSuffix(strings.TrimSpace(string(got)), "/inner") {
		t.Errorf("command started in %q, %v", got, err)
	}
	// A relative command would be resolved in the folder of the flow.
	c := command(inner)
	c.Command = "./sh"
	_, err = list(c, both, []string{"/"})
	wantFailure(t, err, contract.ClassConnection, "write absolute paths")
}

// TestFlowHeaders checks that headers that a flow supplies are validated and sent with its requests.
func TestFlowHeaders(t *testing.T) {
	seen := make(chan string, 10)
	web := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("X-Tenant")
		http.Error(w, "gone", http.StatusGone)
	}))
	tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.AllowPrivate = true })
	c := plan.Connection{ID: "flow", Kind: plan.ConnectionMCP, URL: web.URL, Headers: []plan.Header{{Name: "X-Tenant", Value: "blue"}}}
	if _, err := tools.List(withTimeout(t, time.Minute), c); err == nil {
		t.Error("server with status 410 listed tools")
	}
	if got := <-seen; got != "blue" {
		t.Errorf("header is %q, want blue", got)
	}
	c.Headers = []plan.Header{{Name: "Bad name", Value: "x"}}
	_, err := tools.List(withTimeout(t, time.Minute), c)
	wantFailure(t, err, contract.ClassConnection, `connection "flow".headers`)
}
