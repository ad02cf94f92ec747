package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"weft/activities/textutil"
)

// parts returns the secrets in a value.
func parts(v string) []string {
	v = strings.TrimSpace(v)
	if strings.Contains(v, "-----BEGIN ") {
		return keyLines(v)
	}
	var object map[string]any
	if strings.HasPrefix(v, "{") && json.Unmarshal([]byte(v), &object) == nil {
		var out []string
		for _, member := range object {
			if text, ok := member.(string); ok {
				out = append(out, parts(text)...)
			}
		}
		return append(out, v)
	}
	out := []string{v}
	scheme, rest, ok := strings.Cut(v, " ")
	if rest = strings.TrimSpace(rest); !ok || rest == "" {
		return out
	}
	out = append(out, rest)
	if plain, err := base64.StdEncoding.DecodeString(rest); strings.EqualFold(scheme, "basic") && err == nil {
		_, password, _ := strings.Cut(string(plain), ":")
		out = append(out, password)
	}
	return out
}

// keyLines returns the lines of the private keys in PEM text; certificates are public.
func keyLines(v string) []string {
	var out []string
	key := false
	for line := range strings.Lines(v) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "-----BEGIN "):
			key = strings.Contains(line, "PRIVATE KEY")
		case strings.HasPrefix(line, "-----END "):
			key = false
		case key:
			out = append(out, line)
		}
	}
	return out
}

// forms returns the encodings in which text may contain a secret.
func forms(v string) []string {
	if len(v) < Shortest {
		return nil
	}
	out := []string{v, url.QueryEscape(v), url.PathEscape(v)}
	for _, encode := range []func(any) ([]byte, error){json.Marshal, textutil.JSON} {
		quoted, _ := encode(v) // a string always encodes
		out = append(out, string(quoted[1:len(quoted)-1]))
	}
	return out
}

// escaped reports whether text is JSON with escapes, in which a search for the plain value may
// fail.
func escaped(raw []byte) bool { return bytes.Contains(raw, []byte(`\u`)) && json.Valid(raw) }

// maskStrings masks every string of a JSON value. It returns fallback, the value masked as plain text, if raw cannot be
// decoded, and raw if no string changes. An answer keeps its handles.
func (k *secrets) maskStrings(raw []byte, fallback string, answer bool) []byte {
	v, ok := textutil.DecodeExact(raw)
	if !ok {
		return []byte(fallback)
	}
	changed := false
	v = k.each(v, answer, &changed)
	if !changed {
		return raw
	}
	out, err := textutil.JSON(v)
	if err != nil {
		return []byte(fallback)
	}
	return out
}

// each masks the strings of a value, including keys, except for the handles of an answer.
func (k *secrets) each(v any, answer bool, changed *bool) any {
	hide := func(s string) string {
		out := k.replacer.Replace(s)
		*changed = *changed || out != s
		return out
	}
	switch v := v.(type) {
	case string:
		return hide(v)
	case json.Number:
		if out := hide(v.String()); out != v.String() {
			return out
		}
	case []any:
		for i := range v {
			_, object := v[i].(map[string]any)
			v[i] = k.each(v[i], answer && object, changed)
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			_, text := member.(string)
			_, list := member.([]any)
			if answer && text && slices.Contains(handles, name) {
				out[name] = member
			} else {
				out[hide(name)] = k.each(member, answer && list && slices.Contains(lists, name), changed)
			}
		}
		return out
	}
	return v
}

// handles are members that hold ids. They are not masked in an answer, even if they contain the text of a secret.
var handles = []string{"run", "run_id", "id", "request", "session_id", "session", "workflow_id", "flow_hash", "hash", "next_page_token"}

// lists are members of an answer whose elements have handles of their own.
var lists = []string{"runs", "requests"}

// secretName matches names of credentials. Short words must match as words, unlike in COMPASS and
// BYPASS; PWD alone is the working directory.
var secretName = regexp.MustCompile(`(?i)auth|key|token|secret|passw|passphrase|passcode|cookie|credential|session|signature|dsn|bearer|jwt` +
	`|(^|[^a-z])(pg|db)?pass([^a-z]|file|$)|[a-z0-9](?-i:Pass)(?-i:[^a-z]|$)|[_-]pwd([^a-z]|$)`)

// plainWord bounds the length of values that are options whatever their name is, such as "standard".
const plainWord = 16

// IsSecretName reports whether a header, a variable or a query parameter of this name holds a secret.
func IsSecretName(name string) bool { return secretName.MatchString(name) }

// Named returns the value of a header, a variable or a query parameter if its name implies a
// secret and the value is not a plain word; else "".
func Named(name, value string) string {
	plain := len(value) < plainWord && strings.Trim(value, "abcdefghijklmnopqrstuvwxyz-_/. ") == ""
	if !IsSecretName(name) || plain {
		return ""
	}
	return value
}
