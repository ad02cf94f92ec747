package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"weft/activities/contract"
	"weft/tests/programs"
	"weft/workflows/plan"
)

// helperMode is the variable that turns this test binary into a command that serves MCP.
const helperMode = "TOOL_TEST_HELPER"

// TestMain runs the tests and then checks for leaked goroutines.
func TestMain(m *testing.M) {
	if mode := os.Getenv(helperMode); mode != "" {
		helper(mode)
		return
	}
	before := runtime.NumGoroutine()
	code := m.Run()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	for deadline := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > before+2 && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); code == 0 && n > before+2 {
		buf := make([]byte, 1<<20)
		fmt.Printf("%d goroutines at the start, %d at the end:\n%s\n", before, n, buf[:runtime.Stack(buf, true)])
		code = 1
	}
	os.Exit(code)
}

// helper is the command that the stdio tests start.
func helper(mode string) {
	switch mode {
	case "serve":
		if err := server.ServeStdio(newServer(nil)); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	case "library":
		_ = server.ServeStdio(library())
	case "asks":
		s := &programs.RequestingServer{}
		if err := json.Unmarshal([]byte(os.Getenv("ASKS")), s); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		s.Serve(os.Stdin, os.Stdout)
	case "crash":
		fmt.Fprintln(os.Stderr, "no such key:", os.Getenv("API_KEY"))
		os.Exit(3)
	case "deaf": // never reads its input
		time.Sleep(time.Hour)
	}
}

// echoSchema has parts that decoding into a typed schema would lose or reorder.
const echoSchema = `{"type":"object","required":["text"],"properties":{"text":{"type":["string","null"],"x-own":1.50}},"allOf":[{"minProperties":1}]}`

// newServer returns a server with the tools of the tests. entered receives a value when slow starts, and another when its
// context ends.
func newServer(entered chan<- string) *server.MCPServer {
	s := server.NewMCPServer("test", "1", server.WithToolCapabilities(true), server.WithPaginationLimit(3))
	add := func(name string, h server.ToolHandlerFunc) {
		s.AddTool(mcp.NewTool(name, mcp.WithDescription("tool "+name)), h)
	}
	s.AddTool(mcp.NewToolWithRawSchema("echo", "says it again", json.RawMessage(echoSchema)),
		func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText(string(r.Params.RawArguments)), nil
		})
	add("big", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{}, RawStructuredContent: json.RawMessage(`{"id":12345678901234567890,"x":1.10}`)}, nil
	})
	add("refuse", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultError("no such city"), nil
	})
	add("broken", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, errors.New("handler broke")
	})
	add("slow", func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if entered != nil {
			entered <- "begins"
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
		}
		if entered != nil {
			entered <- "ends"
		}
		return nil, ctx.Err()
	})
	add("huge", func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(strings.Repeat("x", r.GetInt("n", 0))), nil
	})
	add("meta", func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		key, _ := r.Params.Meta.AdditionalFields[metaKey].(string)
		return mcp.NewToolResultText(key + " " + r.Header.Get("Idempotency-Key")), nil
	})
	add("progress", func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := 1; i <= 3; i++ {
			if err := s.SendNotificationToClient(ctx, "notifications/progress", map[string]any{
				"progressToken": r.Params.Meta.ProgressToken, "progress": i, "total": 3, "message": fmt.Sprintf("part %d", i),
			}); err != nil {
				return nil, err
			}
		}
		// Over stdio the library does not order notifications and responses.
		time.Sleep(100 * time.Millisecond)
		return mcp.NewToolResultText("done"), nil
	})
	addProcessTools(add)
	return s
}

// addProcessTools adds tools that inspect or end the server process.
func addProcessTools(add func(string, server.ToolHandlerFunc)) {
	add("environ", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		dir, err := os.Getwd()
		return mcp.NewToolResultText(strings.Join(append(os.Environ(), "cwd="+dir), "\n")), err
	})
	add("spawn", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		return mcp.NewToolResultText(fmt.Sprintf("%d %d", os.Getpid(), cmd.Process.Pid)), nil
	})
	add("die", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		fmt.Fprintln(os.Stderr, "out of cheese")
		os.Exit(7)
		return nil, nil
	})
}

// connection is the id of the connection that the tests configure.
const connection = "c"

// open opens tools with one connection and closes them at the end of the test.
func open(t *testing.T, c Connection, change ...func(*Settings)) *Tools {
	t.Helper()
	s := Settings{Connections: map[string]Connection{connection: c}}
	for _, f := range change {
		f(&s)
	}
	tools, err := Open(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tools.Close)
	return tools
}

// start starts an HTTP server with handler h.
func start(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// overHTTP starts the test server over streamable HTTP.
func overHTTP(t *testing.T, entered chan<- string) Connection {
	t.Helper()
	return Connection{URL: start(t, server.NewStreamableHTTPServer(newServer(entered))).URL + "/mcp"}
}

// overSSE starts the test server over SSE.
func overSSE(t *testing.T, entered chan<- string) Connection {
	t.Helper()
	s := start(t, nil)
	s.Config.Handler = server.NewSSEServer(newServer(entered), server.WithBaseURL(s.URL))
	return Connection{Transport: TransportSSE, URL: s.URL + "/sse"}
}

// overStdio returns a connection whose command is this test binary.
func overStdio(t *testing.T, mode string) Connection {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Connection{Command: self, Env: map[string]string{helperMode: mode, "GORACE": "atexit_sleep_ms=0"}}
}

func withTimeout(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func call(name, args string) contract.ToolInput {
	return contract.ToolInput{Connection: plan.Connection{ID: connection}, Name: name, Arguments: json.RawMessage(args)}
}

// mustCall returns the text of a call that must succeed.
func mustCall(t *testing.T, tools *Tools, name, args string) string {
	t.Helper()
	text, isError, err := resultText(tools.Call(withTimeout(t, time.Minute), call(name, args), Meta{}))
	if err != nil || isError {
		t.Fatalf("call %s: %q, isError %v, err %v", name, text, isError, err)
	}
	return text
}

// wantFailure checks that an error is a failure of a class and that its text contains parts.
func wantFailure(t *testing.T, err error, class string, parts ...string) *contract.Failure {
	t.Helper()
	f, ok := err.(*contract.Failure)
	if !ok {
		t.Fatalf("error is %T %v, want a failure of class %s", err, err, class)
	}
	if f.Class != class {
		t.Errorf("class is %s, want %s: %v", f.Class, class, f)
	}
	for _, part := range parts {
		if !strings.Contains(f.Error(), part) {
			t.Errorf("failure %q does not contain %q", f.Error(), part)
		}
	}
	return f
}

// resultText returns the text of a result, and whether the tool reported an error.
func resultText(r Result, err error) (string, bool, error) { return r.Text, r.Failed, err }
