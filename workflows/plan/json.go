package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Repeated finds the first name in a JSON value that its object has had before, and gives its path, such as
// arguments.list[0].to, and the byte at which it stands, from 1; 0 where there is none. Readers differ in
// which of the two values they take. Among the names of the outermost object, which are fields, case does not
// count, because encoding/json takes "Approve" for approve. Of what is no JSON it says nothing of use.
func Repeated(raw []byte) (path string, at int) {
	var open []container
	wantsName := false
	for i := 0; i < len(raw); i++ {
		sign := raw[i]
		if len(open) == 0 && (sign == ',' || sign == '}' || sign == ']') {
			return "", 0
		}
		switch top := len(open) - 1; sign {
		case '{', '[':
			open, wantsName = opened(open, sign == '{'), sign == '{'
		case '}', ']':
			open, wantsName = open[:top], false
		case ',':
			open[top].n++
			wantsName = open[top].object
		case '"':
			from := i
			i = closingQuote(raw, i)
			if wantsName && i < len(raw) && open[top].has(raw[from:i+1], top == 0) {
				return pathOf(open), from + 1
			}
			wantsName = false
		}
	}
	return "", 0
}

// closingQuote returns where the string ends that begins at a byte, or the length of raw where it does not.
func closingQuote(raw []byte, from int) int {
	for i := from + 1; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return len(raw)
}

// container is an object or a list that is open.
type container struct {
	object bool
	// name is the latest name of an object; keys are all so far, until they are many: then all holds them.
	name []byte
	keys [][]byte
	all  map[string]bool
	// n is the index in a list.
	n int
}

// opened returns the containers that are open with one more, which takes the memory of one that was closed.
func opened(open []container, object bool) []container {
	if len(open) == cap(open) {
		return append(open, container{object: object})
	}
	open = open[:len(open)+1]
	c := &open[len(open)-1]
	*c = container{object: object, keys: c.keys[:0]}
	return open
}

// manyNames is how many names of an object are compared one by one.
const manyNames = 16

// has notes a name in quotes and reports whether it was there already. Among fields case does not count.
func (c *container) has(quoted []byte, field bool) bool {
	c.name = quoted[1 : len(quoted)-1]
	if slices.ContainsFunc(c.name, func(b byte) bool { return b == '\\' || b > unicode.MaxASCII }) {
		var decoded string
		if json.Unmarshal(quoted, &decoded) == nil {
			c.name = []byte(decoded)
		}
	}
	key := c.name
	if field {
		key = bytes.Map(folded, key)
	}
	if len(c.keys) < manyNames {
		again := slices.ContainsFunc(c.keys, func(k []byte) bool { return bytes.Equal(k, key) })
		c.keys = append(c.keys, key)
		return again
	}
	if c.all == nil {
		c.all = map[string]bool{}
		for _, k := range c.keys {
			c.all[string(k)] = true
		}
	}
	again := c.all[string(key)]
	c.all[string(key)] = true
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
		case !c.object:
			fmt.Fprintf(&b, "[%d]", c.n)
		case b.Len() > 0:
			fmt.Fprintf(&b, ".%s", c.name)
		default:
			b.Write(c.name)
		}
	}
	return b.String()
}

// Depth is how deep a JSON value nests; 0 for a scalar.
func Depth(raw []byte) int {
	most, now, quoted := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			now++
			most = max(most, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return most
}
