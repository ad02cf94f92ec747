package oauth

import (
	"net/http"
	"regexp"
	"strings"
)

// Challenge is the WWW-Authenticate header of a response that denies access.
type Challenge struct {
	metadata string // URL of the resource's metadata
	scopes   []string
	lacks    bool // the token lacks scopes
}

// Parameters of a challenge.
var (
	challengeScope    = regexp.MustCompile(`(?i)[\s,]scope="([^"]*)"`)
	challengeMetadata = regexp.MustCompile(`(?i)[\s,]resource_metadata="([^"]*)"`)
)

// challenged returns the challenge of a response, or nil if another token would not help.
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
