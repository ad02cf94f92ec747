package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// Repeated finds the first name in a JSON value that its object has had before, and gives its path, such as
// arguments.list[0].to, and the byte at which it stands, from 1; 0 where there is none. Readers differ in
// which of the two values they take. Among the names of the outermost object, which are fields, case does not
// count, because encoding/json takes "Approve" for approve. Of what is no JSON it says nothing of use.
func Repeated(raw []byte) (path string, at int) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var open []container
	for {
		before := int(d.InputOffset())
		t, err := d.Token()
		if err != nil {
			return "", 0
		}
		top := len(open) - 1
		delim, _ := t.(json.Delim)
		switch {
		case delim == '}' || delim == ']':
			open = open[:top]
			continue
		case top >= 0 && open[top].wants:
			if name, _ := t.(string); open[top].has(name, top == 0) {
				return pathOf(open), before + bytes.IndexByte(raw[before:], '"') + 1
			}
			continue
		case top >= 0:
			open[top].wants = open[top].names != nil
			open[top].n++
		}
		switch delim {
		case '{':
			open = append(open, container{names: map[string]bool{}, wants: true})
		case '[':
			open = append(open, container{n: -1})
		}
	}
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

// has notes a name and reports whether it was there already. Among fields case does not count.
func (c *container) has(name string, field bool) bool {
	c.wants, c.name = false, name
	if field {
		name = strings.Map(folded, name)
	}
	again := c.names[name]
	c.names[name] = true
	return again
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
