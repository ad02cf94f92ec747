package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Token is a bearer token, and who its client is.
type Token struct {
	Name, Value string
	Principal
	// Issuer is the setting whose issuer signed the token, empty for the server's own tokens.
	Issuer string
	// Expires is when the token is no longer good; zero is never.
	Expires time.Time
}

// Setting is what gives the client of a token something else, as weft.yaml has it.
func (t *Token) Setting(key, value string) string {
	section, name := "principals", t.Name
	if t.Issuer != "" {
		section, name = "issuers", t.Issuer
	}
	return fmt.Sprintf("%s: {%s: {%s: %s}}", section, name, key, value)
}

// The scopes of tokens.
const (
	ScopeStart      = "start"
	ScopeRead       = "read"
	ScopeAnswer     = "answer"
	ScopeCancel     = "cancel"
	ScopeAdminister = "administer"
)

// Principal is what the client of a token may do.
type Principal struct {
	Tenant  string   `mapstructure:"tenant" doc:"its tenant; with the scope administer it sees only runs of this tenant; default: none, and it sees all"`
	Scopes  []string `mapstructure:"scopes" oneof:"start,read,answer,cancel,administer" doc:"permissions: start runs; read, answer and cancel its own; administer all runs of its tenant and the agents; default: start, read, answer and cancel"`
	Flows   []string `mapstructure:"flows" doc:"names of the only flows and agents of flows.dir that it may start; * matches any characters; default: every flow"`
	Starts  int      `mapstructure:"starts_per_minute" max:"1000000" default:"600" doc:"maximum runs and session turns that it may start per minute; 0: unlimited"`
	Streams int      `mapstructure:"event_streams" max:"500" default:"50" doc:"maximum open event streams, including requests with wait; 0: unlimited"`
	Open    int      `mapstructure:"open_runs" max:"1000" default:"0" doc:"maximum open runs; 0: unlimited, and they are not counted"`
	MaxBody int      `mapstructure:"max_body" min:"1024" max:"1073741824" or:"0" default:"0" doc:"largest request body, in bytes; 0: serve.max_body, the limit for all clients"`
}

// withDefaults gives a principal scopes, if it has none.
func (p Principal) withDefaults() Principal {
	if len(p.Scopes) == 0 {
		p.Scopes = []string{ScopeStart, ScopeRead, ScopeAnswer, ScopeCancel}
	}
	return p
}

// Issuer is an OpenID Connect provider whose tokens starter serve takes beside its own.
type Issuer struct {
	URL         string `mapstructure:"url" kind:"url" doc:"the issuer, as in the iss claim of its tokens: https, or http on this machine; its keys are discovered at /.well-known/openid-configuration below it"`
	Audience    string `mapstructure:"audience" doc:"value that the aud claim of its tokens must contain"`
	NameClaim   string `mapstructure:"name_claim" default:"sub" doc:"claim with the name of the principal; a configured claim missing from a token is an error"`
	TenantClaim string `mapstructure:"tenant_claim" doc:"claim with the tenant; default: the tenant below"`
	Principal   `mapstructure:",squash"`
}

// secureURL reports whether an address is one of https, or of http on this machine, with nothing behind its path.
func secureURL(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || strings.ContainsAny(address, "?#") {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && Loopback(net.JoinHostPort(u.Hostname(), u.Port()))
}

// checkIssuers rejects issuers whose tokens cannot be verified or told apart.
func (l *loader) checkIssuers() {
	names := slices.Sorted(maps.Keys(l.cfg.Issuers))
	for i, name := range names {
		of := l.cfg.Issuers[name]
		of.Principal, of.NameClaim = of.withDefaults(), cmp.Or(of.NameClaim, "sub")
		l.cfg.Issuers[name] = of
		if !secureURL(of.URL) {
			l.check("issuers.%s.url: %q cannot be an issuer; expected https://HOST/PATH, as in the iss claim", name, maskURL(of.URL))
		}
		if of.Audience == "" {
			l.check("issuers.%s.audience: not set, so tokens for other services would be accepted; set it to a value of the aud claim", name)
		}
		for _, other := range names[:i] {
			o := l.cfg.Issuers[other]
			if o.URL == of.URL {
				l.check("issuers.%s.url: %s is also the url of issuers.%s; remove one of them", name, maskURL(of.URL), other)
			}
			if of.TenantClaim != "" || o.TenantClaim != "" || o.Tenant == of.Tenant {
				l.check("issuers.%s: its principals may share names with those of issuers.%s; set a separate tenant for each, without tenant_claim", name, other)
			}
		}
	}
}

// minToken is the minimum length of a token: shorter ones can be guessed.
const minToken = 16

// token is the syntax of bearer tokens, RFC 6750.
var token = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

// Tokens returns the tokens of starter serve; none if the variable is not set. The error is
// [Problems] and contains no token.
func (c *Config) Tokens() ([]Token, error) {
	out, err := c.tokens("serve.tokens_env", c.Serve.TokensEnv)
	for i := range out {
		p, ok := c.Principals[out[i].Name]
		if !ok {
			p = Principal{Starts: 600, Streams: 50}
		}
		out[i].Principal = p.withDefaults()
	}
	for _, name := range slices.Sorted(maps.Keys(c.Principals)) {
		if err == nil && !slices.ContainsFunc(out, func(t Token) bool { return t.Name == name }) {
			return nil, c.Placed(Problems{fmt.Sprintf("principals.%s: %s has no token with that name; add %s:TOKEN, or remove it", name, c.Serve.TokensEnv, name)})
		}
	}
	return out, err
}

// tokens reads the tokens of a variable; key is the setting that names it.
func (c *Config) tokens(key, variable string) ([]Token, error) {
	out, problems := readEntries(c, key, variable, "token", "NAME:TOKEN", func(name, value string) (Token, string) {
		switch {
		case name == "" || len(name) > 100:
			return Token{}, "has no name of at most 100 bytes before a colon"
		case !token.MatchString(value):
			return Token{}, "has an invalid token; expected letters, digits and ._~+/-="
		case len(value) < minToken:
			return Token{}, fmt.Sprintf("has a token with fewer than %d characters", minToken)
		}
		return Token{Name: name, Value: value}, ""
	})
	if len(problems) > 0 {
		return nil, c.Placed(problems)
	}
	return out, nil
}
