package model

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"weft/specadapter/agentspec/catalog"
	"weft/specadapter/source"
)

// common are the fields of every component.
var common = []string{"component_type", "id", "name", "description", "metadata", definitionsKey, versionField}

func (l *loader) readNames(c *Component) {
	o := l.Fields(c.source, article(c.Type.Name), "")
	c.ID, c.Name, c.Description = o.Text("id"), o.Text("name"), o.Text("description")
	if m := o.Get("metadata"); m != nil && l.expectKind(m, source.Object, "metadata of "+c.String()) {
		c.Metadata = m
	}
	if o.Get("name") == nil {
		report := l.Errorf
		if strings.HasSuffix(c.Type.Name, "Edge") {
			report = l.Strictf
		}
		report(c.At, "field-missing", `set "name"`, "%s has no name", o.Name)
	}
	if v := c.source.Get(versionField); v != nil && l.depth > 1 {
		l.nestedVersion(v, c.At.File == l.files[0].name)
	}
}

func (l *loader) fields(s *scope, c *Component) {
	known := append([]string(nil), common...)
	if c.Type.IO {
		known = append(known, "inputs", "outputs")
		c.Inputs, c.ins = l.properties(s, c, "inputs")
		c.Outputs, c.outs = l.properties(s, c, "outputs")
	}
	if c.Type.Satisfies("Node") {
		known = append(known, "branches")
	}
	if c.source.Get("component_plugin_name") != nil && l.isPlugin(c.Type) {
		known = append(known, "component_plugin_name", "component_plugin_version")
	}
	for _, spec := range c.Type.Fields {
		known = append(known, spec.Name)
		v := c.source.Get(spec.Name)
		for _, other := range spec.Also {
			if v == nil {
				v, known = c.source.Get(other), append(known, other)
			}
		}
		if v == nil {
			for _, old := range spec.Legacy {
				if v = c.source.Get(old); v != nil {
					known = append(known, old)
					l.legacy(v.Pos, fmt.Sprintf("%s of %s is spelled %s", spec.Name, c.Type.Name, old), "use "+strconv.Quote(spec.Name))
					break
				}
			}
		}
		l.field(s, c, c.fields, &spec, v)
	}
	if c.Type.Unknown {
		l.unknownParts(s, c)
	}
	if !c.Type.Open {
		known = append(known, l.legacyFields(c)...)
		l.Fields(c.source, article(c.Type.Name), "").WarnUnknown(known...)
	}
}

// unknownParts reads the components in a component of an unknown type, to report their errors.
func (l *loader) unknownParts(s *scope, c *Component) {
	var walk func(v *source.Value, what string)
	walk = func(v *source.Value, what string) {
		at := v
		if ref := refOf(v); ref != nil {
			// Unresolved references may be to secrets or values.
			if at = nil; l.lookup(s, ref.Text) != nil {
				at = l.lookup(s, ref.Text).value
			}
		}
		if at.Get("component_type") != nil {
			l.component(s, v, "Component", what)
			return
		}
		for _, item := range v.Items {
			walk(item, what)
		}
	}
	for _, m := range c.source.Members {
		if m.Key != "metadata" && m.Key != definitionsKey {
			walk(m.Value, m.Key+" of "+c.String())
		}
	}
}

func (l *loader) isPlugin(t *catalog.Type) bool {
	return slices.ContainsFunc(l.o.Plugins, func(p catalog.Type) bool { return p.Name == t.Name })
}

func (l *loader) field(s *scope, c *Component, into map[string]*Field, spec *catalog.FieldSpec, v *source.Value) {
	if v == nil || v.Kind == source.Null {
		if spec.Required {
			at, state := c.At, "no"
			if v != nil {
				at, state = v.Pos, "null as"
			}
			l.Errorf(at, "field-missing", "set "+strconv.Quote(spec.Name), "%s has %s %s", c, state, spec.Name)
			c.broken = true
		}
		return
	}
	f := &Field{At: v.Pos}
	ok := false
	if spec.Sensitive {
		ok = l.secret(s, c, spec, f, v)
	} else {
		ok = l.fieldValue(s, c, spec, f, v)
	}
	if !ok {
		c.broken = true
		return
	}
	into[spec.Name] = f
	if spec.Since > 0 && differs(spec, v) {
		l.needs(f.At, spec.Since, "%s of %s", spec.Name, c.Type.Name)
	}
}

// differs reports whether a value differs from the field's default.
func differs(spec *catalog.FieldSpec, v *source.Value) bool {
	switch v.Kind {
	case source.Array:
		return len(v.Items) > 0
	case source.Object:
		return len(v.Members) > 0
	case source.String:
		return v.Text != "" && v.Text != spec.Default
	case source.Bool:
		return strconv.FormatBool(v.True) != spec.Default
	}
	return v.Text != spec.Default
}

