package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Repeated finds the first name in a JSON value that its object has had before, and gives its path, such as
// arguments.list[0].to, and the byte at which it stands, from 1; 0 where there is none. Readers differ in
// which of the two values they take. Among the names of the outermost object, which are fields, case does not
// count, because encoding/json takes "Approve" for approve. Of what is no JSON it says nothing of use.
func Repeated(raw []byte) (path string, at int) {
	var open []container
	for i := 0; i < len(raw); i++ {
		top := len(open) - 1
		switch c := raw[i]; {
		case c == '"':
			end := i + quoted(raw[i:])
			if top >= 0 && open[top].begin(raw[i:end], top == 0) {
				return pathOf(open), i + 1
			}
			i = end - 1
		case c == '{':
			open = append(open, container{names: map[string]bool{}, wants: true})
		case c == '[':
			open = append(open, container{})
		case top < 0:
		case c == '}' || c == ']':
			open = open[:top]
		case c == ',':
			open[top].wants = open[top].names != nil
			open[top].n++
		}
	}
	return "", 0
}

// container is an object or a list that is open.
type container struct {
	// names are those of an object so far; nil for a list. wants reports whether a name comes next.
	names map[string]bool
	wants bool
	// name is the latest of them, n the index in a list.
	name string
	n    int
}

// begin takes a string, and reports whether it is a name that there is already.
func (c *container) begin(text []byte, field bool) bool {
	if !c.wants {
		return false
	}
	c.wants, c.name = false, unquoted(text)
	key := c.name
	if field {
		key = strings.Map(folded, key)
	}
	again := c.names[key]
	c.names[key] = true
	return again
}

// quoted is how many bytes the string takes with which raw begins.
func quoted(raw []byte) int {
	for i := 1; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}

// unquoted is the text of a string.
func unquoted(raw []byte) string {
	if plain := len(raw) > 1 && !bytes.ContainsRune(raw, '\\') && utf8.Valid(raw); plain {
		return string(raw[1 : len(raw)-1])
	}
	var out string
	if json.Unmarshal(raw, &out) != nil {
		return string(raw)
	}
	return out
}

// folded is the same rune for all that differ in case alone, as encoding/json folds them.
func folded(r rune) rune {
	for {
		next := unicode.SimpleFold(r)
		if next <= r {
			return next
		}
		r = next
	}
}

// pathOf is where the latest name of the innermost object stands.
func pathOf(open []container) string {
	var b strings.Builder
	for i := range open {
		switch c := &open[i]; {
		case c.names == nil:
			fmt.Fprintf(&b, "[%d]", c.n)
		case b.Len() > 0:
			b.WriteString("." + c.name)
		default:
			b.WriteString(c.name)
		}
	}
	return b.String()
}
