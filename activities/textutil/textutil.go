// Package textutil has helpers for text.
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

// Truncate returns s if it has at most n bytes, else its first n bytes, to a character's boundary,
// and "...".
func Truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}

// Duration formats a duration without zero units: 10m, not 10m0s.
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

// Cut shortens s to n bytes, to a character's boundary, and appends an ellipsis.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// JSON encodes v in one line, without escapes for HTML.
func JSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// ListNames lists names, at most twenty.
func ListNames(names []string) string {
	const most = 20
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// Unescape reverses the escapes for HTML that encoding/json writes for <, > and &.
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

// htmlEscape matches any escaped character, so that an escaped backslash is not taken for the start of another escape.
var htmlEscape = regexp.MustCompile(`\\u[0-9a-f]{4}|\\.`)

// ErrorText returns an error's text without URLs, which can contain keys, and without the prefixes of libraries.
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

// PEM returns text if it is PEM, else the content of the file that it names.
func PEM(text string) ([]byte, error) {
	if strings.Contains(text, "-----BEGIN ") {
		return []byte(text), nil
	}
	return os.ReadFile(text)
}
