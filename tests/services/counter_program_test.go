package services

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// counterFile names, for a test's own program, the file in which it notes calls as a [countingServer].
const counterFile = "COUNTER_FILE"

// countingServer is a command that serves MCP and counts in its memory: the test's own program, if its main calls [serveCounter].
type countingServer struct {
	Command string
	Env     map[string]string
	file    string
}

// newCounter is a counter without processes.
func newCounter(t testing.TB) *countingServer {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := t.TempDir() + "/calls"
	return &countingServer{Command: path, Env: map[string]string{counterFile: file}, file: file}
}

// Called is what the last call noted: its tool, and the process that has the counter's as its child.
func (c *countingServer) Called() (name string, parent int) {
	raw, _ := os.ReadFile(c.file) // there is none before the first call
	_, _ = fmt.Sscan(string(raw), &name, &parent)
	return name, parent
}

// serveCounter serves tools on standard input and output and exits, if a [countingServer] was started: add counts and says how far,
// hang does not answer.
func serveCounter() {
	file := os.Getenv(counterFile)
	if file == "" {
		return
	}
	n := 0
	note := func(name string) {
		_ = os.WriteFile(file, fmt.Appendf(nil, "%s %d", name, os.Getppid()), 0o600)
	}
	s := server.NewMCPServer("counter", "1")
	s.AddTool(mcp.NewTool("add"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		n++
		note("add")
		return mcp.NewToolResultText(fmt.Sprintf("count %d", n)), nil
	})
	s.AddTool(mcp.NewTool("hang"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		note("hang")
		<-ctx.Done() // with the client
		return nil, ctx.Err()
	})
	if err := server.ServeStdio(s); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}
