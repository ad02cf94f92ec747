// Package oauth gets tokens from authorization servers for connections to tool servers, by a person's login or with the
// worker's own credentials, and renews them for all workers.
package oauth

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
	"weft/activities/mask"
	"weft/activities/textutil"
	"weft/workflows/plan"
)

// Values of [Connection.How].
const (
	// Login is a login of a person's, once.
	Login = "login"
	// Client are credentials of the worker's own.
	Client = "client"
)

const oauthTimeout = 30 * time.Second

// Connection is a connection with OAuth.
type Connection struct {
	// ID is the connection's; Setting is that of its settings, such as connections.ID; URL is its server's.
	ID, Setting, URL string
	// Tenant is whose tokens are used, empty for runs without one. Tenants share none.
	Tenant string
	// How is Login or Client.
	How string
	// ClientID is a client that is registered at the authorization server, with a secret or the file of a key; for a login
	// one is registered if it is empty, or ClientURL, that of the client's metadata, is used where the server allows it.
	ClientID, ClientSecret, ClientURL, KeyFile string
	// Scopes are asked for; empty means those that the server names.
	Scopes []string
	Logins Logins
	// Mask is told of each token.
	Mask *mask.Mask
	// Failure makes a failure of the connection.
	Failure func(class, text, remedy string) *contract.Failure
	// Probe, if set, is told of refusals, and no token is sent.
	Probe func(*Challenge)
}

func (c *Connection) record() string {
	if c.Tenant == "" {
		return c.ID
	}
	return c.ID + "\n" + c.Tenant
}

