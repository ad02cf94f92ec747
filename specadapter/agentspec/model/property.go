package model

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"weft/activities/schema"
	"weft/specadapter/agentspec/catalog"
	"weft/specadapter/source"
)

// Property is an input or an output.
type Property struct {
	Title       string
	Description string
	// Type is the type of its values.
	Type *Shape
	// Default replaces a missing value; nil means none.
	Default *source.Value
	// Schema is the JSON Schema that the author wrote; nil for an inferred property.
	Schema *source.Value
	// Unused reports whether nothing in the component uses the input.
	Unused bool
	// At is the position of the title, or of the component that it is inferred from.
	At source.Pos
}

func index(list []*Property) map[string]*Property {
	out := make(map[string]*Property, len(list))
	for _, p := range list {
		out[p.Title] = p
	}
	return out
}

// properties reads a list of properties. declared is false if they must be inferred.
func (l *loader) properties(s *scope, c *Component, key string) (list []*Property, declared bool) {
	v := c.source.Get(key)
	if v == nil || v.Kind == source.Null {
		return nil, false
	}
	v, s, ok := l.follow(s, v, key+" of "+c.Type.Name)
	if !ok || v.Kind == source.Null {
		c.broken = c.broken || !ok
		return nil, false
	}
	if !l.Expect(v, source.Array, `use an array: [{"title": ..., "type": ...}]`, key+" of "+c.String()) {
		c.broken = true
		return nil, false
	}
	seen := map[string]source.Pos{}
	for _, item := range v.Items {
		p := (*Property)(nil)
		if item, _, ok := l.value(s, item, "an item of "+key); ok {
			p = l.property(item, key+" of "+c.String())
		}
		if p == nil {
			c.broken = true
			continue
		}
		if first, double := seen[p.Title]; double {
			l.Errorf(p.At, "io-dup-title", "rename one of the two", "%s of %s have a duplicate title %s, first used at %s",
				key, c, source.Quote(p.Title), l.where(first, p.At))
			c.broken = true
			continue
		}
		seen[p.Title] = p.At
		list = append(list, p)
	}
	return list, true
}

// invalidTitleChars are the characters that a title cannot contain.
const invalidTitleChars = ".,{} \n'\""

// property reads a property: a JSON Schema with a title. It returns nil after reporting an error.
func (l *loader) property(v *source.Value, what string) *Property {
	if v.Kind != source.Object {
		l.Errorf(v.Pos, "prop-schema", `use {"title": ..., "type": ...}`, "an item in %s is %s, expected a JSON Schema", what, v.Describe())
		return nil
	}
	title := v.Get("title")
	if title == nil || title.Kind != source.String || title.Text == "" {
		l.Errorf(v.Pos, "prop-title", `set "title"`, "a property in %s has no title", what)
		return nil
	}
	shape, ok := l.schema(v, what)
	if !ok {
		return nil
	}
	p := &Property{Title: title.Text, Description: TextOf(v.Get("description")), Type: shape, Default: v.Get("default"), Schema: v, At: title.Pos}
	d := p.Default
	if d == nil {
		return p
	}
	want := shape.String()
	if shape.Kind == IntegerShape && d.Kind == source.Number {
		want = "integer of 64 bits"
	}
	if n := d.OutOfRange(); n != nil {
		l.Errorf(n.Pos, "prop-default", "use a smaller number", "the number %s in the default of %s in %s is out of range", n.Describe(), source.Quote(p.Title), what)
	} else if !l.accepts(v.Pos, d, shape) {
		l.Errorf(d.Pos, "prop-default", "use "+want+", or another type", "the default of %s in %s is %s, which is not %s",
			source.Quote(p.Title), what, d.Describe(), want)
	}
	return p
}

func (l *loader) schema(v *source.Value, what string) (*Shape, bool) {
	r := &shapeReader{l: l, what: what}
	shape := r.read(v, 1)
	if r.failed {
		return nil, false
	}
	if r.rare {
		if l.schemas++; l.schemas > maxSchemas {
			if l.schemas == maxSchemas+1 {
				l.Errorf(v.Pos, "too-complex", "remove keywords such as pattern and minimum", "more than %d schemas have keywords that need compiling", maxSchemas)
			}
			return shape, true
		}
		if !l.work(v.Pos, 20*weight(v)) {
			return shape, true
		}
		for _, p := range source.CheckSchema(v) {
			r.errorf(p.Pos, p.Help, "%s", p.Text)
		}
		if !r.failed {
			l.checkDefaults(v, what)
		}
	}
	return shape, !r.failed
}

