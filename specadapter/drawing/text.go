package drawing

import (
	"strings"
	"unicode"
)

// Measures of text in the drawing, in its units, which are pixels.
const (
	fontSize   = 13
	lineHeight = 17
)

// runeWidth estimates the width of a character in a sans-serif font, rather too wide than too narrow.
func runeWidth(r rune) float64 {
	switch {
	case r >= 0x1100 && (unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana) || r >= 0x1f000 || r >= 0xff00 && r < 0xff61):
		return 13.5
	case strings.ContainsRune("iljtf.,:;!|'()[] ", r):
		return 4.5
	case unicode.IsUpper(r), strings.ContainsRune("mwMW@%—…", r):
		return 9.5
	}
	return 7.5
}

func widthOf(s string) float64 {
	w := 0.0
	for _, r := range s {
		w += runeWidth(r)
	}
	return w
}

// wrap breaks a text into lines of at most a width, preferably between words, and cuts the rest.
func wrap(s string, width float64, most int) []string {
	var lines []string
	for _, word := range strings.Fields(printable(s)) {
		for word != "" && len(lines) <= most {
			// A piece of a word that is too wide fills its line: nothing joins it there.
			piece := fitting(word, width)
			word = word[len(piece):]
			if n := len(lines); n > 0 && widthOf(lines[n-1]+" "+piece) <= width {
				lines[n-1] += " " + piece
			} else {
				lines = append(lines, piece)
			}
		}
	}
	return cutTo(lines, most)
}

// fitting is the beginning of a word that fits a width, at least one character.
func fitting(word string, width float64) string {
	w := 0.0
	for i, r := range word {
		if w += runeWidth(r); w > width && i > 0 {
			return word[:i]
		}
	}
	return word
}

// cutTo keeps the first lines and shows that there were more.
func cutTo(lines []string, most int) []string {
	if len(lines) <= most {
		return lines
	}
	lines = lines[:most]
	lines[most-1] += "…"
	return lines
}

// printable drops control characters, bidirectional marks and what XML does not allow.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == 0xfffe, r == 0xffff:
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

var escapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;")

// escaped is a text as XML has it, in elements and in attributes.
func escaped(s string) string { return escapes.Replace(s) }
