package tool

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// authority is a certificate authority for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{}
	a.cert, a.key, _, _ = a.issue(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// issue returns a certificate as a tls.Certificate and as PEM.
func (a *authority) issue(t *testing.T, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey, string, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(1), pkix.Name{CommonName: "test"}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := c, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// newMutualTLSServer starts a server that requires client certificates. The CA, certificate and key for its clients are PEM.
func newMutualTLSServer(t *testing.T, h http.Handler) (srv *httptest.Server, ca, cert, key string) {
	t.Helper()
	a := newAuthority(t)
	_, _, serverCert, serverKey := a.issue(t, &x509.Certificate{DNSNames: []string{"localhost"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	_, _, cert, key = a.issue(t, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	pair, err := tls.X509KeyPair([]byte(serverCert), []byte(serverKey))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	srv = httptest.NewUnstartedServer(h)
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})), cert, key
}

// TestFlowMutualTLS checks that certificates that a flow names are presented to servers that require them, over both transports;
// unknown ones, and those bound to another host, are rejected.
func TestFlowMutualTLS(t *testing.T) {
	dir := t.TempDir()
	for name, h := range map[string]http.Handler{
		plan.TransportSSE: server.NewSSEServer(newServer(nil)), "": server.NewStreamableHTTPServer(newServer(nil)),
	} {
		srv, ca, cert, key := newMutualTLSServer(t, h)
		at, err := url.Parse(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		host, path := "localhost:"+at.Port(), "/mcp"
		if name == plan.TransportSSE {
			path = "/sse"
		}
		// The certificate is given as PEM, the key as the path of a file.
		keyFile := filepath.Join(dir, "key"+name+".pem")
		if err := os.WriteFile(keyFile, []byte(key), 0o600); err != nil {
			t.Fatal(err)
		}
		all := map[string]Secret{"c.ca_file": {ca, []string{host}}, "c.cert_file": {cert, []string{host}}, "c.key_file": {keyFile, []string{host}}}
		c := plan.Connection{ID: "flow", Kind: plan.ConnectionMCP, Transport: name, URL: "https://" + host + path,
			TLS: &plan.TLS{CA: "c.ca_file", Cert: "c.cert_file", Key: "c.key_file"}}
		list := func(secrets map[string]Secret, c plan.Connection) error {
			tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.AllowLoopback, s.Secrets = true, secrets })
			specs, err := tools.List(withTimeout(t, time.Minute), c)
			if err == nil && len(specs) == 0 {
				t.Error("no tools")
			}
			return err
		}
		if err := list(all, c); err != nil {
			t.Errorf("transport %q: %v", name, err)
		}
		noClientCert := c
		noClientCert.TLS = &plan.TLS{CA: "c.ca_file"}
		if err := list(all, noClientCert); err == nil {
			t.Errorf("transport %q: client without certificate was accepted", name)
		}
		wantFailure(t, list(nil, c), contract.ClassConnection, `the flow requires the secret "c.ca_file", which is not configured on the worker`, `secrets: {"c.ca_file": {value: "${NAME}", hosts: ["`+host)
		all["c.key_file"] = Secret{keyFile, []string{"example.com"}}
		wantFailure(t, list(all, c), contract.ClassConnection, `the secret "c.key_file" at `+host+`, where it may not be used`, `hosts: ["example.com", "`+host)
		all["c.key_file"] = Secret{filepath.Join(dir, "none"), []string{host}}
		wantFailure(t, list(all, c), contract.ClassConnection, "key_file", "correct the secrets that the flow names")
	}
}

// TestSecretHeaders checks that secret headers are sent with requests, and that their values are masked in results and errors.
func TestSecretHeaders(t *testing.T) {
	seen := make(chan http.Header, 10)
	web := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header
		_, _ = w.Write([]byte("you are " + r.Header.Get("Authorization")))
	}))
	host := web.URL
	tools := open(t, Connection{URL: "http://x"}, func(s *Settings) {
		s.AllowLoopback = true
		s.Secrets = map[string]Secret{"a.one": {"Bearer canary-one", []string{host}}, "a.all": {`{"X-B": "canary-two"}`, []string{host}}, "a.bad": {"canary-three", []string{host}},
			"a.https": {"canary-four", []string{"127.0.0.1", strings.TrimPrefix(host, "http://")}}}
	})
	request := func(secrets ...plan.Header) (string, error) {
		in := call("get", "{}")
		in.Connection = plan.Connection{ID: "http:get", Kind: plan.ConnectionHTTP, URL: web.URL, Secrets: secrets, Requests: []plan.Request{{Name: "get", Method: "GET", Path: "/"}}}
		text, _, err := resultText(tools.Call(withTimeout(t, time.Minute), in, Meta{}))
		return text, err
	}
	text, err := request(plan.Header{Name: "Authorization", Value: "a.one"}, plan.Header{Value: "a.all"})
	if err != nil || text != "you are [secret]" {
		t.Errorf("got %q, %v", text, err)
	}
	if h := <-seen; h.Get("Authorization") != "Bearer canary-one" || h.Get("X-B") != "canary-two" {
		t.Errorf("headers are %v", h)
	}
	_, err = request(plan.Header{Name: "Authorization", Value: "a.https"})
	wantFailure(t, err, contract.ClassConnection, "at "+host+", where it may not be used", `hosts: ["127.0.0.1", `)
	if len(seen) > 0 {
		t.Error("request was sent")
	}
	_, err = request(plan.Header{Value: "a.bad"})
	if f := wantFailure(t, err, contract.ClassConnection, `the secret "a.bad" is not a JSON object of headers`); strings.Contains(f.Error(), "canary") {
		t.Errorf("secret in the error: %v", f)
	}
}

