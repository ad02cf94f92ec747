package model

import (
	"path"
	"slices"
	"strings"

	"weft/activities/schema"
	"weft/specadapter/source"
)

// Property is an input or an output.
type Property struct {
	Title       string
	Description string
	// Type is what values it takes.
	Type *Shape
	// Default replaces a missing value; nil for none.
	Default *source.Value
	// Schema is the JSON Schema that the author wrote; nil for an inferred property.
	Schema *source.Value
	// Unused reports whether nothing in the component takes the input.
	Unused bool
	// At is where the title is declared, or the component that it is inferred from.
	At source.Pos
}

func index(list []*Property) map[string]*Property {
	out := make(map[string]*Property, len(list))
	for _, p := range list {
		out[p.Title] = p
	}
	return out
}

// properties reads a list of properties. Declared is false where they are to be inferred.
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
	if !l.wantsAs(v, source.Array, `use an array: [{"title": ..., "type": ...}]`, key+" of "+c.String()) {
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

// badTitle are the characters that a title cannot have.
const badTitle = ".,{} \n'\""

// property reads one property: a JSON Schema with a title, at which its place is. It returns nil after an error.
func (l *loader) property(v *source.Value, what string) *Property {
	if v.Kind != source.Object {
		l.Errorf(v.Pos, "prop-schema", `use {"title": ..., "type": ...}`, "an item in %s is %s, want a JSON Schema", what, v.Describe())
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
			r.wrong(p.Pos, p.Help, "%s", p.Text)
		}
		if !r.failed {
			l.checkDefaults(v, what)
		}
	}
	return shape, !r.failed
}

// checkDefaults reports defaults that do not fit the rules of their schemas. That of a property is converted to its type first.
func (l *loader) checkDefaults(v *source.Value, what string) {
	const help = "use a value that the schema allows"
	for _, m := range source.Misfits(v) {
		if m.Default != v.Get("default") {
			l.Warnf(m.Default.Pos, "prop-default", help, "a default in a schema in %s does not fit its schema: %s", what, m.Text())
			continue
		}
		m.Errors = slices.DeleteFunc(m.Errors, func(e schema.Error) bool {
			return path.Base(e.SchemaPath) == "type" || path.Base(e.SchemaPath) == "enum"
		})
		if len(m.Errors) > 0 {
			l.Errorf(m.Default.Pos, "prop-default", help, "the default of %s in %s does not fit its schema: %s", source.Quote(TextOf(v.Get("title"))), what, m.Text())
		}
	}
}

// titles reports titles that no placeholder and no edge could name.
func (r *shapeReader) title(v *source.Value) {
	t := v.Get("title")
	if t == nil || t.Kind != source.String {
		return
	}
	if i := strings.IndexAny(t.Text, badTitle); i >= 0 {
		r.l.Errorf(t.Pos, "prop-title", "use letters, digits, _ and -", "the title %s in %s contains %q; titles cannot contain spaces, quotes and . , { }",
			source.Quote(t.Text), r.what, t.Text[i])
		r.failed = true
	}
}
