// Package oauth obtains tokens for connections to tool servers, by a user's login or with the worker's client credentials,
// and renews them for all workers.
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
	// Login is a user's login, once.
	Login = "login"
	// Client is the worker's client credentials.
	Client = "client"
)

const oauthTimeout = 30 * time.Second

// Connection is a connection with OAuth.
type Connection struct {
	// ID is the connection's id; Setting its path in the settings, such as connections.ID; URL its server.
	ID, Setting, URL string
	// Tenant is the owner of the tokens, empty for runs without a tenant. Tenants do not share tokens.
	Tenant string
	// How is Login or Client.
	How string
	// ClientID is a registered client, with a secret or a key file. If it is empty, a login registers a client, or uses
	// ClientURL, the URL of the client's metadata, if the server supports it.
	ClientID, ClientSecret, ClientURL, KeyFile string
	// Scopes are the requested scopes; empty means those that the server names.
	Scopes []string
	Logins Logins
	// Mask masks each token.
	Mask *mask.Mask
	// Failure returns a failure of the connection.
	Failure func(class, text, remedy string) *contract.Failure
	// Probe, if set, is called with challenges, and no token is sent.
	Probe func(*Challenge)
}

func (c *Connection) record() string {
	if c.Tenant == "" {
		return c.ID
	}
	return c.ID + "\n" + c.Tenant
}

// Logins stores logins for all workers.
type Logins interface {
	// Load returns the data of a login; the error is fs.ErrNotExist if there is none.
	Load(ctx context.Context, id string) ([]byte, error)
	Save(ctx context.Context, id string, data []byte) error
	// Lock prevents other workers from renewing a login until unlock is called.
	Lock(ctx context.Context, id string) (unlock func(), err error)
}

// login is a stored login.
type login struct {
	Token        transport.Token
	ClientID     string `json:",omitempty"`
	ClientSecret string `json:",omitempty"`
	AuthMethod   string `json:",omitempty"`
	// Server is the URL that the token is for, Metadata the URL of the resource's metadata. Host is set if the host has them.
	Server, Metadata, Host string `json:",omitempty"`
	// Scopes are scopes that the token lacked.
	Scopes []string `json:",omitempty"`
}

// Access adds tokens to the requests to one server.
type Access struct {
	of     Connection
	client *http.Client

	mu       sync.Mutex
	last     *login // nil: not loaded yet
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

// New returns an Access for a connection; base sends requests to its server and its authorization server.
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

// take sets the current login. The lock must be held.
func (a *Access) take(l *login) {
	a.of.Mask.Add(l.Token.AccessToken, l.Token.RefreshToken, l.ClientSecret)
	a.last = l
}

// load loads the login, or an empty one if there is none for this server.
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
	return a.of.Failure(contract.ClassUnavailable, "its login cannot be loaded or saved: "+err.Error(), "check the store, and that all workers have the same seal keys")
}

// needed returns the failure of a server that requires a login.
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

// Send sends a request with a token, and once more with a new one if the server rejects it.
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

// token returns the stored token, renewed if it has expired, or "".
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

// renew returns a token other than the rejected one. One worker at a time requests one.
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
		return own.Token.AccessToken, nil // from another worker, or from a new login
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
		return "", a.needed("the server requires a login")
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

// handler returns the library's handler for a client.
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

// scopes returns the scopes to request: the operator's, else the server's.
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
