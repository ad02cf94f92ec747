package lsp

import (
	"bytes"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing/fstest"
	"unicode/utf8"

	"weft/specadapter"
	"weft/specadapter/source"
)

// position is a position in a document. Both fields count from 0; characters are UTF-16 code units.
type position struct {
	Line      int `json:"line"`
	Character int `json:"character"`
}

type textRange struct {
	Start position `json:"start"`
	End   position `json:"end"`
}

// lines converts positions. For diagnostics, lines end only at a line feed; for editors, also at a
// carriage return.
type lines struct {
	text []byte
	// starts are the offsets of lines, editor the offsets of the editor's lines.
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

// token returns the range of the token at a diagnostic's position: a word, a number or a quoted string. Without a line it is
// the beginning of the document.
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
		offset += len(byteOrderMark) // diagnostics do not count it
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
		return start + n - 1 // a YAML key
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

// offset returns the offset of a position; a position after the end of a line means the end.
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

// fileName returns the path of a document. The name of an unsaved document depends on its language.
func fileName(uri, language string) string {
	u, err := url.Parse(uri)
	switch {
	case err == nil && u.Scheme == "file":
		return filepath.ToSlash(filepath.Clean(filepath.FromSlash(u.Path)))
	case strings.HasPrefix(language, "json"):
		return "untitled.json"
	}
	return "untitled.yaml"
}

func textOf(uri string) []byte {
	text, err := os.ReadFile(filepath.FromSlash(fileName(uri, "")))
	if err != nil {
		return nil // its diagnostics are reported at its beginning
	}
	return text
}

// readFolder reads the folder of a main document, with the texts of open documents, saved or not.
func readFolder(name string, docs []*document) (*specadapter.Folder, error) {
	at, main := specadapter.Locate(filepath.FromSlash(name))
	o := overlay{open: fstest.MapFS{}}
	for _, d := range docs {
		if below, err := filepath.Rel(at, filepath.FromSlash(d.name)); err == nil && filepath.IsLocal(below) {
			o.open[filepath.ToSlash(below)] = &fstest.MapFile{Data: d.text, Mode: 0o644}
		}
	}
	root, err := os.OpenRoot(at)
	switch {
	case err == nil:
		defer root.Close()
		o.saved = root.FS()
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	folder, err := specadapter.ReadFolder(o, main)
	if err != nil {
		return nil, err
	}
	return folder.Under(at), nil
}

// overlay is a folder with the texts of open documents. saved is nil if the folder does not exist yet.
type overlay struct {
	saved fs.FS
	open  fstest.MapFS
}

func (o overlay) Open(name string) (fs.File, error) {
	if o.open[name] != nil || o.saved == nil {
		return o.open.Open(name)
	}
	return o.saved.Open(name)
}

// ReadDir lists a folder, including unsaved documents.
func (o overlay) ReadDir(name string) ([]fs.DirEntry, error) {
	open, none := o.open.ReadDir(name)
	if o.saved == nil {
		return open, none
	}
	out, err := fs.ReadDir(o.saved, name)
	if none != nil {
		return out, err
	}
	for _, e := range open {
		if !slices.ContainsFunc(out, func(s fs.DirEntry) bool { return s.Name() == e.Name() }) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return out, nil
}
