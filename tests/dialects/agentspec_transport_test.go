package dialects

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/tests/harness"
)

// stdioBox is the argument with which the test program runs as an MCP server on its standard input and output.
const stdioBox = "serve-box-on-stdio"

// box returns an MCP server with one tool.
func box() *server.MCPServer {
	s := server.NewMCPServer("box", "1", server.WithToolCapabilities(false))
	s.AddTool(mcp.NewTool("look", mcp.WithString("at", mcp.Required())), func(_ context.Context, in mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("saw " + in.GetString("at", "nothing")), nil
	})
	return s
}

// serveOnStdio serves box on standard input and output until the input ends, and returns the exit code.
func serveOnStdio() (code int) {
	if err := server.ServeStdio(box()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// certificate returns a self-signed certificate for servers and clients and its key, both as PEM, and the pair.
func certificate(t *testing.T) (cert, key string, pair tls.Certificate) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}))
	key = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	if pair, err = tls.X509KeyPair([]byte(cert), []byte(key)); err != nil {
		t.Fatal(err)
	}
	return cert, key, pair
}

// TestAgentSpecTransports checks that an MCPTool of a node and an MCPToolBox of an agent are called over each transport, with the
// type names of Agent Spec and those of WayFlow's plugin.
func TestAgentSpecTransports(t *testing.T) {
	t.Parallel()
	cert, key, pair := certificate(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(cert))
	plain := func(h http.Handler) string {
		srv := httptest.NewServer(h)
		t.Cleanup(srv.Close)
		return srv.URL
	}
	mutual := func(h http.Handler) string {
		srv := httptest.NewUnstartedServer(h)
		srv.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
		srv.StartTLS()
		t.Cleanup(srv.Close)
		return strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const tlsFields = `,"key_file":{"$component_ref":"c.key"},"cert_file":{"$component_ref":"c.cert"},"ca_file":{"$component_ref":"c.ca"}`
	for kind, fields := range map[string]string{
		"StdioTransport":              fmt.Sprintf(`"command":%q,"args":[%q]`, program, stdioBox),
		"SSETransport":                `"url":"` + plain(server.NewSSEServer(box())) + `/sse"`,
		"StreamableHTTPTransport":     `"url":"` + plain(server.NewStreamableHTTPServer(box())) + `/mcp"`,
		"SSEmTLSTransport":            `"url":"` + mutual(server.NewSSEServer(box())) + `/sse"` + tlsFields,
		"StreamableHTTPmTLSTransport": `"url":"` + mutual(server.NewStreamableHTTPServer(box())) + `/mcp"` + tlsFields,
	} {
		secrets := map[string]tool.Secret{}
		if _, rest, ok := strings.Cut(fields, "https://"); ok {
			host, _, _ := strings.Cut(rest, "/")
			for name, value := range map[string]string{"c.key": key, "c.cert": cert, "c.ca": cert} {
				secrets[name] = tool.Secret{Value: value, Hosts: []string{host}}
			}
		}
		settings := tool.Settings{AllowLoopback: true, AllowCommands: []string{program}, Secrets: secrets}
		for _, prefix := range []string{"", "Plugin"} {
			transport := `{component_type: ` + prefix + kind + `, name: c, ` + fields + `}`
			t.Run(prefix+kind+"/node", func(t *testing.T) {
				doc := specDoc(t, `
flow: {nodes: {s: {component_type: StartNode, inputs: [{title: at, type: string}]}, n: {component_type: ToolNode, tool: "@look"}, e: {component_type: EndNode, outputs: [{title: said, type: string}]}},
  go: ["s > n > e"], data: ["s.at > n.at", "n.said > e.said"]}
look: {component_type: `+prefix+`MCPTool, name: look, inputs: [{title: at, type: string}], outputs: [{title: said, type: string}], client_transport: `+transport+`}`)
				p := harness.TestRun{Document: doc, ToolSettings: settings, SetInput: func(in *contract.RunInput) { in.Params = json.RawMessage(`{"at": "a lamp"}`) }}.Execute(t)
				if p.Err != nil || string(p.Result.ResultData) != `{"said":"saw a lamp"}` {
					t.Errorf("result = %+v, %v", p.Result, p.Err)
				}
			})
			t.Run(prefix+kind+"/toolbox", func(t *testing.T) {
				doc := specDoc(t, `
flow: {component_type: Agent, name: a, human_in_the_loop: false, system_prompt: x, llm_config: "@m", outputs: [{title: said, type: string}],
  toolboxes: [{component_type: `+prefix+`MCPToolBox, name: b, client_transport: `+transport+`}]}`)
				p := harness.TestRun{Document: doc, ToolSettings: settings, Script: `rules:
- {match: "saw a lamp", call: [{tool: submit_result, arguments: {said: done}}]}
- {turn: 1, call: [{tool: look, arguments: {at: a lamp}}]}`}.Execute(t)
				if p.Err != nil || string(p.Result.ResultData) != `{"said":"done"}` {
					t.Errorf("result = %+v, %v", p.Result, p.Err)
				}
			})
		}
	}
}
