package oauth

import (
	"net/http"
	"regexp"
	"strings"
)

// Challenge is what a server says with a refusal.
type Challenge struct {
	metadata string // URL of the resource's metadata
	scopes   []string
	lacks    bool // the token has too few scopes
}

// Parameters of a challenge.
var (
	challengeScope    = regexp.MustCompile(`(?i)[\s,]scope="([^"]*)"`)
	challengeMetadata = regexp.MustCompile(`(?i)[\s,]resource_metadata="([^"]*)"`)
)

// challenged reads a refusal; nil: the response is none that a token helps against.
func challenged(resp *http.Response) *Challenge {
	c := &Challenge{}
	for _, h := range resp.Header.Values("WWW-Authenticate") {
		if m := challengeScope.FindStringSubmatch(h); m != nil {
			c.scopes = strings.Fields(m[1])
		}
		if m := challengeMetadata.FindStringSubmatch(h); m != nil {
			c.metadata = m[1]
		}
		c.lacks = c.lacks || strings.Contains(h, "insufficient_scope")
	}
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden && c.lacks {
		return c
	}
	return nil
}
