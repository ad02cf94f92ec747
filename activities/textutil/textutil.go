// Package textutil holds the text helpers that several packages share.
package textutil

import (
	"bytes"
	"encoding/json"
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
