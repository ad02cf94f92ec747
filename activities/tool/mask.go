package tool

import (
	"net/url"
	"os"
	"slices"
	"strings"

	"weft/activities/mask"
	"weft/activities/textutil"
)

// longestText bounds what an error quotes of a server's text.
const longestText = 600

type secrets struct {
	all   *mask.Mask // every value: for errors
	named *mask.Mask // values whose names mean a secret: for results, which must keep ordinary data
}

func newSecrets(c Connection) secrets {
	all := append([]string{proxyPassword(c), c.OAuthClientSecret, c.Password}, c.named...)
	named := append(slices.Clone(all), c.OAuthClientSecret)
	c.eachValue(func(name, value string) {
		all = append(all, value)
		if mask.Telling(name) {
			named = append(named, value)
		}
	})
	return secrets{mask.New(all...), mask.New(named...)}
}

func (s secrets) text(t string) string   { return s.all.Text(t) }
func (s secrets) result(t string) string { return s.named.Text(t) }

// eachValue calls f with the headers, the variables and the parameters of the URL of a connection.
func (c Connection) eachValue(f func(name, value string)) {
	for _, values := range []map[string]string{c.Headers, c.Env} {
		for name, value := range values {
			f(name, value)
		}
	}
	if u, err := url.Parse(c.URL); err == nil {
		for name, values := range u.Query() {
			for _, value := range values {
				f(name, value)
			}
		}
	}
}

func proxyPassword(c Connection) string {
	u, err := url.Parse(c.Proxy)
	if err != nil {
		return ""
	}
	password, _ := u.User.Password()
	return password
}

// Known are the secrets of the settings, those of files included.
func (s Settings) Known() []string {
	var out []string
	for _, c := range s.Connections {
		c.eachValue(func(name, value string) { out = append(out, mask.Named(name, value)) })
		key, _ := textutil.PEM(c.KeyFile) // an unreadable file has no secret
		out = append(out, proxyPassword(c), c.Password, string(key))
	}
	for _, secret := range s.Secrets {
		if _, err := os.Stat(secret.Value); err == nil {
			text, _ := os.ReadFile(secret.Value)
			secret.Value = string(text)
		}
		out = append(out, secret.Value)
	}
	for _, v := range s.Variables {
		out = append(out, v.Value)
	}
	return out
}

// short truncates a server's text to what an error quotes.
func short(t string) string {
	return textutil.Truncate(strings.TrimSpace(strings.ToValidUTF8(t, "\uFFFD")), longestText)
}
