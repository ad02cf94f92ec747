package config

import (
	"fmt"
	"regexp"
	"strings"
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
	raw, err := c.secret(variable)
	if err != nil {
		return nil, Problems{fmt.Sprintf("%s: %v", key, err)}
	}
	var out []Token
	var problems Problems
	fields := entries(raw)
	for i, field := range fields {
		wrong := func(what string) {
			problems = append(problems, fmt.Sprintf("%s: entry %d of %s %s; write NAME:TOKEN", key, i+1, variable, what))
		}
		name, value, ok := strings.Cut(strings.TrimSpace(field), ":")
		switch name = strings.TrimSpace(name); {
		case !ok || name == "" || len(name) > 100:
			wrong("has no name of at most 100 bytes before a colon")
		case !token.MatchString(value):
			wrong("has an invalid token; want letters, digits and ._~+/-=")
		case len(value) < minToken:
			wrong(fmt.Sprintf("has a token with fewer than %d characters", minToken))
		default:
			out = append(out, Token{Name: name, Value: value})
		}
	}
	if raw != "" && len(fields) == 0 {
		problems = append(problems, fmt.Sprintf("%s: %s contains no token; write NAME:TOKEN", key, variable))
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return out, nil
}
