package blueprint

import (
	"errors"
	"strings"
)

// split cuts a command into words as a shell does, without expanding anything: quotes,
// backslashes outside single quotes, and in double quotes before " and \ alone.
func split(s string) ([]string, error) {
	var w splitter
	for w.rest = s; w.rest != ""; {
		if err := w.step(); err != nil {
			return nil, err
		}
	}
	if w.quote != 0 {
		return nil, errors.New("a quote is not closed")
	}
	w.end()
	return w.words, nil
}

// splitter is a command that is being cut.
type splitter struct {
	rest  string
	words []string
	word  strings.Builder
	// started reports whether a word is open, even if it is empty; quote is the open quote, or 0.
	started bool
	quote   byte
}

// step takes one character, or two behind a backslash.
func (w *splitter) step() error {
	c := w.rest[0]
	w.rest = w.rest[1:]
	if w.quote == 0 && strings.IndexByte(" \t\r\n", c) >= 0 {
		w.end()
		return nil
	}
	w.started = true
	switch {
	case w.quote == c:
		w.quote = 0
	case w.quote == 0 && (c == '\'' || c == '"'):
		w.quote = c
	case c == '\\' && w.quote != '\'':
		return w.escape()
	default:
		w.word.WriteByte(c)
	}
	return nil
}

// escape takes the character behind a backslash.
func (w *splitter) escape() error {
	if w.rest == "" {
		return errors.New("it ends in a backslash")
	}
	c := w.rest[0]
	w.rest = w.rest[1:]
	if w.quote == '"' && c != '"' && c != '\\' {
		w.word.WriteByte('\\')
	}
	w.word.WriteByte(c)
	return nil
}

// end closes a word.
func (w *splitter) end() {
	if w.started {
		w.words = append(w.words, w.word.String())
	}
	w.started = false
	w.word.Reset()
}
