package tool

import (
	"net/url"
	"os"
	"slices"
	"strings"

	"weft/activities/mask"
	"weft/activities/textutil"
)

// maxQuotedText limits how much of a server's text an error quotes, in bytes.
const maxQuotedText = 600

// secrets masks the secrets of a connection.
type secrets struct {
	all   *mask.Mask // all configured values; used for errors
	named *mask.Mask // only values whose names indicate a secret; used for results, which must keep ordinary data
}

func newSecrets(c Connection) secrets {
	all := append([]string{proxyPassword(c), c.OAuthClientSecret, c.Password}, c.secretValues...)
	named := append(slices.Clone(all), c.OAuthClientSecret)
	c.eachValue(func(name, value string) {
		all = append(all, value)
		if mask.IsSecretName(name) {
			named = append(named, value)
		}
	})
	return secrets{mask.New(all...), mask.New(named...)}
}

func (s secrets) mask(t string) string       { return s.all.Text(t) }
func (s secrets) maskResult(t string) string { return s.named.Text(t) }

// eachValue calls f with each header, environment variable and URL parameter of a connection.
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

// SecretValues returns the secrets of the settings, including the contents of files.
func (s Settings) SecretValues() []string {
	var out []string
	for _, c := range s.Connections {
		c.eachValue(func(name, value string) { out = append(out, mask.Named(name, value)) })
		key, _ := textutil.PEM(c.KeyFile) // an unreadable file has no secret to mask
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
	return textutil.Truncate(strings.TrimSpace(strings.ToValidUTF8(t, "\uFFFD")), maxQuotedText)
}
