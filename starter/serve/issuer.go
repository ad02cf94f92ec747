package serve

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/time/rate"

	"weft/starter/plaintext"
	"weft/worker/config"
)

// Limits of requests to an issuer: the timeout, how long an error is cached, and the burst and rate of
// requests, because each token with an unknown key causes one.
const (
	issuerTime   = 5 * time.Second
	issuerBurst  = 10
	issuerPerSec = 1
)

// maxClaim is the maximum length of a name and a tenant, in bytes.
const maxClaim = 255

// algorithms are the permitted signature algorithms: all are asymmetric.
var algorithms = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA}

// issuer verifies tokens of an OpenID Connect provider. It fetches the provider's keys when it verifies the first token.
type issuer struct {
	config.Issuer
	name   string
	client *http.Client

	mu sync.Mutex
	// keys is nil until discovery succeeds; err is its last error, cached until then.
	keys  *oidc.RemoteKeySet
	err   error
	until time.Time
	// logged limits log messages about it.
	logged rate.Sometimes
}

func newIssuer(name string, of config.Issuer) *issuer {
	return &issuer{name: name, Issuer: of, logged: rate.Sometimes{Interval: issuerTime}, client: &http.Client{Timeout: issuerTime, Transport: slow{rate.NewLimiter(issuerPerSec, issuerBurst)}}}
}

// slow is a rate-limited HTTP transport.
type slow struct{ limit *rate.Limiter }

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	if !s.limit.Allow() {
		return nil, fmt.Errorf("over the limit of %d requests", issuerBurst)
	}
	return http.DefaultTransport.RoundTrip(r)
}

var errIssuer = errors.New("the issuer returns no keys")

// discover fetches the issuer's configuration once.
func (i *issuer) discover(ctx context.Context) (*oidc.RemoteKeySet, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.keys != nil || time.Now().Before(i.until) {
		return i.keys, i.err
	}
	// Other requests wait for the response, too: do not cancel it with this client's request.
	ctx = oidc.ClientContext(context.WithoutCancel(ctx), i.client)
	var at struct {
		Keys string `json:"jwks_uri"`
	}
	p, err := oidc.NewProvider(ctx, i.URL)
	if err == nil {
		err = p.Claims(&at)
	}
	if err != nil {
		i.err, i.until = fmt.Errorf("%w: %w", errIssuer, err), time.Now().Add(issuerTime)
		return nil, i.err
	}
	i.keys, i.err = oidc.NewRemoteKeySet(ctx, at.Keys), nil
	return i.keys, nil
}

// verify returns the claims and the expiry of a token. The error wraps errIssuer if the token may be valid.
func (i *issuer) verify(ctx context.Context, raw string) (claims map[string]any, expires time.Time, err error) {
	keys, err := i.discover(ctx)
	if err != nil {
		return nil, expires, err
	}
	// The verifier does not classify errors: only errors of the request for keys wrap another error.
	switch _, err := keys.VerifySignature(ctx, raw); {
	case errors.Unwrap(err) != nil:
		return nil, expires, fmt.Errorf("%w: %w", errIssuer, err)
	case err != nil:
		return nil, expires, err
	}
	token, err := oidc.NewVerifier(i.URL, keys, &oidc.Config{ClientID: i.Audience, SupportedSigningAlgs: algorithms}).Verify(ctx, raw)
	if err != nil {
		return nil, expires, err
	}
	claims = map[string]any{}
	return claims, token.Expiry, token.Claims(&claims)
}

// issuerOf returns the issuer that a token claims, "" if it is not a signed JWT.
func issuerOf(raw string) string {
	var claims struct {
		Issuer string `json:"iss"`
	}
	if parts := strings.Split(raw, "."); len(parts) == 3 {
		if body, err := base64.RawURLEncoding.DecodeString(parts[1]); err != nil || json.Unmarshal(body, &claims) != nil {
			return ""
		}
	}
	return claims.Issuer
}

func (srv *Server) signed(ctx context.Context, i *issuer, raw string) (*config.Token, *Problem) {
	claims, expires, err := i.verify(ctx, raw)
	switch {
	case errors.Is(err, errIssuer):
		i.logged.Do(func() { srv.Log("issuers.%s: %.500s", i.name, err) })
		return nil, NewProblem(NoIssuer, "retry later, or check the log of this server", "the issuer %s of the token returns no keys to verify it", i.URL)
	case err != nil:
		return nil, invalidToken("get another token", "invalid token of issuers.%s: %s", i.name, strings.TrimPrefix(err.Error(), "oidc: "))
	}
	t, err := i.who(claims)
	switch {
	case err != nil:
		return nil, invalidToken("ask the issuer to add it", "invalid token of issuers.%s: %v", i.name, err)
	case slices.ContainsFunc(srv.Tokens, func(own config.Token) bool { return own.Name == t.Name }):
		return nil, NewProblem(Forbidden, "ask the operator to rename that token, or to set name_claim", "the name %s is reserved for a token of the server", t.Name)
	}
	t.Expires = expires
	return t, nil
}

// who returns the client with the claims. Each configured claim is required.
func (i *issuer) who(claims map[string]any) (*config.Token, error) {
	t := &config.Token{Issuer: i.name, Principal: i.Principal}
	var errs []error
	read := func(name string, to *string) {
		if name == "" {
			return
		}
		v, ok := claims[name]
		if *to, _ = v.(string); *to == "" || len(*to) > maxClaim || strings.ContainsFunc(*to, unicode.IsControl) {
			errs = append(errs, fmt.Errorf("the claim %s is %s", name, cmp.Or(plaintext.If(ok, "%.100q", fmt.Sprint(v)), "missing")))
		}
	}
	read(i.NameClaim, &t.Name)
	read(i.TenantClaim, &t.Tenant)
	return t, errors.Join(errs...)
}
