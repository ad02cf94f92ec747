package tool

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/mark3labs/mcp-go/client/transport"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// Values of [Connection.OAuth].
const (
	// OAuthLogin is a login of a person's, once.
	OAuthLogin = "login"
	// OAuthClient are credentials of the worker's own.
	OAuthClient = "client"
)

const oauthTimeout = 30 * time.Second

// Logins keeps what authorization servers gave, for all workers.
type Logins interface {
	// Load returns what was saved for a connection; its error is fs.ErrNotExist if nothing was.
	Load(ctx context.Context, id string) ([]byte, error)
	Save(ctx context.Context, id string, data []byte) error
	// Lock keeps other workers from renewing the login of a connection until unlock is called.
	Lock(ctx context.Context, id string) (unlock func(), err error)
}

// login is what is kept of a login.
type login struct {
	Token        transport.Token
	ClientID     string `json:",omitempty"`
	ClientSecret string `json:",omitempty"`
	AuthMethod   string `json:",omitempty"`
	// Server is the URL for which the token is, Metadata that of the resource's metadata. Host is set where these are the host's.
	Server, Metadata, Host string `json:",omitempty"`
	// Scopes are those that the server missed in the token.
	Scopes []string `json:",omitempty"`
}

// access adds tokens to the requests to one server.
type access struct {
	at     *target
	client *http.Client

	mu       sync.Mutex
	last     *login // nil: to be read
	resource struct {
		Resource string   `json:"resource"`
		Scopes   []string `json:"scopes_supported"`
	}
	issuer struct {
		Issuer   string   `json:"issuer"`
		Scopes   []string `json:"scopes_supported"`
		NamesOwn bool     `json:"authorization_response_iss_parameter_supported"`
		ByURL    bool     `json:"client_id_metadata_document_supported"`
	}
}

func newAccess(at *target, base http.RoundTripper) *access {
	a := &access{at: at}
	a.client = &http.Client{Timeout: oauthTimeout, Transport: &metadataReader{base: base, a: a}}
	return a
}

// metadataReader keeps of metadata what the library does not.
type metadataReader struct {
	base http.RoundTripper
	a    *access
}

// RoundTrip implements [http.RoundTripper].
func (m *metadataReader) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Content-Type") == "application/json" {
		if err := native(req); err != nil {
			return nil, err
		}
	}
	resp, err := m.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if resp.StatusCode != http.StatusOK || req.Method != http.MethodGet || err != nil {
		return resp, err
	}
	m.a.mu.Lock()
	defer m.a.mu.Unlock()
	var doc struct {
		Resource *json.RawMessage `json:"resource"`
	}
	if json.Unmarshal(body, &doc) == nil { // the library reports what is wrong with it
		if doc.Resource != nil {
			_ = json.Unmarshal(body, &m.a.resource)
		} else {
			_ = json.Unmarshal(body, &m.a.issuer)
		}
	}
	return resp, nil
}

// native says in a registration, which the library does not, that the client runs on a person's machine: its redirect URL is there.
func native(req *http.Request) error {
	form := map[string]any{}
	if err := json.NewDecoder(req.Body).Decode(&form); err != nil {
		return err
	}
	form["application_type"] = "native"
	body, err := json.Marshal(form)
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return err
}

// GetToken implements [transport.TokenStore].
func (a *access) GetToken(context.Context) (*transport.Token, error) {
	return &a.last.Token, nil
}

// SaveToken implements [transport.TokenStore].
func (a *access) SaveToken(ctx context.Context, t *transport.Token) error {
	own := *a.last
	own.Token = *t
	return a.save(ctx, &own)
}