// fieldValue reads a field that is set and not sensitive.
func (l *loader) fieldValue(s *scope, c *Component, spec *catalog.FieldSpec, f *Field, v *source.Value) bool {
	what := spec.Name + " of " + c.Type.Name
	switch spec.Kind {
	case catalog.One:
		part := l.component(s, v, spec.Of, what)
		if part != nil {
			f.Components = append(f.Components, part)
		}
		return part != nil
	case catalog.Many, catalog.Mixed, catalog.Pairs:
		return l.list(s, spec, f, v, what)
	}
	read := l.value
	if spec.Kind == catalog.Plain {
		read = l.follow // its fields are read separately
	}
	v, s, ok := read(s, v, what)
	if !ok {
		return false
	}
	f.JSON, f.At = v, v.Pos
	if v.Kind == source.Null {
		return true
	}
	return l.shape(s, c, spec, f, what)
}

func (l *loader) expectKind(v *source.Value, kind source.Kind, what string) bool {
	return l.Expect(v, kind, source.TypeHelp[kind], what)
}

// kindOf maps kinds of fields to the JSON types of their values.
var kindOf = map[catalog.FieldKind]source.Kind{
	catalog.Text: source.String, catalog.Texts: source.Array, catalog.TextMap: source.Object, catalog.Flag: source.Bool, catalog.Number: source.Number, catalog.Whole: source.Number,
	catalog.Object: source.Object, catalog.Plain: source.Object, catalog.Schemas: source.Object,
}

func (l *loader) shape(s *scope, c *Component, spec *catalog.FieldSpec, f *Field, what string) bool {
	v := f.JSON
	if want, ok := kindOf[spec.Kind]; ok && !l.expectKind(v, want, what) {
		return false
	}
	oneOf := "use one of: " + strings.Join(spec.Enum, ", ")
	switch spec.Kind {
	case catalog.FlagOrText:
		if v.Kind == source.Bool {
			return true
		}
		if !l.Expect(v, source.String, oneOf, what) {
			return false
		}
	case catalog.TextOrTexts:
		if v.Kind == source.Array {
			return l.texts(v, what)
		}
		if v.Kind != source.String {
			l.Errorf(f.At, "field-type", "use a string or an array of strings", "%s is %s, expected a string or an array", what, v.Describe())
			return false
		}
	case catalog.Texts, catalog.TextMap:
		return l.texts(v, what)
	case catalog.Whole, catalog.Number:
		return l.number(v, spec.Kind == catalog.Whole, what)
	case catalog.Plain:
		return l.plain(s, c, spec, f, what)
	}
	if len(spec.Enum) > 0 && !slices.Contains(spec.Enum, v.Text) {
		l.Errorf(f.At, "enum", oneOf, "unsupported value %s of %s", v.Describe(), what)
		return false
	}
	return true
}

func (l *loader) number(v *source.Value, whole bool, what string) bool {
	n, err := strconv.ParseFloat(v.Text, 64)
	switch {
	case whole && n != math.Trunc(n):
		l.Errorf(v.Pos, "field-type", "use a whole number", "%s is %s, expected a whole number", what, v.Describe())
	case err != nil || whole && math.Abs(n) > math.MaxInt32:
		l.Errorf(v.Pos, "field-type", "use a smaller number", "%s is %s, which is out of range", what, v.Describe())
	default:
		return true
	}
	return false
}

func (l *loader) texts(v *source.Value, what string) bool {
	ok := true
	check := func(part *source.Value, name string) {
		_, text := l.Text(part, name+" in "+what, false)
		ok = ok && text
	}
	for i, item := range v.Items {
		check(item, fmt.Sprintf("item %d", i+1))
	}
	for _, m := range v.Members {
		check(m.Value, source.Quote(m.Key))
	}
	return ok
}

func (l *loader) plain(s *scope, c *Component, spec *catalog.FieldSpec, f *Field, what string) bool {
	f.Fields, f.parts = map[string]*Field{}, spec.Fields
	before := c.broken
	c.broken = false
	var known []string
	for i := range spec.Fields {
		known = append(known, spec.Fields[i].Name)
		l.field(s, c, f.Fields, &spec.Fields[i], f.JSON.Get(spec.Fields[i].Name))
	}
	if !spec.Open {
		l.Fields(f.JSON, what, "").WarnUnknown(known...)
	}
	ok := l.plainParts(s, spec, f, what) && !c.broken
	c.broken = before
	return ok
}

func (l *loader) list(s *scope, spec *catalog.FieldSpec, f *Field, v *source.Value, what string) bool {
	var ok bool
	if v, s, ok = l.follow(s, v, what); !ok {
		return false
	}
	f.At = v.Pos
	if !l.expectKind(v, source.Array, what) {
		return false
	}
	add := func(item *source.Value, what string) {
		part := l.component(s, item, spec.Of, what)
		if part == nil {
			ok = false
			return
		}
		f.Components = append(f.Components, part)
	}
	f.JSON = v
	for i, item := range v.Items {
		name := fmt.Sprintf("item %d of %s", i+1, what)
		switch {
		case spec.Kind == catalog.Mixed && item.Kind == source.String:
		case spec.Kind != catalog.Pairs:
			add(item, name)
		case item.Kind != source.Array || len(item.Items) != 2:
			l.Errorf(item.Pos, "field-type", "use two agents: [FROM, TO]", "%s is %s, expected an array of two", name, item.Describe())
			ok = false
		default:
			add(item.Items[0], name)
			add(item.Items[1], name)
		}
	}
	return ok
}