// checkDefaults reports defaults that do not match their schemas. A run converts the default of a property to its type first.
func (l *loader) checkDefaults(v *source.Value, what string) {
	const help = "use a value that the schema allows"
	for _, m := range source.InvalidDefaults(v) {
		if m.Default != v.Get("default") {
			l.Warnf(m.Default.Pos, "prop-default", help, "a default in a schema in %s does not match its schema: %s", what, m.Text())
			continue
		}
		m.Errors = slices.DeleteFunc(m.Errors, func(e schema.Error) bool {
			return path.Base(e.SchemaPath) == "type" || path.Base(e.SchemaPath) == "enum"
		})
		if len(m.Errors) > 0 {
			l.Errorf(m.Default.Pos, "prop-default", help, "the default of %s in %s does not match its schema: %s", source.Quote(TextOf(v.Get("title"))), what, m.Text())
		}
	}
}

// title reports a title that placeholders and edges cannot refer to.
func (r *shapeReader) title(v *source.Value) {
	t := v.Get("title")
	if t == nil || t.Kind != source.String {
		return
	}
	if i := strings.IndexAny(t.Text, invalidTitleChars); i >= 0 {
		r.l.Errorf(t.Pos, "prop-title", "use letters, digits, _ and -", "the title %s in %s contains %q; titles cannot contain spaces, quotes and . , { }",
			source.Quote(t.Text), r.what, t.Text[i])
		r.failed = true
	}
}

// inferred holds the inputs and outputs that a component's parts imply.
type inferred struct {
	in, out []*Property
	// anyIn and anyOut report whether an author may declare others; in and out are then only
	// defaults.
	anyIn, anyOut bool
}

// io sets the inputs and outputs that are not declared, and compares the declared ones with those that are inferred.
func (l *loader) io(c *Component) {
	if !c.Type.IO {
		return
	}
	inf := inferred{anyIn: true, anyOut: true}
	n := 1
	for part := range c.parts() {
		n += len(part.Inputs) + len(part.Outputs)
	}
	c.broken = !l.work(c.At, n) || c.broken
	rules := l.rulesOf(c.Type)
	if rules.infer != nil && (!c.broken || rules.own) {
		inf = rules.infer(l, c)
		// Many nodes may share a subflow with many properties, and some copy these.
		l.work(c.At, 40*(len(inf.in)+len(inf.out)))
		inf.in, inf.out = c.renamed(catalog.InputMapping, inf.in), c.renamed(catalog.OutputMapping, inf.out)
	}
	switch wanted := index(inf.in); {
	case !c.ins:
		c.Inputs = inf.in
	case c.broken:
		for _, in := range c.Inputs {
			in.Unused = wanted[in.Title] == nil
		}
	case !inf.anyIn:
		l.match(c, "inputs", c.Inputs, inf.in)
	}
	if !c.outs {
		c.Outputs = inf.out
	} else if !inf.anyOut && !c.broken {
		l.match(c, "outputs", c.Outputs, inf.out)
	}
	l.checkTemplates(c)
}

