package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/workflows/plan"
)

// slowLine is a line to a server on which nothing passes while it is stopped.
type slowLine struct{ stopped sync.RWMutex }

// start returns the address of the line's end.
func (l *slowLine) start(t *testing.T, to string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	pass := func(from, to net.Conn) {
		defer from.Close()
		defer to.Close()
		buffer := make([]byte, 64<<10)
		for {
			n, err := from.Read(buffer)
			l.stopped.RLock()
			_, failed := to.Write(buffer[:n])
			l.stopped.RUnlock()
			if err != nil || failed != nil {
				return
			}
		}
	}
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				continue
			}
			go pass(near, far)
			go pass(far, near)
		}
	}()
	return listener.Addr().String()
}

// TestEndToEndSlowHeartbeats has heartbeats take longer than the SDK waits for them, and less than the heartbeat timeout: the call goes
// on, and is made once.
func TestEndToEndSlowHeartbeats(t *testing.T) {
	t.Parallel()
	var calls, cancelled atomic.Int32
	entered, line := make(chan struct{}, 10), &slowLine{}
	s := server.NewMCPServer("slow", "1")
	s.AddTool(mcp.NewTool("send"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		calls.Add(1)
		entered <- struct{}{}
		select {
		case <-ctx.Done():
			cancelled.Add(1)
		case <-time.After(8 * time.Second):
		}
		return mcp.NewToolResultText("sent"), nil
	})
	web := httptest.NewServer(server.NewStreamableHTTPServer(s))
	t.Cleanup(web.Close)
	file := filepath.Join(t.TempDir(), "weft.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "connections: {web: {url: %q}}\n", web.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	h := &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}
	harness.StartWorker(t, line.start(t, harness.ServerAddress(t)), "WEFT_TASK_QUEUE="+h.Queue, "WEFT_CONFIG="+file)
	f := harness.OneAgent()
	f.Policy.HeartbeatSeconds = 20
	f.Connections = []plan.Connection{{ID: "web"}}
	f.Nodes[0].Agent.Tools = []plan.Tool{{Name: "send", As: "send", Connection: "web"}}
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: f}, Script: harness.Script(t, `rules:
- {turn: 1, call: [{tool: send}]}
- {contains: sent, say: sent}
- {say: lost}`)})
	<-entered
	line.stopped.Lock()
	time.Sleep(4 * time.Second)
	line.stopped.Unlock()
	out, err := harness.Result(t, run)
	if err != nil {
		t.Fatal(err)
	}
	if *out.ResultText != "sent" || calls.Load() != 1 || cancelled.Load() != 0 {
		t.Errorf("the call was %s; it was made %d times, and cancelled %d times", *out.ResultText, calls.Load(), cancelled.Load())
	}
}
