package tool

import (
	"net/http"
	"os"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// A flow's own command is started only where the operator allows it.
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
		s.AllowCommand = func(command string, args []string) bool {
			return command == "/bin/sh" && len(args) == 2 && args[1] == c.Args[1]
		}
	})
	if specs, err := asked.List(soon(t, time.Minute), c); err != nil || len(specs) == 0 {
		t.Errorf("allowed by the worker's user: %d tools, %v", len(specs), err)
	}
	_, err = asked.List(soon(t, time.Minute), plan.Connection{ID: "flow", Kind: plan.ConnectionMCP, Transport: plan.TransportStdio, Command: "/bin/sh", Args: []string{"-c", "true"}})
	fails(t, err, contract.ClassConnection, "has not allowed", "starter -dev -allow-commands")
	c.Headers = []plan.Header{{Name: "A", Value: "b"}}
	_, err = list(c, "*")
	fails(t, err, contract.ClassConnection, "belong to transport http or sse")
	// The operator's own connection of that id counts instead, whatever the flow writes.
	mine := plan.Connection{ID: connection, Kind: plan.ConnectionMCP, Transport: plan.TransportStdio, Command: "evil"}
	tools := open(t, overStdio(t, "serve"))
	if specs, err := tools.List(soon(t, time.Minute), mine); err != nil || len(specs) == 0 {
		t.Errorf("the operator's: %d tools, %v", len(specs), err)
	}
}

// Headers that a flow brings go with its requests, and are checked.
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
