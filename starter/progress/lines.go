package progress

import (
	"strings"
	"unicode/utf8"

	"weft/starter/plaintext"
)

// textLines is how many lines of a partial answer the table shows under its node.
const textLines = 2

// lastLines are the last lines of an untrusted text, made safe: the end of the last one, the beginning of others.
func lastLines(text string, width int) []string {
	var out []string
	for text != "" && len(out) < textLines {
		i := strings.LastIndexAny(text, "\r\n\v\f\u0085\u2028\u2029")
		_, size := utf8.DecodeRuneInString(text[max(i, 0):])
		line := text
		if i >= 0 {
			line, text = text[i+size:], text[:i]
		} else {
			text = ""
		}
		if line = plaintext.Line(line, len(line)+1); line == "" {
			continue
		}
		if len(out) == 0 {
			line = tail(line, width)
		} else {
			line = head(line, width)
		}
		out = append([]string{line}, out...)
	}
	return out
}

// cells is how many columns a character takes at most: characters from Hangul on may be wide.
func cells(r rune) int {
	if r >= 0x1100 {
		return 2
	}
	return 1
}

func head(s string, width int) string {
	used := 0
	for i, r := range s {
		if used += cells(r); used > width-1 && i+utf8.RuneLen(r) < len(s) || used > width {
			return s[:i] + "…"
		}
	}
	return s
}

func tail(s string, width int) string {
	used, i := 0, len(s)
	for i > 0 {
		r, size := utf8.DecodeLastRuneInString(s[:i])
		if used += cells(r); used > width-1 && i > size || used > width {
			return "…" + s[i:]
		}
		i -= size
	}
	return s
}
