package serve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/time/rate"

	"weft/activities/contract"
	"weft/worker/config"
)

// provider is an OpenID Connect provider with a single key.
type provider struct {
	*httptest.Server
	key jose.JSONWebKey
	// status is the status of failing responses, or hangs; 0 means that requests succeed. requests counts them.
	status   atomic.Int32
	requests atomic.Int32
}

// hangs is the status of a provider that never responds.
const hangs = -1

func newProvider(t *testing.T, key any) *provider {
	p := &provider{key: jose.JSONWebKey{Key: key, KeyID: "one"}}
	mux := http.NewServeMux()
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.requests.Add(1)
		status := p.status.Load()
		if status == hangs {
			<-r.Context().Done()
			return
		}
		if status != 0 {
			w.WriteHeader(int(status))
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	respond := func(path string, v func() any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, "application/json", v()) })
	}
	respond("/.well-known/openid-configuration", func() any { return map[string]any{"issuer": p.URL, "jwks_uri": p.URL + "/keys"} })
	respond("/keys", func() any { return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{p.key.Public()}} })
	return p
}

// token returns an Authorization header with signed claims. A nil key means the provider's; a claim that is nil is omitted.
func (p *provider) token(t *testing.T, alg jose.SignatureAlgorithm, key any, changes map[string]any) string {
	t.Helper()
	claims := map[string]any{"iss": p.URL, "aud": "weft", "sub": "kim", "exp": time.Now().Add(time.Hour).Unix(), "org": "north"}
	maps.Copy(claims, changes)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	body, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	if key == nil {
		key = p.key
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return "Authorization: Bearer " + text
}

func rsaKey(t *testing.T) *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestIssuerTokens checks which tokens of OpenID Connect providers are accepted, and for which runs.
func TestIssuerTokens(t *testing.T) {
	first, other := rsaKey(t), rsaKey(t)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p, ec, bare := newProvider(t, first), newProvider(t, curve), newProvider(t, first)
	fixed := config.Principal{Tenant: "south", Scopes: defaultScopes}
	b := newBench(t, func(o *Options) {
		o.Tokens = []config.Token{{Name: "static", Value: "kimkimkimkimkimkim", Principal: config.Principal{Scopes: defaultScopes}}}
		o.Issuers = map[string]config.Issuer{
			"corp": {URL: p.URL, Audience: "weft", NameClaim: "sub", TenantClaim: "org", Principal: config.Principal{Scopes: []string{"start", "read"}, Flows: []string{"tri*"}}},
			"ec":   {URL: ec.URL, Audience: "weft", NameClaim: "email", Principal: fixed},
			"bare": {URL: bare.URL, Audience: "weft", NameClaim: "sub", Principal: config.Principal{Scopes: []string{"start"}}},
		}
	})
	b.runs.add("r").Owner = contract.Principal{Name: "kim", Tenant: "north"}
	b.runs.add("s").Owner = contract.Principal{Name: "kim@x", Tenant: "south"}
	public, err := x509.MarshalPKIXPublicKey(first.Public())
	if err != nil {
		t.Fatal(err)
	}
	good := p.token(t, jose.RS256, nil, nil)
	parts := strings.Split(good, ".")
	unsigned := "Authorization: Bearer eyJhbGciOiJub25lIn0." + parts[1] + "."
	for name, tc := range map[string]struct {
		token, run string
		status     int
		want       string
	}{
		"valid":                     {good, "r", 200, `"r"`},
		"several audiences":         {p.token(t, jose.RS256, nil, map[string]any{"aud": []string{"a", "weft"}}), "r", 200, `"r"`},
		"PS256":                     {p.token(t, jose.PS256, nil, nil), "r", 200, `"r"`},
		"EC key, custom name claim": {ec.token(t, jose.ES256, nil, map[string]any{"email": "kim@x"}), "s", 200, `"s"`},
		"another user's run":        {good, "s", 404, "not found"},
		"another tenant":            {p.token(t, jose.RS256, nil, map[string]any{"org": "south"}), "r", 404, "not found"},
		"no scope":                  {bare.token(t, jose.RS256, nil, nil), "r", 403, "issuers: {bare: {scopes: [read]}}"},
		"expired":                   {p.token(t, jose.RS256, nil, map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}), "r", 401, "expired"},
		"never expires":             {p.token(t, jose.RS256, nil, map[string]any{"exp": nil}), "r", 401, "expired"},
		"not yet":                   {p.token(t, jose.RS256, nil, map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}), "r", 401, "not before"},
		"another audience":          {p.token(t, jose.RS256, nil, map[string]any{"aud": "mail"}), "r", 401, `expected audience \"weft\" got`},
		"no audience":               {p.token(t, jose.RS256, nil, map[string]any{"aud": nil}), "r", 401, "audience"},
		"unknown issuer":            {p.token(t, jose.RS256, nil, map[string]any{"iss": "https://other.example"}), "r", 401, "invalid token"},
		"no issuer":                 {p.token(t, jose.RS256, nil, map[string]any{"iss": nil}), "r", 401, "invalid token"},
		"another issuer's key":      {ec.token(t, jose.RS256, first, map[string]any{"email": "kim@x"}), "s", 401, "signature"},
		"another key":               {p.token(t, jose.RS256, jose.JSONWebKey{Key: other, KeyID: "one"}, nil), "r", 401, "signature"},
		"modified claims":           {parts[0] + "." + strings.Split(p.token(t, jose.RS256, nil, map[string]any{"sub": "ceo"}), ".")[1] + "." + parts[2], "r", 401, "signature"},
		"algorithm none":            {unsigned, "r", 401, "malformed"},
		"HMAC with the public key":  {p.token(t, jose.HS256, public, nil), "r", 401, "malformed"},
		"no name":                   {p.token(t, jose.RS256, nil, map[string]any{"sub": nil}), "r", 401, "the claim sub is missing"},
		"number as tenant":          {p.token(t, jose.RS256, nil, map[string]any{"org": 7}), "r", 401, `the claim org is \"7\"`},
		"line break in a name":      {p.token(t, jose.RS256, nil, map[string]any{"sub": "a\nb"}), "r", 401, "the claim sub"},
		"no tenant":                 {p.token(t, jose.RS256, nil, map[string]any{"org": nil}), "r", 401, "the claim org is missing"},
		"name of a static token":    {p.token(t, jose.RS256, nil, map[string]any{"sub": "static"}), "r", 403, "the name static is reserved"},
		"malformed token":           {"Authorization: Bearer a.b.c", "r", 401, "invalid token"},
		"another scheme":            {strings.Replace(good, "Bearer", "Basic", 1), "r", 401, "invalid token"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, i := range b.issuers {
				i.client.Transport = slow{rate.NewLimiter(rate.Inf, 1)}
			}
			got := (&bench{T: t, Server: b.Server}).call("GET", "/runs/"+tc.run, "", tc.token).expect(tc.status, tc.want)
			if challenge := got.Header().Get("WWW-Authenticate"); (tc.status == 401) != strings.Contains(challenge, "invalid_token") {
				t.Errorf("WWW-Authenticate = %q", challenge)
			}
		})
	}
	b.call("POST", "/runs", `{"flow": {"name": "triage"}}`, good).expect(201, "triage-1")
	if p := b.runs.inputs["triage-1"].Principal; p.Value() != (contract.Principal{Name: "kim", Tenant: "north"}) {
		t.Errorf("Principal = %v, want kim of north", p)
	}
	b.call("POST", "/runs", documentedStart, good).expect(403, "issuers: {corp: {flows: [...]}}")
}

