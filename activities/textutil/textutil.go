// Package textutil holds the text helpers that several packages share.
package textutil

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// Truncate returns s if it has at most n bytes, else its first n bytes and "...". It never cuts
// within a character.
func Truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}

// Duration is a duration as an operator writes it: 10m, not 10m0s.
func Duration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Cut shortens s to n bytes, at a character's boundary, and marks that with an ellipsis.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// JSON encodes v in one line, without the escapes that only HTML needs.
func JSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Some lists names, the first twenty of many.
func Some(names []string) string {
	const most = 20
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// Unescape undoes what encoding/json does to < > and & on a schema's way through a payload.
func Unescape(raw []byte) []byte {
	return htmlEscape.ReplaceAllFunc(raw, func(m []byte) []byte {
		switch string(m) {
		case `\u003c`:
			return []byte("<")
		case `\u003e`:
			return []byte(">")
		case `\u0026`:
			return []byte("&")
		}
		return m
	})
}

// An escaped character in JSON, so that a backslash before one is never taken for its begin.
var htmlEscape = regexp.MustCompile(`\\u[0-9a-f]{4}|\\.`)

// ErrorText is an error's text without URLs, which can contain keys, and without the library's prefixes.
func ErrorText(err error) string {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	text := strings.TrimPrefix(err.Error(), "transport error: ")
	return strings.ReplaceAll(text, "failed to ", "could not ")
}

// PEM returns a text that is PEM, or what the file has that it names.
func PEM(text string) ([]byte, error) {
	if strings.Contains(text, "-----BEGIN ") {
		return []byte(text), nil
	}
	return os.ReadFile(text)
}
