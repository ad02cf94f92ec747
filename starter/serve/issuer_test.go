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

// provider is an OpenID Connect provider of one key.
type provider struct {
	*httptest.Server
	key jose.JSONWebKey
	// fails are what requests get; asked counts them.
	fails atomic.Int32
	asked atomic.Int32
}

// hangs is the status of a provider that never answers.
const hangs = -1

func newProvider(t *testing.T, key any) *provider {
	p := &provider{key: jose.JSONWebKey{Key: key, KeyID: "one"}}
	mux := http.NewServeMux()
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.asked.Add(1)
		status := p.fails.Load()
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
	answer := func(path string, v func() any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, "application/json", v()) })
	}
	answer("/.well-known/openid-configuration", func() any { return map[string]any{"issuer": p.URL, "jwks_uri": p.URL + "/keys"} })
	answer("/keys", func() any { return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{p.key.Public()}} })
	return p
}

// token signs claims, by default with the provider's key; a claim that is nil is left out.
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

// TestTokensOfAnIssuer sends tokens that a provider signed, and others that look so.
func TestTokensOfAnIssuer(t *testing.T) {
	first, other := rsaKey(t), rsaKey(t)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p, ec, bare := newProvider(t, first), newProvider(t, curve), newProvider(t, first)
	fixed := config.Principal{Tenant: "south", Scopes: usual}
	b := newBench(t, func(o *Options) {
		o.Tokens = []config.Token{{Name: "static", Value: "kimkimkimkimkimkim", Principal: config.Principal{Scopes: usual}}}
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
		"its own":                    {good, "r", 200, `"r"`},
		"several audiences":          {p.token(t, jose.RS256, nil, map[string]any{"aud": []string{"a", "weft"}}), "r", 200, `"r"`},
		"PS256":                      {p.token(t, jose.PS256, nil, nil), "r", 200, `"r"`},
		"an EC key, another claim":   {ec.token(t, jose.ES256, nil, map[string]any{"email": "kim@x"}), "s", 200, `"s"`},
		"somebody else's run":        {good, "s", 404, "not found"},
		"another tenant":             {p.token(t, jose.RS256, nil, map[string]any{"org": "south"}), "r", 404, "not found"},
		"no scope":                   {bare.token(t, jose.RS256, nil, nil), "r", 403, "issuers: {bare: {scopes: [read]}}"},
		"expired":                    {p.token(t, jose.RS256, nil, map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}), "r", 401, "expired"},
		"never expires":              {p.token(t, jose.RS256, nil, map[string]any{"exp": nil}), "r", 401, "expired"},
		"not yet":                    {p.token(t, jose.RS256, nil, map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}), "r", 401, "not before"},
		"another audience":           {p.token(t, jose.RS256, nil, map[string]any{"aud": "mail"}), "r", 401, `expected audience \"weft\" got`},
		"no audience":                {p.token(t, jose.RS256, nil, map[string]any{"aud": nil}), "r", 401, "audience"},
		"an unknown issuer":          {p.token(t, jose.RS256, nil, map[string]any{"iss": "https://other.example"}), "r", 401, "invalid token"},
		"no issuer":                  {p.token(t, jose.RS256, nil, map[string]any{"iss": nil}), "r", 401, "invalid token"},
		"another issuer's key":       {ec.token(t, jose.RS256, first, map[string]any{"email": "kim@x"}), "s", 401, "signature"},
		"another key":                {p.token(t, jose.RS256, jose.JSONWebKey{Key: other, KeyID: "one"}, nil), "r", 401, "signature"},
		"a changed body":             {parts[0] + "." + strings.Split(p.token(t, jose.RS256, nil, map[string]any{"sub": "ceo"}), ".")[1] + "." + parts[2], "r", 401, "signature"},
		"the algorithm none":         {unsigned, "r", 401, "malformed"},
		"HMAC with the public key":   {p.token(t, jose.HS256, public, nil), "r", 401, "malformed"},
		"no name":                    {p.token(t, jose.RS256, nil, map[string]any{"sub": nil}), "r", 401, "the claim sub is missing"},
		"a tenant that is a number":  {p.token(t, jose.RS256, nil, map[string]any{"org": 7}), "r", 401, `the claim org is \"7\"`},
		"a name with a line break":   {p.token(t, jose.RS256, nil, map[string]any{"sub": "a\nb"}), "r", 401, "the claim sub"},
		"no tenant":                  {p.token(t, jose.RS256, nil, map[string]any{"org": nil}), "r", 401, "the claim org is missing"},
		"the name of a static token": {p.token(t, jose.RS256, nil, map[string]any{"sub": "static"}), "r", 403, "the name static is reserved"},
		"no token":                   {"Authorization: Bearer a.b.c", "r", 401, "invalid token"},
		"another scheme":             {strings.Replace(good, "Bearer", "Basic", 1), "r", 401, "invalid token"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, i := range b.issuers {
				i.client.Transport = slow{rate.NewLimiter(rate.Inf, 1)}
			}
			got := (&bench{T: t, Server: b.Server}).call("GET", "/runs/"+tc.run, "", tc.token).is(tc.status, tc.want)
			if challenge := got.Header().Get("WWW-Authenticate"); (tc.status == 401) != strings.Contains(challenge, "invalid_token") {
				t.Errorf("WWW-Authenticate is %q", challenge)
			}
		})
	}
	b.call("POST", "/runs", `{"flow": {"name": "triage"}}`, good).is(201, "triage-1")
	if who := b.runs.inputs["triage-1"].Principal; who.Value() != (contract.Principal{Name: "kim", Tenant: "north"}) {
		t.Errorf("the run is started by %v", who)
	}
	b.call("POST", "/runs", documented, good).is(403, "issuers: {corp: {flows: [...]}}")
}

