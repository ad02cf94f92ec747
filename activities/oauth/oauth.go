// Package oauth gets tokens from authorization servers for connections to tool servers, by a person's login or with the
// worker's own credentials, and renews them for all workers.
package oauth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"

	"weft/activities/contract"
	"weft/activities/mask"
	"weft/activities/textutil"
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