// Logins keeps what authorization servers gave, for all workers.
type Logins interface {
	// Load returns what was saved for a login; its error is fs.ErrNotExist if nothing was.
	Load(ctx context.Context, id string) ([]byte, error)
	Save(ctx context.Context, id string, data []byte) error
	// Lock keeps other workers from renewing a login until unlock is called.
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

// Access adds tokens to the requests to one server.
type Access struct {
	of     Connection
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

// New adds the tokens of a connection; base reaches its server and its authorization server.
func New(of Connection, base http.RoundTripper) *Access {
	a := &Access{of: of}
	a.client = &http.Client{Timeout: oauthTimeout, Transport: &metadataReader{base: base, a: a}}
	return a
}

// metadataReader keeps of metadata what the library does not.
type metadataReader struct {
	base http.RoundTripper
	a    *Access
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
func (a *Access) GetToken(context.Context) (*transport.Token, error) {
	return &a.last.Token, nil
}

// SaveToken implements [transport.TokenStore].
func (a *Access) SaveToken(ctx context.Context, t *transport.Token) error {
	own := *a.last
	own.Token = *t
	return a.save(ctx, &own)
}

func (a *Access) save(ctx context.Context, l *login) error {
	data, err := json.Marshal(l)
	if err == nil {
		err = a.of.Logins.Save(ctx, a.of.record(), data)
	}
	if err != nil {
		return a.unavailable(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.take(l)
	return nil
}

// take uses a login. The lock is held.
func (a *Access) take(l *login) {
	a.of.Mask.Add(l.Token.AccessToken, l.Token.RefreshToken, l.ClientSecret)
	a.last = l
}

// load reads the login; an empty one if there is none for this server.
func (a *Access) load(ctx context.Context) error {
	data, err := a.of.Logins.Load(ctx, a.of.record())
	l := &login{}
	if err == nil {
		err = json.Unmarshal(data, l)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return a.unavailable(err)
	}
	if l.Server != a.of.URL {
		l = &login{Server: a.of.URL}
	}
	a.take(l)
	return nil
}

func (a *Access) unavailable(err error) error {
	return a.of.Failure(contract.ClassUnavailable, "its login cannot be read or kept: "+err.Error(), "check the store, and that all workers have the same seal keys")
}

// needed is the failure of a server that wants a login.
func (a *Access) needed(text string) error {
	if a.of.How == Client {
		return a.of.Failure(contract.ClassDenied, text, fmt.Sprintf("correct %s.oauth_client_id and the secret or key in weft.yaml", a.of.Setting))
	}
	command := "worker login " + a.of.ID
	if a.of.Tenant != "" {
		command += fmt.Sprintf(" -tenant %q", a.of.Tenant)
	}
	return a.of.Failure(contract.ClassDenied, text, "log in with: "+command)
}

// Challenge is what a server says with a refusal.
type Challenge struct {
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
func challenged(resp *http.Response) *Challenge {
	c := &Challenge{}
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

// Send makes a request with a token, and once more with a new one if the server refuses it.
func (a *Access) Send(req *http.Request, do func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	if a.of.Probe != nil {
		resp, err := do(req)
		if err == nil {
			if c := challenged(resp); c != nil {
				a.of.Probe(c)
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
func (a *Access) token(ctx context.Context) (string, error) {
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
		return a.renew(ctx, own.AccessToken, &Challenge{})
	}
	return own.AccessToken, nil
}

// renew returns another token than the one that was refused. One worker at a time asks for one.
func (a *Access) renew(ctx context.Context, refused string, c *Challenge) (string, error) {
	unlock, err := a.of.Logins.Lock(ctx, a.of.record())
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
	case a.of.How == Client:
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
	return "", a.of.Failure(contract.ClassUnavailable, "the login cannot be renewed: "+textutil.ErrorText(err), "")
}

// handler is the library's, for a client.
func (a *Access) handler(own login, redirect string) *transport.OAuthHandler {
	h := transport.NewOAuthHandler(transport.OAuthConfig{
		ClientID: cmp.Or(own.ClientID, a.of.ClientID), ClientSecret: cmp.Or(own.ClientSecret, a.of.ClientSecret),
		TokenEndpointAuthMethod: own.AuthMethod, RedirectURI: redirect, Scopes: a.of.Scopes, TokenStore: a, PKCEEnabled: true,
		ProtectedResourceMetadataURL: own.Metadata, HTTPClient: a.client,
	})
	h.SetBaseURL(cmp.Or(own.Host, a.of.URL))
	return h
}

// byClient gets a token for the worker's own credentials.
func (a *Access) byClient(ctx context.Context, own login, c *Challenge) (string, error) {
	conn := a.of
	a.locate(ctx, &own, c)
	meta, err := a.handler(own, "").GetServerMetadata(ctx)
	if err != nil {
		return "", a.of.Failure(contract.ClassUnavailable, "its authorization server cannot be found: "+err.Error(), "")
	}
	form := url.Values{"grant_type": {"client_credentials"}, "resource": {cmp.Or(a.resource.Resource, conn.URL)}}
	if scopes := a.scopes(own.Scopes); len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
	basic := false
	switch methods := meta.TokenEndpointAuthMethodsSupported; {
	case conn.KeyFile != "":
		assertion, err := a.assertion(cmp.Or(meta.Issuer, meta.TokenEndpoint))
		if err != nil {
			return "", a.of.Failure(contract.ClassConnection, err.Error(), fmt.Sprintf("correct %s.oauth_key_file in weft.yaml", a.of.Setting))
		}
		form.Set("client_id", conn.ClientID)
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", assertion)
	case len(methods) == 0 || slices.Contains(methods, "client_secret_basic"):
		basic = true
	default:
		form.Set("client_id", conn.ClientID)
		form.Set("client_secret", conn.ClientSecret)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, meta.TokenEndpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return "", a.of.Failure(contract.ClassConnection, "its authorization server has an invalid token endpoint", "")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if basic {
		req.SetBasicAuth(url.QueryEscape(conn.ClientID), url.QueryEscape(conn.ClientSecret))
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return "", a.of.Failure(contract.ClassUnavailable, "its authorization server: "+textutil.ErrorText(err), "")
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&own.Token); resp.StatusCode >= 500 {
		return "", a.of.Failure(contract.ClassUnavailable, fmt.Sprintf("its authorization server answered %d", resp.StatusCode), "")
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
func (a *Access) assertion(audience string) (string, error) {
	text, err := textutil.PEM(a.of.KeyFile)
	if err != nil {
		return "", fmt.Errorf("oauth_key_file: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return "", errors.New("oauth_key_file: it is no PEM")
	}
	now := time.Now()
	claims := map[string]any{"iss": a.of.ClientID, "sub": a.of.ClientID, "aud": audience,
		"iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(), "jti": randomText()}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		key, err = x509.ParseECPrivateKey(block.Bytes)
	}
	if err != nil {
		key, _ = x509.ParsePKCS1PrivateKey(block.Bytes) // its type is looked at below
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
func (a *Access) scopes(asked []string) []string {
	out := merged(a.of.Scopes, asked)
	if len(out) == 0 {
		out = slices.Clone(a.resource.Scopes)
	}
	if a.of.How == Login && slices.Contains(a.issuer.Scopes, "offline_access") {
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

// authorize is the part of a login from the client's registration to the token.
func (a *Access) authorize(ctx context.Context, own login, refusal *Challenge, redirect string, ask func(context.Context, string) (url.Values, error)) error {
	conn := a.of
	scopes := a.scopes(merged(own.Scopes, refusal.scopes))
	denied := func(err error) error {
		return a.of.Failure(contract.ClassDenied, textutil.ErrorText(err), fmt.Sprintf("log in again, or register a client and set %s.oauth_client_id in weft.yaml", a.of.Setting))
	}
	a.of.Scopes = scopes
	switch {
	case conn.ClientID != "":
	case conn.ClientURL != "" && a.issuer.ByURL:
		own.ClientID = conn.ClientURL
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

// locate finds a resource's metadata: what the server names, on its own origin; else, where there is none at the well-known place of the
// resource's path, that of the host.
func (a *Access) locate(ctx context.Context, own *login, c *Challenge) {
	own.Metadata, own.Host = "", ""
	u, err := url.Parse(a.of.URL)
	switch {
	case plan.Origin(c.metadata) == plan.Origin(a.of.URL):
		own.Metadata = c.metadata
		return
	case err != nil || strings.Trim(u.Path, "/") == "":
		return
	}
	host := u.Scheme + "://" + u.Host
	known := host + "/.well-known/oauth-protected-resource"
	switch {
	case a.exists(ctx, known+u.EscapedPath()) || !a.exists(ctx, known):
	case a.resource.Resource == a.of.URL:
		own.Metadata = known
	default:
		own.Host = host
	}
}

func (a *Access) exists(ctx context.Context, address string) bool {
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

// LogIn logs a person in at a server that refused to answer with a challenge. authorize has the person open a page and returns
// what the page sends to the redirect URL.
func (a *Access) LogIn(ctx context.Context, refusal *Challenge, redirect string, authorize func(ctx context.Context, page string) (url.Values, error)) error {
	if err := a.load(ctx); err != nil {
		return err
	}
	own := login{Server: a.of.URL, Scopes: a.last.Scopes}
	a.locate(ctx, &own, refusal)
	if _, err := a.handler(own, redirect).GetServerMetadata(ctx); err != nil {
		return a.of.Failure(contract.ClassConnection, "its authorization server cannot be used: "+err.Error(), "check the url, and the server's metadata")
	}
	return a.authorize(ctx, own, refusal, redirect, authorize)
}
