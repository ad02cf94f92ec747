package lsp

import (
	"bytes"
	"unicode/utf8"

	"weft/specadapter/source"
)

// position is a place in a document. Both count from 0; characters are code units of UTF-16.
type position struct {
	Line      int `json:"line"`
	Character int `json:"character"`
}

type textRange struct {
	Start position `json:"start"`
	End   position `json:"end"`
}

// lines are the lines of a document as diagnostics count them: they end at a line feed alone. Editors also end them at a
// carriage return.
type lines struct {
	text []byte
	// starts are the offsets of lines, editor those of the editor's lines.
	starts, editor []int
}

func linesOf(text []byte) *lines {
	l := &lines{text: text, starts: []int{0}, editor: []int{0}}
	for i, b := range text {
		if b == '\n' {
			l.starts = append(l.starts, i+1)
		}
		if b == '\n' || b == '\r' && (i+1 == len(text) || text[i+1] != '\n') {
			l.editor = append(l.editor, i+1)
		}
	}
	return l
}

var byteOrderMark = []byte("\ufeff")

// token is the range of what stands at a diagnostic's place: a word, a number or a text in quotes. Without a line it is the
// beginning of the document.
func (l *lines) token(line, col int) textRange {
	if line < 1 || line > len(l.starts) {
		return textRange{}
	}
	start := l.at(source.Pos{Line: line, Col: col})
	return textRange{l.position(start), l.position(l.tokenEnd(start))}
}

func (l *lines) at(p source.Pos) int {
	if p.Line < 1 || p.Line > len(l.starts) {
		return 0
	}
	offset := l.starts[p.Line-1] + max(p.Col-1, 0)
	if p.Line == 1 && bytes.HasPrefix(l.text, byteOrderMark) {
		offset += len(byteOrderMark) // it is not counted
	}
	return min(offset, len(l.text))
}

func (l *lines) tokenEnd(start int) int {
	rest := l.text[start:]
	if i := bytes.IndexAny(rest, "\r\n"); i >= 0 {
		rest = rest[:i]
	}
	if len(rest) > 0 && (rest[0] == '"' || rest[0] == '\'') {
		for i := 1; i < len(rest); i++ {
			if rest[i] == '\\' && rest[0] == '"' {
				i++
			} else if rest[i] == rest[0] {
				return start + i + 1
			}
		}
		return start + len(rest)
	}
	if i := bytes.IndexAny(rest, " \t,{}[]"); i >= 0 {
		rest = rest[:max(i, 1)]
	}
	if n := len(rest); n > 1 && rest[n-1] == ':' {
		return start + n - 1 // a key of YAML
	}
	return start + len(rest)
}

func (l *lines) position(offset int) position {
	line := len(l.editor) - 1
	for line > 0 && l.editor[line] > offset {
		line--
	}
	return position{line, units(l.text[l.editor[line]:offset])}
}

// offset is that of a place; a place behind the end of a line means the end.
func (l *lines) offset(p position) int {
	if p.Line < 0 || p.Line >= len(l.editor) {
		return len(l.text)
	}
	offset := l.editor[p.Line]
	for n := 0; offset < len(l.text) && l.text[offset] != '\n' && l.text[offset] != '\r'; {
		r, size := utf8.DecodeRune(l.text[offset:])
		if n += width(r); n > p.Character {
			break
		}
		offset += size
	}
	return offset
}

// units counts the code units of UTF-16.
func units(text []byte) int {
	n := 0
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		n, text = n+width(r), text[size:]
	}
	return n
}

func width(r rune) int {
	if r > 0xffff {
		return 2
	}
	return 1
}
