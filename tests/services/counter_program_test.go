package services

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// counterFile is the environment variable with the file in which the test binary, started as a [countingServer], records calls.
const counterFile = "COUNTER_FILE"

// countingServer is a stdio MCP server that counts in memory: the test binary, whose TestMain calls [serveCounter].
type countingServer struct {
	command string
	env     map[string]string
	file    string
}

// newCounter returns a counting server. Workers start its processes.
func newCounter(t testing.TB) *countingServer {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := t.TempDir() + "/calls"
	return &countingServer{command: path, env: map[string]string{counterFile: file}, file: file}
}

// lastCall returns the tool of the last call, and the parent process of the server that received it.
func (c *countingServer) lastCall() (name string, parent int) {
	raw, _ := os.ReadFile(c.file) // it does not exist before the first call
	_, _ = fmt.Sscan(string(raw), &name, &parent)
	return name, parent
}

// serveCounter serves tools over stdio and exits if the test binary was started as a [countingServer]: add increments the counter
// and returns it, hang never responds.
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
		<-ctx.Done() // when the client exits
		return nil, ctx.Err()
	})
	if err := server.ServeStdio(s); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}
