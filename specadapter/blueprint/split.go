package blueprint

import (
	"errors"
	"strings"
)

// split cuts a command into words as a shell does, without expanding anything: quotes,
// backslashes outside single quotes, and in double quotes before " and \ alone.
func split(s string) ([]string, error) {
	var words []string
	var word []byte // nil while none is open
	quote := byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		if quote == 0 && strings.IndexByte(" \t\r\n", c) >= 0 {
			words, word = end(words, word), nil
			continue
		}
		if word == nil {
			word = []byte{}
		}
		switch {
		case c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case c == '\\' && quote != '\'':
			if i++; i == len(s) {
				return nil, errors.New("it ends in a backslash")
			}
			if quote == '"' && strings.IndexByte(`"\`, s[i]) < 0 {
				word = append(word, '\\')
			}
			word = append(word, s[i])
		default:
			word = append(word, c)
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote is not closed")
	}
	return end(words, word), nil
}

// end closes a word, if one is open.
func end(words []string, word []byte) []string {
	if word == nil {
		return words
	}
	return append(words, string(word))
}
