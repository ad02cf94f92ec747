package tool

import (
	"net/url"
	"regexp"
	"sort"
	"strings"
	"unicode/utf8"
)

// Texts that leave the package lose the values that a connection's settings bring.
const (
	hidden = "[secret]"
	// shortestSecret: shorter values would mangle ordinary text.
	shortestSecret = 8
	// longestText bounds what an error quotes of a server's words.
	longestText = 600
)

// secretName tells a name that brings a credential from one that brings an option.
var secretName = regexp.MustCompile(`(?i)auth|key|token|secret|passw|cookie|credential|session|signature|dsn`)

// secrets replaces a connection's credentials in texts.
type secrets struct {
	all   *strings.Replacer // every value: for errors
	named *strings.Replacer // values of names that say secret: for results, which must keep ordinary data
}

func newSecrets(c Connection) secrets {
	var all, named []string
	add := func(name, value string) {
		for _, v := range []string{value, afterScheme(value)} {
			if len(v) < shortestSecret {
				continue
			}
			all = append(all, v)
			if secretName.MatchString(name) {
				named = append(named, v)
			}
		}
	}
	for name, value := range c.Headers {
		add(name, value)
	}
	for _, value := range c.named {
		add("secret", value)
	}
	for name, value := range c.Env {
		add(name, value)
	}
	if u, err := url.Parse(c.URL); err == nil {
		for name, values := range u.Query() {
			for _, v := range values {
				add(name, v)
				add(name, url.QueryEscape(v))
			}
		}
	}
	if u, err := url.Parse(c.Proxy); err == nil && u.User != nil {
		if pass, ok := u.User.Password(); ok {
			add("password", pass)
		}
	}
	return secrets{all: replacer(all), named: replacer(named)}
}

// afterScheme is the credential in a value like "Bearer abc".
func afterScheme(value string) string {
	_, rest, _ := strings.Cut(value, " ")
	return strings.TrimSpace(rest)
}

// replacer replaces longer values first, so that a part never spoils the whole.
func replacer(values []string) *strings.Replacer {
	if len(values) == 0 {
		return nil
	}
	sort.Slice(values, func(i, j int) bool { return len(values[i]) > len(values[j]) })
	var pairs []string
	for _, v := range values {
		pairs = append(pairs, v, hidden)
	}
	return strings.NewReplacer(pairs...)
}

func (s secrets) text(t string) string {
	if s.all == nil {
		return t
	}
	return s.all.Replace(t)
}

func (s secrets) result(t string) string {
	if s.named == nil {
		return t
	}
	return s.named.Replace(t)
}

// short cuts a server's words to what an error quotes.
func short(t string) string {
	t = strings.TrimSpace(strings.ToValidUTF8(t, "\uFFFD"))
	if len(t) <= longestText {
		return t
	}
	cut := longestText
	for cut > 0 && !utf8.RuneStart(t[cut]) {
		cut--
	}
	return t[:cut] + "..."
}
