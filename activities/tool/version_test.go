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

// dated is a hand-written server that supports only one version of the protocol.
type dated struct {
	version string

	// later are versions after the handshake was given up, of which a server names those that it speaks.
	later []string

	mu sync.Mutex
	// offered is the version that the client began with, told are the headers that came with
	// tools/call.
	offered string
	told    []string
}

func (d *dated) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	if spoken := r.Header.Get("Mcp-Protocol-Version"); d.later != nil && !slices.Contains(d.later, spoken) {
		supported, _ := json.Marshal(d.later)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"Unsupported protocol version","data":{"requested":%q,"supported":%s}}}`,
			m.ID, mcp.UNSUPPORTED_PROTOCOL_VERSION, spoken, supported)
		return
	}
	switch m.Method {
	case "initialize":
		d.offered = m.Params.ProtocolVersion
		result(w, m.ID, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"dated","version":"1"}}`, d.version))
	case "tools/list":
		result(w, m.ID, `{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`)
	case "tools/call":
		d.told = append(d.told, r.Header.Get("Mcp-Protocol-Version"))
		result(w, m.ID, `{"content":[{"type":"text","text":"ok"}]}`)
	case "notifications/initialized":
		w.WriteHeader(http.StatusAccepted)
	default:
		reply400(w, m.ID, -32601, "Method not found")
	}
}

// refusing is a server that rejects other versions and does not name its own.
type refusing struct {
	dated
	status, code int
}

func (d *refusing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	d.dated.ServeHTTP(w, r)
}

// Servers answer with their protocol version: tools work with every published version, which is
// sent with each call. An unknown version is an error that an operator must fix.
func TestVersions(t *testing.T) {
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			d := &dated{version: version}
			tools := open(t, Connection{URL: start(t, d).URL})
			specs, err := tools.List(soon(t, time.Minute), plan.Connection{ID: connection})
			if err != nil || len(specs) != 1 || specs[0].Name != "x" {
				t.Fatalf("%v, %v", specs, err)
			}
			if text := must(t, tools, "x", `{}`); text != "ok" {
				t.Errorf("got %q", text)
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.offered == "" || len(d.told) != 1 || d.told[0] != version {
				t.Errorf("the client offered %q, and told the versions %q", d.offered, d.told)
			}
		})
	}
	for name, d := range map[string]*refusing{
		"refused with a status":      {dated: dated{version: "2025-06-18"}, status: 400, code: mcp.UNSUPPORTED_PROTOCOL_VERSION},
		"refused with an answer":     {dated: dated{version: "2025-06-18"}, status: 200, code: mcp.INVALID_PARAMS},
		"refused, the newest common": {dated: dated{version: "2024-11-05"}, status: 200, code: mcp.UNSUPPORTED_PROTOCOL_VERSION},
	} {
		t.Run(name, func(t *testing.T) {
			if text := must(t, open(t, Connection{URL: start(t, d).URL}), "x", `{}`); text != "ok" {
				t.Errorf("got %q", text)
			}
		})
	}
	for name, d := range map[string]*dated{
		"too old": {version: "1999-01-01"}, "none": {}, "a word": {version: "latest"}, "too new": {later: []string{"2099-01-01"}},
	} {
		t.Run(name, func(t *testing.T) {
			tools := open(t, Connection{URL: start(t, d).URL})
			_, err := tools.List(soon(t, time.Minute), plan.Connection{ID: connection})
			fails(t, err, contract.ClassConnection, "version")
			if f := contract.FailureOf(err); !strings.Contains(f.Text, "protocol version") || !strings.Contains(f.Text, d.version+strings.Join(d.later, "")) || !strings.Contains(f.Remedy, "2025-06-18") {
				t.Errorf("the failure is %+v", f)
			}
		})
	}
}