func (a *access) save(ctx context.Context, l *login) error {
	data, err := json.Marshal(l)
	if err == nil {
		err = a.at.settings.Logins.Save(ctx, a.at.id, data)
	}
	if err != nil {
		return a.unavailable(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = l
	return nil
}

// load reads the login; an empty one if there is none for this server.
func (a *access) load(ctx context.Context) error {
	data, err := a.at.settings.Logins.Load(ctx, a.at.id)
	l := &login{}
	if err == nil {
		err = json.Unmarshal(data, l)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return a.unavailable(err)
	}
	if l.Server != a.at.conn.URL {
		l = &login{Server: a.at.conn.URL}
	}
	a.last = l
	return nil
}

func (a *access) unavailable(err error) error {
	return a.at.failure(contract.ClassUnavailable, "its login cannot be read or kept: "+err.Error(), "check the store, and that all workers have the same seal keys")
}

// needed is the failure of a server that wants a login.
func (a *access) needed(text string) error {
	if a.at.conn.OAuth == OAuthClient {
		return a.at.failure(contract.ClassDenied, text, fmt.Sprintf("correct %s.%s.oauth_client_id and the secret or key in weft.yaml", SettingConnections, a.at.id))
	}
	return a.at.failure(contract.ClassDenied, text, "log in with: worker login "+a.at.id)
}

// challenge is what a server says with a refusal.
type challenge struct {
	metadata string // URL of the resource's metadata
	scopes   []string
	lacks    bool // the token has too few scopes
}

// Parameters of a challenge.
var (
	challengeScope    = regexp.MustCompile(`(?i)[\s,]scope="([^"]*)"`)
	challengeMetadata = regexp.MustCompile(`(?i)[\s,]resource_metadata="([^"]*)"`)
)

// challenged reads a refusal; nil: the response is none that a token helps against.
func challenged(resp *http.Response) *challenge {
	c := &challenge{}
	for _, h := range resp.Header.Values("WWW-Authenticate") {
		if m := challengeScope.FindStringSubmatch(h); m != nil {
			c.scopes = strings.Fields(m[1])
		}
		if m := challengeMetadata.FindStringSubmatch(h); m != nil {
			c.metadata = m[1]
		}
		c.lacks = c.lacks || strings.Contains(h, "insufficient_scope")
	}
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden && c.lacks {
		return c
	}
	return nil
}

// send makes a request with a token, and once more with a new one if the server refuses it.
func (a *access) send(req *http.Request, do func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	if a.at.probe != nil {
		resp, err := do(req)
		if err == nil {
			if c := challenged(resp); c != nil {
				a.at.probe(c)
			}
		}
		return resp, err
	}
	token, err := a.token(req.Context())
	if err != nil {
		return nil, err
	}
	resp, err := do(withToken(req, token))
	if err != nil {
		return nil, err
	}
	c := challenged(resp)
	if c == nil {
		return resp, nil
	}
	resp.Body.Close()
	if token, err = a.renew(req.Context(), token, c); err != nil {
		return nil, err
	}
	if req.GetBody != nil {
		if req.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	return do(withToken(req, token))
}

func withToken(req *http.Request, token string) *http.Request {
	if token != "" {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return req
}

// token returns the token that is kept, renewed if it has expired; empty: there is none.
func (a *access) token(ctx context.Context) (string, error) {
	a.mu.Lock()
	if a.last == nil {
		if err := a.load(ctx); err != nil {
			a.mu.Unlock()
			return "", err
		}
	}
	own := a.last.Token
	a.mu.Unlock()
	if own.AccessToken != "" && own.IsExpired() {
		return a.renew(ctx, own.AccessToken, &challenge{})
	}
	return own.AccessToken, nil
}

// renew returns another token than the one that was refused. One worker at a time asks for one.
func (a *access) renew(ctx context.Context, refused string, c *challenge) (string, error) {
	unlock, err := a.at.settings.Logins.Lock(ctx, a.at.id)
	if err != nil {
		return "", a.unavailable(err)
	}
	defer unlock()
	a.mu.Lock()
	err = a.load(ctx)
	own := login{}
	if err == nil {
		own = *a.last
	}
	a.mu.Unlock()
	switch {
	case err != nil:
		return "", err
	case own.Token.AccessToken != refused && own.Token.AccessToken != "" && !own.Token.IsExpired():
		return own.Token.AccessToken, nil // of another worker, or of a new login
	case a.at.conn.OAuth == OAuthClient:
		own.Scopes = merged(own.Scopes, c.scopes)
		return a.byClient(ctx, own, c)
	case c.lacks:
		own.Scopes = merged(own.Scopes, c.scopes)
		if err := a.save(ctx, &own); err != nil {
			return "", err
		}
		return "", a.needed("the login lacks scopes: " + strings.Join(c.scopes, " "))
	case own.Token.RefreshToken == "":
		return "", a.needed("the server wants a login")
	}
	if c.metadata != "" {
		a.locate(ctx, &own, c)
	}
	token, err := a.handler(own, "").RefreshToken(ctx, own.Token.RefreshToken)
	var refusal transport.OAuthError
	switch {
	case err == nil:
		return token.AccessToken, nil
	case errors.As(err, &refusal):
		return "", a.needed("the login has expired: " + refusal.Error())
	}
	return "", a.at.failure(contract.ClassUnavailable, "the login cannot be renewed: "+errorText(err), "")
}

// handler is the library's, for a client.
func (a *access) handler(own login, redirect string) *transport.OAuthHandler {
	h := transport.NewOAuthHandler(transport.OAuthConfig{
		ClientID: cmp.Or(own.ClientID, a.at.conn.OAuthClientID), ClientSecret: cmp.Or(own.ClientSecret, a.at.conn.OAuthClientSecret),
		TokenEndpointAuthMethod: own.AuthMethod, RedirectURI: redirect, Scopes: a.at.conn.OAuthScopes, TokenStore: a, PKCEEnabled: true,
		ProtectedResourceMetadataURL: own.Metadata, HTTPClient: a.client,
	})
	h.SetBaseURL(cmp.Or(own.Host, a.at.conn.URL))
	return h
}

// byClient gets a token for the worker's own credentials.
func (a *access) byClient(ctx context.Context, own login, c *challenge) (string, error) {
	conn := a.at.conn
	a.locate(ctx, &own, c)
	meta, err := a.handler(own, "").GetServerMetadata(ctx)
	if err != nil {
		return "", a.at.failure(contract.ClassUnavailable, "its authorization server cannot be found: "+err.Error(), "")
	}
	form := url.Values{"grant_type": {"client_credentials"}, "resource": {cmp.Or(a.resource.Resource, conn.URL)}}
	if scopes := a.scopes(own.Scopes); len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
	basic := false
	switch methods := meta.TokenEndpointAuthMethodsSupported; {
	case conn.OAuthKeyFile != "":
		assertion, err := a.assertion(cmp.Or(meta.Issuer, meta.TokenEndpoint))
		if err != nil {
			return "", a.at.failure(contract.ClassConnection, err.Error(), fmt.Sprintf("correct %s.%s.oauth_key_file in weft.yaml", SettingConnections, a.at.id))
		}
		form.Set("client_id", conn.OAuthClientID)
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", assertion)
	case len(methods) == 0 || slices.Contains(methods, "client_secret_basic"):
		basic = true
	default:
		form.Set("client_id", conn.OAuthClientID)
		form.Set("client_secret", conn.OAuthClientSecret)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, meta.TokenEndpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return "", a.at.failure(contract.ClassConnection, "its authorization server has an invalid token endpoint", "")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if basic {
		req.SetBasicAuth(url.QueryEscape(conn.OAuthClientID), url.QueryEscape(conn.OAuthClientSecret))
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return "", a.at.failure(contract.ClassUnavailable, "its authorization server: "+errorText(err), "")
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&own.Token); resp.StatusCode >= 500 {
		return "", a.at.failure(contract.ClassUnavailable, fmt.Sprintf("its authorization server answered %d", resp.StatusCode), "")
	} else if err != nil || resp.StatusCode >= 400 || own.Token.AccessToken == "" {
		return "", a.needed(fmt.Sprintf("its authorization server gives no token (status %d)", resp.StatusCode))
	}
	own.Token.RefreshToken, own.Token.ExpiresAt = "", time.Time{}
	if own.Token.ExpiresIn > 0 {
		own.Token.ExpiresAt = time.Now().Add(time.Duration(own.Token.ExpiresIn) * time.Second)
	}
	return own.Token.AccessToken, a.save(ctx, &own)
}

// assertion signs who the client is.
func (a *access) assertion(audience string) (string, error) {
	text, err := pemOf(a.at.conn.OAuthKeyFile)
	if err != nil {
		return "", fmt.Errorf("oauth_key_file: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return "", errors.New("oauth_key_file: it is no PEM")
	}
	now := time.Now()
	claims := map[string]any{"iss": a.at.conn.OAuthClientID, "sub": a.at.conn.OAuthClientID, "aud": audience,
		"iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(), "jti": randomText()}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		key, err = x509.ParseECPrivateKey(block.Bytes)
	}
	if err != nil {
		key, _ = x509.ParsePKCS1PrivateKey(block.Bytes) // the type says whether it is one
	}
	var method jose.SignatureAlgorithm
	switch key.(type) {
	case *ecdsa.PrivateKey:
		method = jose.ES256
	case *rsa.PrivateKey:
		method = jose.RS256
	default:
		return "", errors.New("oauth_key_file: it is neither an EC nor an RSA private key")
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: method, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", fmt.Errorf("oauth_key_file: %w", err)
	}
	return jwt.Signed(signer).Claims(claims).Serialize()
}

func randomText() string {
	s, _ := transport.GenerateState() // crypto/rand does not fail
	return s
}

// scopes are those to ask for: the operator's, else the server's.
func (a *access) scopes(asked []string) []string {
	out := merged(a.at.conn.OAuthScopes, asked)
	if len(out) == 0 {
		out = slices.Clone(a.resource.Scopes)
	}
	if a.at.conn.OAuth == OAuthLogin && slices.Contains(a.issuer.Scopes, "offline_access") {
		out = merged(out, []string{"offline_access"})
	}
	return out
}

func merged(a, b []string) []string {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// Login logs a person in at one of the worker's connections. authorize has the person open a page and returns what the page sends to the
// redirect URL.
func (t *Tools) Login(ctx context.Context, id, redirect string, authorize func(ctx context.Context, page string) (url.Values, error)) error {
	conn, ok := t.settings.Connections[id]
	if !ok || conn.OAuth != OAuthLogin {
		return connectionFailure(fmt.Sprintf("no connection %q with a login", id), fmt.Sprintf("set %s.%s.oauth: %s in weft.yaml", SettingConnections, id, OAuthLogin))
	}
	at := &target{id: id, kind: plan.ConnectionMCP, conn: conn, settings: &t.settings, secrets: newSecrets(conn)}
	refusal, err := at.refusal(ctx)
	if err != nil {
		return err
	}
	c, err := newHTTPClient(at)
	if err != nil {
		return err
	}
	defer c.CloseIdleConnections()
	a := c.Transport.(*guard).access
	if err := a.load(ctx); err != nil {
		return err
	}
	own := login{Server: conn.URL, Scopes: a.last.Scopes}
	a.locate(ctx, &own, refusal)
	if _, err := a.handler(own, redirect).GetServerMetadata(ctx); err != nil {
		return at.failure(contract.ClassConnection, "its authorization server cannot be used: "+err.Error(), "check the url, and the server's metadata")
	}
	return a.authorize(ctx, own, refusal, redirect, authorize)
}

// authorize is the part of a login from the client's registration to the token.
func (a *access) authorize(ctx context.Context, own login, refusal *challenge, redirect string, ask func(context.Context, string) (url.Values, error)) error {
	conn := a.at.conn
	scopes := a.scopes(merged(own.Scopes, refusal.scopes))
	denied := func(err error) error {
		return a.at.failure(contract.ClassDenied, errorText(err), fmt.Sprintf("log in again, or register a client and set %s.%s.oauth_client_id in weft.yaml", SettingConnections, a.at.id))
	}
	a.at.conn.OAuthScopes = scopes
	switch {
	case conn.OAuthClientID != "":
	case conn.OAuthClientURL != "" && a.issuer.ByURL:
		own.ClientID = conn.OAuthClientURL
	default:
		h := a.handler(own, redirect)
		if err := h.RegisterClient(ctx, "weft"); err != nil {
			return denied(err)
		}
		own.ClientID, own.ClientSecret, own.AuthMethod = h.GetClientID(), h.GetClientSecret(), h.GetTokenEndpointAuthMethod()
	}
	h := a.handler(own, redirect)
	verifier, err := transport.GenerateCodeVerifier()
	if err != nil {
		return err
	}
	state := randomText()
	page, err := h.GetAuthorizationURL(ctx, state, transport.GenerateCodeChallenge(verifier))
	if err != nil {
		return denied(err)
	}
	got, err := ask(ctx, page)
	if err != nil {
		return err
	}
	iss := got.Get("iss")
	switch {
	case iss != "" && iss != a.issuer.Issuer, iss == "" && a.issuer.NamesOwn:
		return denied(fmt.Errorf("the answer is of the issuer %q, not of %q", iss, a.issuer.Issuer))
	case got.Get("error") != "":
		return denied(transport.OAuthError{ErrorCode: got.Get("error"), ErrorDescription: got.Get("error_description")})
	}
	a.last = &own
	if err := h.ProcessAuthorizationResponse(ctx, got.Get("code"), got.Get("state"), verifier); err != nil {
		return denied(err)
	}
	return nil
}

// refusal is what a server says to who has no token; empty if it does not refuse.
func (t *target) refusal(ctx context.Context) (*challenge, error) {
	ctx, cancel := context.WithTimeout(ctx, oauthTimeout)
	defer cancel()
	var mu sync.Mutex
	var first *challenge
	at := *t
	at.probe = func(c *challenge) {
		mu.Lock()
		defer mu.Unlock()
		first = cmp.Or(first, c)
	}
	s, err := dialMCP(ctx, &at)
	if err == nil {
		_, err = s.list(ctx)
		s.close()
	}
	mu.Lock()
	defer mu.Unlock()
	switch {
	case first != nil:
		return first, nil
	case err != nil:
		return nil, classify(t, err)
	}
	return &challenge{}, nil
}

// locate finds a resource's metadata: what the server names, on its own origin; else, where there is none at the well-known place of the
// resource's path, that of the host.
func (a *access) locate(ctx context.Context, own *login, c *challenge) {
	own.Metadata, own.Host = "", ""
	u, err := url.Parse(a.at.conn.URL)
	switch {
	case plan.Origin(c.metadata) == plan.Origin(a.at.conn.URL):
		own.Metadata = c.metadata
		return
	case err != nil || strings.Trim(u.Path, "/") == "":
		return
	}
	host := u.Scheme + "://" + u.Host
	known := host + "/.well-known/oauth-protected-resource"
	switch {
	case a.exists(ctx, known+u.EscapedPath()) || !a.exists(ctx, known):
	case a.resource.Resource == a.at.conn.URL:
		own.Metadata = known
	default:
		own.Host = host
	}
}

func (a *access) exists(ctx context.Context, address string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return false
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