// match reports differences between declared and implied properties in titles, and incompatible types.
func (l *loader) match(c *Component, key string, declared, implied []*Property) {
	byTitle := index(declared)
	for _, want := range implied {
		have := cmp.Or(byTitle[want.Title], l.unprefixed(c, key, want.Title, byTitle))
		if have == nil {
			l.missing(c, key, want)
			continue
		}
		if want.Type != nil && !l.castable(have.At, want.Type, have.Type) && !l.castable(have.At, have.Type, want.Type) {
			l.Errorf(have.At, "io-inferred-type-castable", "declare a type that the value can be converted to, or remove "+key,
				"%s in %s of %s is declared as %s, but its parts imply %s", source.Quote(have.Title), key, c, have.Type, want.Type)
		}
	}
	byTitle = index(implied)
	for _, d := range declared {
		if byTitle[d.Title] != nil || isMap(c) && byTitle[prefixOf(key)+d.Title] != nil {
			continue
		}
		report, code, verb := l.Errorf, "io-extra", "produces"
		if key == "inputs" {
			verb = "uses"
		}
		if c.Type.ActsAs("BranchingNode") {
			code = "branching-no-output"
		} else if key == "inputs" {
			d.Unused = true
			report = l.Strictf
		}
		report(d.At, code, "remove it; "+expected(implied), "%s of %s have %s, which nothing in it %s", key, c, source.Quote(d.Title), verb)
	}
}

func isMap(c *Component) bool { return c.Type.ActsAs("MapNode") || c.Type.ActsAs("ParallelMapNode") }

// prefixOf returns the prefix that a MapNode adds to the names of its subflow.
func prefixOf(key string) string {
	if key == "inputs" {
		return Iterated
	}
	return Collected
}

// unprefixed returns the declared property of a MapNode that lacks the prefix, or nil.
func (l *loader) unprefixed(c *Component, key, title string, declared map[string]*Property) *Property {
	if !isMap(c) || declared[title] != nil {
		return nil
	}
	have := declared[strings.TrimPrefix(title, prefixOf(key))]
	if have != nil {
		l.Strictf(have.At, "map-prefixes", "rename it to "+source.Quote(title), "%s in %s of %s has the subflow's name; a MapNode adds the prefix %s",
			source.Quote(have.Title), key, c, prefixOf(key))
	}
	return have
}

func expected(list []*Property) string {
	if len(list) == 0 {
		return "it has none"
	}
	return "it has " + quoted(len(list), func(i int) string { return list[i].Title })
}

// missing reports an undeclared property; for one named like an environment variable, it may be a warning.
func (l *loader) missing(c *Component, key string, want *Property) {
	if key != "inputs" || want.Type != nil {
		l.Errorf(c.FieldPos(key), "io-missing", "declare it or remove "+key, "%s of %s do not include %s, which its parts imply", key, c, source.Quote(want.Title))
		return
	}
	text := "the text of %s has the placeholder %s, which is not one of its inputs"
	if environment.MatchString(want.Title) {
		c.Undeclared = append(c.Undeclared, want.Title)
		l.Strictf(want.At, "io-missing", "declare it in inputs; environment variables are not read", text, c, source.Quote(want.Title))
		return
	}
	l.Errorf(want.At, "io-missing", "declare it in inputs or remove inputs", text, c, source.Quote(want.Title))
}

func (l *loader) branches(c *Component) {
	implied := []string{catalog.NextBranch}
	if b := l.rulesOf(c.Type).branches; b != nil {
		implied = b(c)
	}
	implied = unique(implied)
	c.Branches = implied
	v := c.source.Get("branches")
	if v == nil || v.Kind == source.Null {
		return
	}
	if !l.expectKind(v, source.Array, "branches of "+c.String()) {
		return
	}
	seen := map[string]bool{}
	for _, item := range v.Items {
		if !l.expectKind(item, source.String, "a branch of "+c.String()) {
			return
		}
		if seen[item.Text] {
			l.Errorf(item.Pos, "branches-dup", "list each branch once", "branches of %s lists %s twice", c, source.Quote(item.Text))
			return
		}
		seen[item.Text] = true
	}
	names := sorted(seen)
	switch {
	case c.broken:
	case l.isPlugin(c.Type) && l.rulesOf(c.Type).branches == nil:
		c.Branches = names
	case !slices.Equal(names, implied):
		l.Errorf(v.Pos, "branches-match", "remove branches, or use "+list(implied), "branches of %s are %s, but the node has %s", c, list(names), list(implied))
	}
}

func unique(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

func list(names []string) string {
	return "[" + quoted(len(names), func(i int) string { return names[i] }) + "]"
}

// quoted formats up to ten of n names.
func quoted(n int, name func(i int) string) string {
	return strings.Join(some(n, 10, func(i int) string { return source.Quote(name(i)) }), ", ")
}
