package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// versionedServer is a hand-written server that supports only one protocol version.
type versionedServer struct {
	version string

	// later lists the supported versions of the protocol generation without a handshake.
	later []string

	mu sync.Mutex
	// offered is the version that the client requested first, received lists the version headers of
	// tools/call.
	offered  string
	received []string
}

func (d *versionedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			ProtocolVersion string
		}
	}
	_ = json.Unmarshal(body, &m)
	d.mu.Lock()
	defer d.mu.Unlock()
	if requested := r.Header.Get("Mcp-Protocol-Version"); d.later != nil && !slices.Contains(d.later, requested) {
		supported, _ := json.Marshal(d.later)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"Unsupported protocol version","data":{"requested":%q,"supported":%s}}}`,
			m.ID, mcp.UNSUPPORTED_PROTOCOL_VERSION, requested, supported)
		return
	}
	switch m.Method {
	case "initialize":
		d.offered = m.Params.ProtocolVersion
		result(w, m.ID, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"dated","version":"1"}}`, d.version))
	case "tools/list":
		result(w, m.ID, `{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`)
	case "tools/call":
		d.received = append(d.received, r.Header.Get("Mcp-Protocol-Version"))
		result(w, m.ID, `{"content":[{"type":"text","text":"ok"}]}`)
	case "notifications/initialized":
		w.WriteHeader(http.StatusAccepted)
	default:
		reply400(w, m.ID, -32601, "Method not found")
	}
}

// rejectingServer is a server that rejects other versions with an error.
type rejectingServer struct {
	versionedServer
	status, code int
}

func (d *rejectingServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ ProtocolVersion string }
	}
	_ = json.Unmarshal(body, &m)
	if m.Method == "initialize" && m.Params.ProtocolVersion != d.version {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(d.status)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"Unsupported protocol version","data":{"requested":%q,"supported":["1999-01-01",%q]}}}`,
			m.ID, d.code, m.Params.ProtocolVersion, d.version)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	d.versionedServer.ServeHTTP(w, r)
}

// TestVersions checks that tools work with every published protocol version, which is sent with each call, and that an unknown
// version is an error that an operator must fix.
func TestVersions(t *testing.T) {
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			d := &versionedServer{version: version}
			tools := open(t, Connection{URL: start(t, d).URL})
			specs, err := tools.List(withTimeout(t, time.Minute), plan.Connection{ID: connection})
			if err != nil || len(specs) != 1 || specs[0].Name != "x" {
				t.Fatalf("%v, %v", specs, err)
			}
			if text := mustCall(t, tools, "x", `{}`); text != "ok" {
				t.Errorf("got %q", text)
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.offered == "" || len(d.received) != 1 || d.received[0] != version {
				t.Errorf("client offered %q and sent the versions %q", d.offered, d.received)
			}
		})
	}
	for name, d := range map[string]*rejectingServer{
		"rejected with a status":          {versionedServer: versionedServer{version: "2025-06-18"}, status: 400, code: mcp.UNSUPPORTED_PROTOCOL_VERSION},
		"rejected with an error response": {versionedServer: versionedServer{version: "2025-06-18"}, status: 200, code: mcp.INVALID_PARAMS},
		"rejected, older version":         {versionedServer: versionedServer{version: "2024-11-05"}, status: 200, code: mcp.UNSUPPORTED_PROTOCOL_VERSION},
	} {
		t.Run(name, func(t *testing.T) {
			if text := mustCall(t, open(t, Connection{URL: start(t, d).URL}), "x", `{}`); text != "ok" {
				t.Errorf("got %q", text)
			}
		})
	}
	for name, d := range map[string]*versionedServer{
		"too old": {version: "1999-01-01"}, "missing": {}, "not a date": {version: "latest"}, "too new": {later: []string{"2099-01-01"}},
	} {
		t.Run(name, func(t *testing.T) {
			tools := open(t, Connection{URL: start(t, d).URL})
			_, err := tools.List(withTimeout(t, time.Minute), plan.Connection{ID: connection})
			wantFailure(t, err, contract.ClassConnection, "version")
			if f := contract.FailureOf(err); !strings.Contains(f.Text, "protocol version") || !strings.Contains(f.Text, d.version+strings.Join(d.later, "")) || !strings.Contains(f.Remedy, "2025-06-18") {
				t.Errorf("failure is %+v", f)
			}
		})
	}
}
