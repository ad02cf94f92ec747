package schema

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"weft/workflows/plan/pytext"
)

// place is where a rule failed: its schema, the value, and the ways to both.
type place struct {
	ix index
	// parent is the schema that has the rule; nil where the way could not be followed.
	parent *pytext.Value
	// keyword is the rule's name; "" is the schema itself, which takes nothing.
	keyword string
	value   *pytext.Value
	// path leads to the value, with [i] for the items of lists; way, to the rule, as Python
	// tells it.
	path, way []string
	// order is the rule's place among all rules, as they are written.
	order []int
}

// shownPath is the path from $ on, in one of the two styles.
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

// shownWay is the way to the rule, in one of the two styles.
func (p *place) shownWay(documented bool) string {
	if documented {
		return strings.Join(p.way, ".")
	}
	return strings.Join(p.way, "/")
}

// walk follows the way of a failed rule from the root of the schema and the value.
type walk struct {
	place
	root   *pytext.Value
	tokens []string
	// names are the tokens of the value's place that are left.
	names []string
}

// locate finds the place of a rule by the locations that the validator gives.
func locate(ix index, root, value *pytext.Value, keywordLocation, instanceLocation string) place {
	w := walk{root: root, tokens: Pointer(keywordLocation), names: Pointer(instanceLocation)}
	w.ix, w.parent, w.value = ix, root, value
	for len(w.tokens) > 0 && w.parent != nil {
		w.step()
	}
	// What could not be followed is at the value's own place.
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

// descend goes to a part of the schema, numbered among its siblings.
func (w *walk) descend(to *pytext.Value, number int) {
	w.parent = to
	w.order = append(w.order, number)
}

// enter goes to the next part of the value and notes its number.
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
	// Python leaves these two out of the way.
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

// follow goes to one of the rule's schemas, if it has several, and to a part of the value, if it is for one.
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
		// What the library calls so is "contains" where nothing says how many.
		keyword = "contains"
		_, number = w.ix.child(w.parent, keyword)
	}
	w.keyword = keyword
	w.way, w.order = append(w.way, keyword), append(w.order, number)
}

// dependencies are the rules whose parts may be lists of names instead of schemas.
var dependencies = map[string]bool{"dependencies": true, "dependentRequired": true}

// entered are the rules for parts of the value.
var entered = map[string]bool{"properties": true, "patternProperties": true, "additionalProperties": true, "unevaluatedProperties": true,
	"items": true, "prefixItems": true, "contains": true, "additionalItems": true, "unevaluatedItems": true}

// part goes to one of several schemas of a rule.
func (w *walk) part() {
	if len(w.tokens) == 0 {
		return
	}
	name := w.take()
	w.way = append(w.way, name)
	to, number := w.ix.child(w.parent, name)
	w.descend(to, number)
}

// name makes the name of a member the value; its path stays the object's.
func (w *walk) name() {
	if len(w.names) == 0 {
		return
	}
	_, number := w.ix.child(w.value, w.names[0])
	w.value = &pytext.Value{Kind: pytext.String, Text: w.names[0]}
	w.order, w.names = append(w.order, number), nil
}

// refer is the schema that a reference within the document leads to, or nil.
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

// index finds members of large objects by key, so that many errors do not take quadratic time.
type index map[*pytext.Value]map[string]int

func (x index) get(v *pytext.Value, key string) *pytext.Value {
	if v == nil || v.Kind != pytext.Object {
		return nil
	}
	m, _ := x.child(v, key)
	return m
}

// child is a part of a value and its number; nil where there is none.
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

// member is the number of a member, or -1.
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

// Pointer splits a JSON pointer, which the library writes as part of a URL.
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
