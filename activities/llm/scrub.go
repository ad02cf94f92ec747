package llm

import (
	"regexp"
	"strings"
	"unicode"

	"weft/activities/textutil"
)

// maxQuoted bounds what a message quotes of a provider's text, in bytes.
const maxQuoted = 300

// secretShapes are texts that look like keys: servers repeat the one that they refuse.
var secretShapes = regexp.MustCompile(`(?i)\bbearer\s+[^\s"',]+|\b(sk|pk|rk|gsk|xai|hf)[-_][A-Za-z0-9_\-*.]{6,}|\bAIza[A-Za-z0-9_\-]{10,}|[A-Za-z0-9_\-]*\*{3,}[A-Za-z0-9_\-]*`)

// clean removes secrets and control characters from a provider's text and truncates it to one line of
// [maxQuoted] bytes.
func (p *provider) clean(s string) string {
	// A secret that this cuts in two is far beyond what is quoted.
	if len(s) > 64<<10 {
		s = s[:64<<10]
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(p.key) >= 4 {
		s = strings.ReplaceAll(s, p.key, "[secret]")
	}
	for _, values := range p.headers {
		for _, v := range strings.Fields(strings.Join(values, " ")) {
			if len(v) >= 8 {
				s = strings.ReplaceAll(s, v, "[secret]")
			}
		}
	}
	s = p.mask.Text(s)
	s = secretShapes.ReplaceAllString(s, "[secret]")
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	return textutil.Truncate(strings.Join(strings.Fields(s), " "), maxQuoted-len("..."))
}
