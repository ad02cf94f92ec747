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

// pausableProxy is a TCP proxy that forwards nothing while it is stopped.
type pausableProxy struct{ stopped sync.RWMutex }

// start listens for connections to forward to an address, and returns the proxy's own.
func (p *pausableProxy) start(t *testing.T, to string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	forward := func(from, to net.Conn) {
		defer from.Close()
		defer to.Close()
		buffer := make([]byte, 64<<10)
		for {
			n, err := from.Read(buffer)
			p.stopped.RLock()
			_, writeErr := to.Write(buffer[:n])
			p.stopped.RUnlock()
			if err != nil || writeErr != nil {
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
			go forward(near, far)
			go forward(far, near)
		}
	}()
	return listener.Addr().String()
}

// TestEndToEndSlowHeartbeats checks that a call continues, and is made once, if a heartbeat takes longer than the SDK
// waits for it, but less than the heartbeat timeout.
func TestEndToEndSlowHeartbeats(t *testing.T) {
	t.Parallel()
	var calls, cancelled atomic.Int32
	entered, proxy := make(chan struct{}, 10), &pausableProxy{}
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
	harness.StartWorker(t, proxy.start(t, harness.ServerAddress(t)), "WEFT_TASK_QUEUE="+h.Queue, "WEFT_CONFIG="+file)
	f := harness.OneAgent()
	f.Policy.HeartbeatSeconds = 20
	f.Connections = []plan.Connection{{ID: "web"}}
	f.Nodes[0].Agent.Tools = []plan.Tool{{Name: "send", As: "send", Connection: "web"}}
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: f}, Script: harness.Script(t, `rules:
- {turn: 1, call: [{tool: send}]}
- {contains: sent, say: sent}
- {say: lost}`)})
	<-entered
	proxy.stopped.Lock()
	time.Sleep(4 * time.Second)
	proxy.stopped.Unlock()
	out, err := harness.Result(t, run)
	if err != nil {
		t.Fatal(err)
	}
	if *out.ResultText != "sent" || calls.Load() != 1 || cancelled.Load() != 0 {
		t.Errorf("result = %q after %d calls, %d of them cancelled", *out.ResultText, calls.Load(), cancelled.Load())
	}
}
