package source

import (
	"bytes"
	"sort"
	"unicode/utf8"
)

func lineStarts(data []byte) []int {
	starts := make([]int, 1, 1+bytes.Count(data, []byte{'\n'}))
	for i, b := range data {
		if b == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

func (p *parser) pos(offset int) Pos {
	line := sort.SearchInts(p.lines, offset+1)
	return Pos{File: p.name, Line: line, Col: offset - p.lines[line-1] + 1}
}

// yamlStarts lists where YAML's lines begin, also behind carriage returns, U+0085, U+2028 and U+2029.
func yamlStarts(data []byte) []int {
	starts := []int{0}
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		i += n
		switch r {
		case '\r':
			if i < len(data) && data[i] == '\n' {
				i++
			}
			starts = append(starts, i)
		case '\n', 0x85, 0x2028, 0x2029:
			starts = append(starts, i)
		}
	}
	return starts
}

// yamlCursor turns YAML's lines and columns, which count characters, into byte offsets. It
// goes on from the place before it, because a document may be one long line.
type yamlCursor struct {
	data      []byte
	starts    []int
	line, col int
	offset    int
}

func (c *yamlCursor) at(line, col int) int {
	if line < 1 || line > len(c.starts) {
		return 0
	}
	if line != c.line || col < c.col {
		c.line, c.col, c.offset = line, 1, c.starts[line-1]
	}
	for ; c.col < col && c.offset < len(c.data); c.col++ {
		_, n := utf8.DecodeRune(c.data[c.offset:])
		c.offset += n
	}
	return c.offset
}