// TestIssuerThatIsDown starts without a provider, which comes later, goes, and has new keys.
func TestIssuerThatIsDown(t *testing.T) {
	p := newProvider(t, rsaKey(t))
	b := newBench(t, func(o *Options) {
		o.Tokens = []config.Token{{Name: "static", Value: "kimkimkimkimkimkim", Principal: config.Principal{Scopes: usual}}}
		o.Issuers = map[string]config.Issuer{"corp": {URL: p.URL, Audience: "weft", NameClaim: "sub", Principal: config.Principal{Scopes: usual}}}
	})
	i := b.issuers[p.URL]
	i.client.Timeout = 50 * time.Millisecond
	good := p.token(t, jose.RS256, nil, nil)
	p.fails.Store(hangs)
	b.call("GET", "/runs", "", good).is(503, "returns no keys")
	i.client.Timeout, i.until, i.logged = issuerTime, time.Time{}, rate.Sometimes{}
	p.asked.Store(0)
	p.fails.Store(500)
	for range 3 {
		if late := b.call("GET", "/runs", "", good).is(503, "returns no keys"); late.Header().Get("Retry-After") == "" {
			t.Error("it is not said when to ask again")
		}
	}
	if n := p.asked.Load(); n != 1 {
		t.Errorf("the issuer was asked %d times, want once in a while", n)
	}
	b.call("GET", "/runs", "", "Authorization: Bearer kimkimkimkimkimkim").is(200, "")
	b.call("GET", "/health", "", good).is(200, "")
	if !strings.Contains(b.said(), "issuers.corp: the issuer returns no keys: 500") {
		t.Errorf("the log has %s", b.said())
	}
	p.fails.Store(0)
	i.until = time.Time{}
	b.call("GET", "/runs", "", good).is(200, "")
	p.fails.Store(503)
	b.call("GET", "/runs", "", good).is(200, "") // its key is known
	p.key = jose.JSONWebKey{Key: rsaKey(t), KeyID: "two"}
	renewed := p.token(t, jose.RS256, nil, nil)
	b.call("GET", "/runs", "", renewed).is(503, "returns no keys")
	p.fails.Store(0)
	// The library takes over the new keys, or that it may ask for them again, a moment after its answer.
	for _, want := range []struct {
		token  string
		status int
		part   string
	}{{renewed, 200, ""}, {good, 401, "signature"}} {
		for end := time.Now().Add(10 * time.Second); b.call("GET", "/runs", "", want.token).Code != want.status && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		b.call("GET", "/runs", "", want.token).is(want.status, want.part)
	}
	// Tokens that nobody signed do not make it ask for ever.
	for range 2 * issuerBurst {
		b.call("GET", "/runs", "", good)
	}
	if n := p.asked.Load(); n > issuerBurst+2 {
		t.Errorf("the issuer was asked %d times", n)
	}
	b.call("GET", "/runs", "", renewed).is(200, "")
}

// TestStreamsEndWithTheirToken follows a run for longer than a token is good.
func TestStreamsEndWithTheirToken(t *testing.T) {
	p := newProvider(t, rsaKey(t))
	b := newBench(t, func(o *Options) {
		o.Issuers = map[string]config.Issuer{"corp": {URL: p.URL, Audience: "weft", NameClaim: "sub", Principal: config.Principal{Tenant: "north", Scopes: usual}}}
	})
	b.runs.add("r").Owner = contract.Principal{Name: "kim", Tenant: "north"}
	token := p.token(t, jose.RS256, nil, map[string]any{"exp": time.Now().Add(2 * time.Second).Unix()})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.call("GET", "/runs/r/events", "", token).is(200, "retry")
	}()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the stream goes on after the token's end")
		b.runs.end("r", &contract.RunResult{}, nil)
		<-ended
	}
	b.call("GET", "/runs/r", "", token).is(401, "expired")
}
