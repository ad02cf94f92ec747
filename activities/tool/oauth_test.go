package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/server"

	"weft/activities/contract"
	"weft/activities/mask"
	"weft/activities/oauth"
	"weft/workflows/plan"
)

// loginsInMemory implements [Logins] in memory.
type loginsInMemory struct {
	lock  sync.Mutex
	mu    sync.Mutex
	saved map[string][]byte
}

func (l *loginsInMemory) Load(_ context.Context, id string) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.saved[id] == nil {
		return nil, fs.ErrNotExist
	}
	return l.saved[id], nil
}

func (l *loginsInMemory) Save(_ context.Context, id string, data []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.saved[id] = data
	return nil
}

func (l *loginsInMemory) Lock(context.Context, string) (func(), error) {
	l.lock.Lock()
	return l.lock.Unlock, nil
}

// expire marks the stored token as expired and applies change to it.
func (l *loginsInMemory) expire(t *testing.T, id string, change func(*transport.Token)) {
	stored := map[string]json.RawMessage{}
	var token transport.Token
	data, _ := l.Load(t.Context(), id)
	if err := json.Unmarshal(data, &stored); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(stored["Token"], &token); err != nil {
		t.Fatal(err)
	}
	token.ExpiresAt = time.Now().Add(-time.Minute)
	change(&token)
	stored["Token"], _ = json.Marshal(token)
	data, _ = json.Marshal(stored)
	_ = l.Save(t.Context(), id, data)
}

// oauthServer is an MCP server with its authorization server. Each refresh token is valid once.
type oauthServer struct {
	*httptest.Server
	mu        sync.Mutex
	tokens    int
	refreshed int
}

func newOAuthServer(t *testing.T) *oauthServer {
	o := &oauthServer{}
	mux := http.NewServeMux()
	mcpHandler := server.NewStreamableHTTPServer(server.NewMCPServer("s", "1", server.WithToolCapabilities(true)))
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		valid := o.tokens > 0 && r.Header.Get("Authorization") == fmt.Sprintf("Bearer token-number-%d", o.tokens)
		o.mu.Unlock()
		if !valid {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+o.URL+`/meta", scope="read"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		mcpHandler.ServeHTTP(w, r)
	})
	serveJSON := func(path string, doc func() map[string]any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(doc())
		})
	}
	serveJSON("/meta", func() map[string]any {
		return map[string]any{"resource": o.URL + "/mcp", "authorization_servers": []string{o.URL}}
	})
	serveJSON("/.well-known/oauth-authorization-server", func() map[string]any {
		return map[string]any{"issuer": o.URL, "authorization_endpoint": o.URL + "/authorize", "token_endpoint": o.URL + "/token",
			"registration_endpoint": o.URL + "/register", "authorization_response_iss_parameter_supported": true}
	})
	serveJSON("/register", func() map[string]any { return map[string]any{"client_id": "registered"} })
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if r.FormValue("grant_type") == "refresh_token" {
			o.refreshed++
			if r.FormValue("refresh_token") != fmt.Sprintf("refresh-number-%d", o.tokens) {
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprint(w, `{"error": "invalid_grant"}`)
				return
			}
		}
		o.tokens++
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": fmt.Sprintf("token-number-%d", o.tokens), "refresh_token": fmt.Sprintf("refresh-number-%d", o.tokens), "expires_in": 3600})
	})
	o.Server = httptest.NewServer(mux)
	t.Cleanup(o.Close)
	return o
}

// TestLogin checks a complete login: no token, an invalid issuer, a token, a single renewal by concurrent callers once it has expired, and a
// rejected refresh token.
func TestLogin(t *testing.T) {
	o := newOAuthServer(t)
	logins, masked := &loginsInMemory{saved: map[string][]byte{}}, mask.New()
	open := func() *Tools {
		tools, err := Open(Settings{Logins: logins, Mask: masked, Connections: map[string]Connection{"s": {URL: o.URL + "/mcp", OAuth: oauth.Login}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(tools.Close)
		return tools
	}
	list := func(tools *Tools) error {
		_, err := tools.List(t.Context(), plan.Connection{ID: "s"})
		return err
	}
	wantLoginRequired := func(err error) {
		t.Helper()
		if f := contract.FailureOf(err); err == nil || f.Class != contract.ClassDenied || !strings.Contains(f.Remedy, "worker login s") {
			t.Fatalf("got %v, want a failure whose remedy is the login command", err)
		}
	}
	logIn := func(ctx context.Context, issuer string) error {
		return open().Login(ctx, "s", "http://127.0.0.1:1/callback", func(_ context.Context, page string) (url.Values, error) {
			u, err := url.Parse(page)
			if err != nil || u.Query().Get("scope") != "read" || u.Query().Get("code_challenge") == "" || u.Query().Get("client_id") != "registered" {
				t.Errorf("authorization page %s, %v", page, err)
			}
			return url.Values{"code": {"c"}, "state": {u.Query().Get("state")}, "iss": {issuer}}, nil
		})
	}
	wantLoginRequired(list(open()))
	if err := logIn(t.Context(), "https://other.example"); err == nil || o.tokens != 0 {
		t.Fatalf("login with a response of another issuer: %v, %d tokens", err, o.tokens)
	}
	if err := logIn(t.Context(), o.URL); err != nil {
		t.Fatal(err)
	}
	if err := list(open()); err != nil {
		t.Fatal(err)
	}
	if text := masked.Text("token-number-1 refresh-number-1"); strings.Contains(text, "number") {
		t.Errorf("tokens are not masked: %s", text)
	}
	tenant := WithCaller(t.Context(), Caller{Tenant: "acme"})
	if _, err := open().List(tenant, plan.Connection{ID: "s"}); !strings.Contains(contract.FailureOf(err).Remedy, `worker login s -tenant "acme"`) {
		t.Fatalf("another tenant got %v, want a failure whose remedy is the login command", err)
	}
	logins.expire(t, "s", func(*transport.Token) {})
	var all sync.WaitGroup
	for range 8 {
		tools := open() // another worker
		all.Go(func() {
			if err := list(tools); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if o.refreshed != 1 {
		t.Errorf("token renewed %d times, want once", o.refreshed)
	}
	logins.expire(t, "s", func(token *transport.Token) { token.RefreshToken = "old" })
	wantLoginRequired(list(open()))
	if err := logIn(tenant, o.URL); err != nil {
		t.Fatal(err)
	}
	if _, err := open().List(tenant, plan.Connection{ID: "s"}); err != nil {
		t.Errorf("after the tenant logged in: %v", err)
	}
	wantLoginRequired(list(open()))
}
