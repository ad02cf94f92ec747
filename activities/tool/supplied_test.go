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

// A flow's own command is started only if the operator allows it.
func TestCommandOfAFlow(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := plan.Connection{ID: "flow", Kind: plan.ConnectionMCP, Transport: plan.TransportStdio, Command: "/bin/sh",
		Args: []string{"-c", helperMode + `=serve exec "` + self + `"`}}
	list := func(c plan.Connection, allowed ...string) ([]contract.ToolSpec, error) {
		tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.AllowCommands = allowed })
		return tools.List(soon(t, time.Minute), c)
	}
	_, err = list(c)
	fails(t, err, contract.ClassConnection, `wants the command "/bin/sh" started`, `allow_commands: ["/bin/sh"]`, "connections.flow")
	_, err = list(c, "sh", "/bin/s")
	fails(t, err, contract.ClassConnection, "has not allowed")
	for _, allowed := range []string{"/bin/sh", "*"} {
		if specs, err := list(c, allowed); err != nil || len(specs) == 0 {
			t.Errorf("with %s: %d tools, %v", allowed, len(specs), err)
		}
	}
	asked := open(t, Connection{URL: "http://x"}, func(s *Settings) {
		s.AllowCommand = func(own Connection) bool {
			return own.Command == "/bin/sh" && len(own.Args) == 2 && own.Args[1] == c.Args[1] && len(own.Env) == 0 && own.Dir == ""
		}
	})
	if specs, err := asked.List(soon(t, time.Minute), c); err != nil || len(specs) == 0 {
		t.Errorf("allowed by the worker's user: %d tools, %v", len(specs), err)
	}
	_, err = asked.List(soon(t, time.Minute), plan.Connection{ID: "flow", Kind: plan.ConnectionMCP, Transport: plan.TransportStdio, Command: "/bin/sh", Args: []string{"-c", "true"}})
	fails(t, err, contract.ClassConnection, "has not allowed", "starter -dev -allow-commands")
	c.Headers = []plan.Header{{Name: "A", Value: "b"}}
	_, err = list(c, "*")
	fails(t, err, contract.ClassConnection, "are settings of transports http and sse")
	// The operator's own connection of that id counts instead, whatever the flow writes.
	mine := plan.Connection{ID: connection, Kind: plan.ConnectionMCP, Transport: plan.TransportStdio, Command: "evil"}
	tools := open(t, overStdio(t, "serve"))
	if specs, err := tools.List(soon(t, time.Minute), mine); err != nil || len(specs) == 0 {
		t.Errorf("the operator's: %d tools, %v", len(specs), err)
	}
}

// Variables and the folder of a flow's command are allowed apart from it, and are the command's.
func TestSurroundingsOfAFlowsCommand(t *testing.T) {
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
		return tools.List(soon(t, time.Minute), c)
	}
	both := []string{"GREETING", "LD_PRELOAD"}
	for name, tc := range map[string]struct {
		in        string
		env, dirs []string
		want      []string
	}{
		"nothing is allowed":       {inner, nil, nil, []string{`the variable GREETING set`, `started in "` + inner, `allow_env: ["GREETING"] and allow_env: ["LD_PRELOAD"] and allow_dirs: ["` + inner + `"]`, "connections.flow"}},
		"a variable is missing":    {inner, []string{"GREETING"}, []string{dir}, []string{`the variable LD_PRELOAD set`, "has not allowed"}},
		"a folder beside":          {inner, both, []string{inner + "x"}, []string{"started in", "has not allowed"}},
		"a folder above":           {inner + "/../..", both, []string{dir}, []string{"started in", "has not allowed"}},
		"a link out of the folder": {link, both, []string{filepath.Dir(link)}, []string{"started in", "has not allowed"}},
		"a relative folder":        {"inner", both, []string{"/"}, []string{"write absolute paths"}},
	} {
		_, err := list(command(tc.in), tc.env, tc.dirs)
		if fails(t, err, contract.ClassConnection, tc.want...); t.Failed() {
			t.Fatal(name)
		}
	}
	for _, allowed := range [][2][]string{{both, {inner}}, {{"*"}, {dir}}, {{"*"}, {"/"}}} {
		if specs, err := list(command(inner), allowed[0], allowed[1]); err != nil || len(specs) == 0 {
			t.Errorf("with %v: %d tools, %v", allowed, len(specs), err)
		}
	}
	if said, err := os.ReadFile(filepath.Join(inner, "here")); err != nil || !strings.HasSuffix(strings.TrimSpace(string(said)), "/inner") {
		t.Errorf("the command was started in %q, %v", said, err)
	}
	// A program that a folder of the flow's would choose.
	c := command(inner)
	c.Command = "./sh"
	_, err = list(c, both, []string{"/"})
	fails(t, err, contract.ClassConnection, "write absolute paths")
}

// Headers that a flow supplies are validated and sent with its requests.
func TestHeadersOfAFlow(t *testing.T) {
	seen := make(chan string, 10)
	web := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("X-Tenant")
		http.Error(w, "gone", http.StatusGone)
	}))
	tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.AllowPrivate = true })
	c := plan.Connection{ID: "flow", Kind: plan.ConnectionMCP, URL: web.URL, Headers: []plan.Header{{Name: "X-Tenant", Value: "blue"}}}
	if _, err := tools.List(soon(t, time.Minute), c); err == nil {
		t.Error("a server that is gone lists tools")
	}
	if got := <-seen; got != "blue" {
		t.Errorf("the header is %q", got)
	}
	c.Headers = []plan.Header{{Name: "Bad name", Value: "x"}}
	_, err := tools.List(soon(t, time.Minute), c)
	fails(t, err, contract.ClassConnection, `connection "flow".headers`)
}
