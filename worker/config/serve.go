package config

import (
	"fmt"
	"regexp"
	"strings"
)

// Token is a bearer token and the name of who has it.
type Token struct{ Name, Value string }

// minToken is the least that a token may have: what is shorter can be guessed.
const minToken = 16

// token is what RFC 6750 lets a bearer token be.
var token = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

// Tokens gives the tokens of starter serve; none where the variable is not set. The error is
// [Problems] and holds no token.
func (c *Config) Tokens() ([]Token, error) {
	return c.tokens("serve.tokens_env", c.Serve.TokensEnv)
}

// tokens reads the tokens that a variable holds; key is the setting that names it.
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
			wrong("is no token of letters, digits and ._~+/-=")
		case len(value) < minToken:
			wrong(fmt.Sprintf("has a token of less than %d characters", minToken))
		default:
			out = append(out, Token{Name: name, Value: value})
		}
	}
	if raw != "" && len(fields) == 0 {
		problems = append(problems, fmt.Sprintf("%s: %s holds no token; write NAME:TOKEN", key, variable))
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return out, nil
}
