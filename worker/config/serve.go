package config

import (
	"fmt"
	"regexp"
)

// Token is a bearer token and the name of its client.
type Token struct{ Name, Value string }

// minToken is the minimum length of a token: shorter ones can be guessed.
const minToken = 16

// token is the syntax of bearer tokens, RFC 6750.
var token = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

// Tokens returns the tokens of starter serve; none if the variable is not set. The error is
// [Problems] and contains no token.
func (c *Config) Tokens() ([]Token, error) {
	return c.tokens("serve.tokens_env", c.Serve.TokensEnv)
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
