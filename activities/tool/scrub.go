package tool

import (
	"net/url"
	"os"
	"sort"
	"strings"

	"weft/activities/mask"
	"weft/activities/textutil"
)

// Texts that leave the package lose the values that a connection's settings bring.
const (
	hidden = "[secret]"
	// shortestSecret: shorter values would mangle ordinary text.
	shortestSecret = 8
	// longestText bounds what an error quotes of a server's words.
	longestText = 600
)

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
			if mask.Telling(name) {
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

// Known are the secrets of the settings, those of files included.
func (s Settings) Known() []string {
	var out []string
	for _, c := range s.Connections {
		for _, names := range []map[string]string{c.Headers, c.Env} {
			for name, value := range names {
				out = append(out, mask.Named(name, value))
			}
		}
		if u, err := url.Parse(c.URL); err == nil {
			for name, values := range u.Query() {
				for _, v := range values {
					out = append(out, mask.Named(name, v))
				}
			}
		}
		if u, err := url.Parse(c.Proxy); err == nil {
			password, _ := u.User.Password()
			out = append(out, password)
		}
		out = append(out, keyIn(c.KeyFile))
	}
	for _, secret := range s.Secrets {
		if _, err := os.Stat(secret.Value); err == nil {
			secret.Value = keyIn(secret.Value)
		}
		out = append(out, secret.Value)
	}
	for _, v := range s.Variables {
		out = append(out, v.Value)
	}
	return out
}

// keyIn is what a file of PEM has, or such a text itself; "" where there is none.
func keyIn(file string) string {
	if raw, err := pemOf(file); err == nil && file != "" {
		return string(raw)
	}
	return ""
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
	return textutil.Truncate(strings.TrimSpace(strings.ToValidUTF8(t, "\uFFFD")), longestText)
}