// TestIssuerUnavailable checks requests with tokens of a provider that hangs, fails, recovers, and changes its keys.
func TestIssuerUnavailable(t *testing.T) {
	p := newProvider(t, rsaKey(t))
	b := newBench(t, func(o *Options) {
		o.Tokens = []config.Token{{Name: "static", Value: "kimkimkimkimkimkim", Principal: config.Principal{Scopes: defaultScopes}}}
		o.Issuers = map[string]config.Issuer{"corp": {URL: p.URL, Audience: "weft", NameClaim: "sub", Principal: config.Principal{Scopes: defaultScopes}}}
	})
	i := b.issuers[p.URL]
	i.client.Timeout = 50 * time.Millisecond
	good := p.token(t, jose.RS256, nil, nil)
	p.status.Store(hangs)
	b.call("GET", "/runs", "", good).expect(503, "returns no keys")
	i.client.Timeout, i.until, i.logged = issuerTime, time.Time{}, rate.Sometimes{}
	p.requests.Store(0)
	p.status.Store(500)
	for range 3 {
		if late := b.call("GET", "/runs", "", good).expect(503, "returns no keys"); late.Header().Get("Retry-After") == "" {
			t.Error("no Retry-After header")
		}
	}
	if n := p.requests.Load(); n != 1 {
		t.Errorf("%d requests to the issuer, want 1", n)
	}
	b.call("GET", "/runs", "", "Authorization: Bearer kimkimkimkimkimkim").expect(200, "")
	b.call("GET", "/health", "", good).expect(200, "")
	if !strings.Contains(b.logged(), "issuers.corp: the issuer returns no keys: 500") {
		t.Errorf("log = %s", b.logged())
	}
	p.status.Store(0)
	i.until = time.Time{}
	b.call("GET", "/runs", "", good).expect(200, "")
	p.status.Store(503)
	b.call("GET", "/runs", "", good).expect(200, "") // the key is cached
	p.key = jose.JSONWebKey{Key: rsaKey(t), KeyID: "two"}
	renewed := p.token(t, jose.RS256, nil, nil)
	b.call("GET", "/runs", "", renewed).expect(503, "returns no keys")
	p.status.Store(0)
	// The library updates its keys, and allows the next request for them, slightly after its response.
	for _, want := range []struct {
		token  string
		status int
		part   string
	}{{renewed, 200, ""}, {good, 401, "signature"}} {
		for end := time.Now().Add(10 * time.Second); b.call("GET", "/runs", "", want.token).Code != want.status && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		b.call("GET", "/runs", "", want.token).expect(want.status, want.part)
	}
	// Tokens with unknown signatures cause only a limited number of requests to the issuer.
	for range 2 * issuerBurst {
		b.call("GET", "/runs", "", good)
	}
	if n := p.requests.Load(); n > issuerBurst+2 {
		t.Errorf("%d requests to the issuer, want at most %d", n, issuerBurst+2)
	}
	b.call("GET", "/runs", "", renewed).expect(200, "")
}

// TestStreamEndsAtTokenExpiry checks that an event stream ends when its token expires.
func TestStreamEndsAtTokenExpiry(t *testing.T) {
	p := newProvider(t, rsaKey(t))
	b := newBench(t, func(o *Options) {
		o.Issuers = map[string]config.Issuer{"corp": {URL: p.URL, Audience: "weft", NameClaim: "sub", Principal: config.Principal{Tenant: "north", Scopes: defaultScopes}}}
	})
	b.runs.add("r").Owner = contract.Principal{Name: "kim", Tenant: "north"}
	token := p.token(t, jose.RS256, nil, map[string]any{"exp": time.Now().Add(2 * time.Second).Unix()})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.call("GET", "/runs/r/events", "", token).expect(200, "retry")
	}()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the stream continues after the token expired")
		b.runs.end("r", &contract.RunResult{}, nil)
		<-ended
	}
	b.call("GET", "/runs/r", "", token).expect(401, "expired")
}
