package schema

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"weft/workflows/plan/pytext"
)

// place is where a rule failed: the rule's schema, the value, and the paths to both.
type place struct {
	ix index
	// parent is the schema that has the rule; nil if it was not found.
	parent *pytext.Value
	// keyword is the rule's name; "" stands for the schema false.
	keyword string
	value   *pytext.Value
	// path is the path of the value, with [i] for the items of lists; way is the path of the rule,
	// as Python reports it.
	path, way []string
	// order is the position of the rule in the text of the schema.
	order []int
}

// shownPath formats the path of the value, in one of the two styles.
func (p *place) shownPath(documented bool) string {
	var b strings.Builder
	b.WriteByte('$')
	for _, part := range p.path {
		if part[0] == '[' && !documented {
			part = "." + part[1:len(part)-1]
		}
		b.WriteString(part)
	}
	return b.String()
}

// shownWay formats the path of the rule, in one of the two styles.
func (p *place) shownWay(documented bool) string {
	if documented {
		return strings.Join(p.way, ".")
	}
	return strings.Join(p.way, "/")
}

// walk follows the path of a failed rule from the roots of the schema and the value.
type walk struct {
	place
	root   *pytext.Value
	tokens []string
	// names are the remaining tokens of the value's path.
	names []string
}

// locate finds the place of a rule by the locations that the validator returns.
func locate(ix index, root, value *pytext.Value, keywordLocation, instanceLocation string) place {
	w := walk{root: root, tokens: Pointer(keywordLocation), names: Pointer(instanceLocation)}
	w.ix, w.parent, w.value = ix, root, value
	for len(w.tokens) > 0 && w.parent != nil {
		w.step()
	}
	// The remaining tokens belong to the path of the value.
	for len(w.names) > 0 {
		w.enter()
	}
	return w.place
}

func (w *walk) take() string {
	t := w.tokens[0]
	w.tokens = w.tokens[1:]
	return t
}

// descend moves to a part of the schema with an index among its siblings.
func (w *walk) descend(to *pytext.Value, number int) {
	w.parent = to
	w.order = append(w.order, number)
}

// enter moves to the next part of the value.
func (w *walk) enter() {
	if len(w.names) == 0 {
		return
	}
	name := w.names[0]
	w.names = w.names[1:]
	if w.value != nil && w.value.Kind == pytext.Array {
		w.path = append(w.path, "["+name+"]")
	} else {
		w.path = append(w.path, "."+name)
	}
	v, number := w.ix.child(w.value, name)
	w.value = v
	w.order = append(w.order, number)
}

func (w *walk) step() {
	schema, keyword := w.parent, w.take()
	rule, number := w.ix.child(schema, keyword)
	if len(w.tokens) == 0 {
		w.arrive(keyword, number)
		return
	}
	// Python omits these two.
	if keyword != "$ref" && keyword != "if" {
		w.way = append(w.way, keyword)
	}
	w.descend(rule, number)
	dep, _ := w.ix.child(rule, w.tokens[0])
	switch {
	case dependencies[keyword] && dep != nil && dep.Kind == pytext.Array:
		w.parent, w.keyword, w.tokens = schema, keyword, nil
	case keyword == "$ref":
		w.parent = w.refer(rule)
	case keyword == "propertyNames":
		w.name()
	case !parts[keyword] && !holdsNamed[keyword] && !dependencies[keyword]:
		w.parent = nil
	default:
		w.follow(keyword, rule)
	}
}

// follow moves to one of the rule's schemas, if it has several, and to a part of the value, if the rule applies to parts.
func (w *walk) follow(keyword string, rule *pytext.Value) {
	if holdsNamed[keyword] || rule != nil && rule.Kind == pytext.Array {
		w.part()
	}
	if entered[keyword] {
		w.enter()
	}
}

// arrive ends the walk at a rule.
func (w *walk) arrive(keyword string, number int) {
	if keyword == "minContains" && w.ix.get(w.parent, keyword) == nil {
		// The library reports this for a "contains" without "minContains".
		keyword = "contains"
		_, number = w.ix.child(w.parent, keyword)
	}
	w.keyword = keyword
	w.way, w.order = append(w.way, keyword), append(w.order, number)
}

// dependencies are the rules whose parts may be lists of names instead of schemas.
var dependencies = map[string]bool{"dependencies": true, "dependentRequired": true}

// entered are the rules that apply to parts of the value.
var entered = map[string]bool{"properties": true, "patternProperties": true, "additionalProperties": true, "unevaluatedProperties": true,
	"items": true, "prefixItems": true, "contains": true, "additionalItems": true, "unevaluatedItems": true}

// part moves to one of several schemas of a rule.
func (w *walk) part() {
	if len(w.tokens) == 0 {
		return
	}
	name := w.take()
	w.way = append(w.way, name)
	to, number := w.ix.child(w.parent, name)
	w.descend(to, number)
}

// name makes the name of a member the value; the path remains the object's.
func (w *walk) name() {
	if len(w.names) == 0 {
		return
	}
	_, number := w.ix.child(w.value, w.names[0])
	w.value = &pytext.Value{Kind: pytext.String, Text: w.names[0]}
	w.order, w.names = append(w.order, number), nil
}

// refer returns the schema that a reference within the document points to, or nil.
func (w *walk) refer(ref *pytext.Value) *pytext.Value {
	if ref == nil || !strings.HasPrefix(ref.Text, "#") {
		return nil
	}
	to := w.root
	for _, part := range Pointer(ref.Text[1:]) {
		if to, _ = w.ix.child(to, part); to == nil {
			return nil
		}
	}
	return to
}

// index finds members of large objects by key, to avoid quadratic time with many errors.
type index map[*pytext.Value]map[string]int

func (x index) get(v *pytext.Value, key string) *pytext.Value {
	if v == nil || v.Kind != pytext.Object {
		return nil
	}
	m, _ := x.child(v, key)
	return m
}

// child returns a part of a value and its index; nil if there is none.
func (x index) child(v *pytext.Value, name string) (*pytext.Value, int) {
	if v == nil {
		return nil, 0
	}
	if v.Kind == pytext.Array {
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 || i >= len(v.Items) {
			return nil, len(v.Items)
		}
		return v.Items[i], i
	}
	i := x.member(v, name)
	if i < 0 {
		return nil, len(v.Members)
	}
	return v.Members[i].Value, i
}

// member returns the index of a member, or -1.
func (x index) member(v *pytext.Value, name string) int {
	if len(v.Members) <= 16 {
		return slices.IndexFunc(v.Members, func(m pytext.Member) bool { return m.Key == name })
	}
	byKey := x[v]
	if byKey == nil {
		byKey = make(map[string]int, len(v.Members))
		for i, m := range v.Members {
			byKey[m.Key] = i
		}
		x[v] = byKey
	}
	if i, ok := byKey[name]; ok {
		return i
	}
	return -1
}

// Pointer splits a JSON pointer, which the library escapes as part of a URL.
func Pointer(p string) []string {
	if p == "" {
		return nil
	}
	parts := strings.Split(strings.TrimPrefix(p, "/"), "/")
	for i := range parts {
		if plain, err := url.PathUnescape(parts[i]); err == nil {
			parts[i] = plain
		}
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(parts[i], "~1", "/"), "~0", "~")
	}
	return parts
}