// TestAllCredentialsReported checks that one failure reports all secrets and variables that a connection may not use.
func TestAllCredentialsReported(t *testing.T) {
	tools := open(t, Connection{URL: "http://x"}, func(s *Settings) {
		s.AllowLoopback = true
		s.Variables = map[string]Secret{"UNSET": {Hosts: []string{"http://127.0.0.1:1"}}}
	})
	connection := plan.Connection{ID: "c", Kind: plan.ConnectionHTTP, URL: "http://127.0.0.1:1", Headers: []plan.Header{
		{Name: "X-A", Value: "${env.ONE} ${env.ONE} ${env.TWO}", Secret: true}, {Name: "X-B", Value: "${env.UNSET}", Secret: true}}}
	_, err := tools.locate(connection, "get")
	f := wantFailure(t, err, contract.ClassConnection, "requires the variable TWO, which may not be sent", "requires the variable UNSET, which is not set", `TWO": {hosts:`, "set UNSET or UNSET_FILE")
	if n := strings.Count(f.Text, "variable ONE"); n != 1 {
		t.Errorf("the variable ONE is reported %d times: %s", n, f.Text)
	}
	connection.Secrets = []plan.Header{{Name: "X-C", Value: "a.one"}, {Value: "a.two"}}
	_, err = tools.locate(connection, "get")
	wantFailure(t, err, contract.ClassConnection, `requires the secret "a.one"`, `requires the secret "a.two"`, `"a.two": {value:`)
}

// TestRetryStatuses checks that the retry policy of the flow determines which statuses are retried.
func TestRetryStatuses(t *testing.T) {
	status := 0
	web := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", status) }))
	tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.AllowLoopback = true })
	tests := []struct {
		status int
		retry  *plan.Retry
		class  string // empty: an error result of the tool
	}{
		{409, nil, contract.ClassUnavailable}, {404, nil, ""}, {404, &plan.Retry{Statuses: []int{404}}, contract.ClassUnavailable},
		{503, nil, contract.ClassUnavailable}, {503, &plan.Retry{NoServer: true}, ""}, {503, &plan.Retry{NoServer: true, Statuses: []int{503}}, contract.ClassUnavailable}, {501, nil, ""},
	}
	for _, tc := range tests {
		status = tc.status
		in := call("get", "{}")
		in.Connection = plan.Connection{ID: "http:get", Kind: plan.ConnectionHTTP, URL: web.URL, Retry: tc.retry, Requests: []plan.Request{{Name: "get", Method: "GET", Path: "/"}}}
		text, isError, err := resultText(tools.Call(withTimeout(t, time.Minute), in, Meta{}))
		if tc.class != "" {
			wantFailure(t, err, tc.class)
		} else if err != nil || !isError {
			t.Errorf("%d with %+v: %q, %v", tc.status, tc.retry, text, err)
		}
	}
}
