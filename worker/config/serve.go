package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
)

// Token is a bearer token, and who its client is.
type Token struct {
	Name, Value string
	// Tenant, Scopes and Flows are those of [Principal].
	Tenant        string
	Scopes, Flows []string
	// Starts are how many runs it may start per minute, Streams how many event streams it may hold; 0: no limit.
	Starts, Streams int
}

// The scopes of tokens.
const (
	ScopeStart      = "start"
	ScopeRead       = "read"
	ScopeAnswer     = "answer"
	ScopeCancel     = "cancel"
	ScopeAdminister = "administer"
)

// Principal is what the client of a token NAME may do.
type Principal struct {
	Tenant  string   `mapstructure:"tenant" doc:"its tenant: with the scope administer it sees the runs of this one alone; default: none, and it sees all"`
	Scopes  []string `mapstructure:"scopes" oneof:"start,read,answer,cancel,administer" doc:"what it may do: start runs, read, answer and cancel its own, administer all of its tenant and the agents; default: start, read, answer and cancel"`
	Flows   []string `mapstructure:"flows" doc:"names of the flows and agents of flows.dir that it may start, and no others; * matches any characters; default: every flow"`
	Starts  int      `mapstructure:"starts_per_minute" max:"1000000" default:"600" doc:"most runs that it starts per minute; 0: unlimited"`
	Streams int      `mapstructure:"event_streams" max:"500" default:"50" doc:"most event streams that it holds; 0: unlimited"`
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
		t := &out[i]
		p, ok := c.Principals[t.Name]
		if !ok {
			p = Principal{Starts: 600, Streams: 50}
		}
		t.Tenant, t.Scopes, t.Flows, t.Starts, t.Streams = p.Tenant, p.Scopes, p.Flows, p.Starts, p.Streams
		if len(t.Scopes) == 0 {
			t.Scopes = []string{ScopeStart, ScopeRead, ScopeAnswer, ScopeCancel}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Principals)) {
		if err == nil && !slices.ContainsFunc(out, func(t Token) bool { return t.Name == name }) {
			return nil, c.Placed(Problems{fmt.Sprintf("principals.%s: %s has no token of that name; add %s:TOKEN, or remove it", name, c.Serve.TokensEnv, name)})
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
			return Token{}, "has an invalid token; want letters, digits and ._~+/-="
		case len(value) < minToken:
			return Token{}, fmt.Sprintf("has a token with fewer than %d characters", minToken)
		}
		return Token{Name: name, Value: value}, ""
	})
	if len(problems) > 0 {
		return nil, problems
	}
	return out, nil
}
