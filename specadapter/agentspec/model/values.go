package model

import (
	"slices"

	"weft/specadapter/agentspec/catalog"
	"weft/specadapter/source"
)

// value returns a value with all references in it replaced, and the scope in which it was found.
func (l *loader) value(s *scope, v *source.Value, what string) (*source.Value, *scope, bool) {
	v, s, ok := l.follow(s, v, what)
	if !ok || !refers(v) {
		return v, s, ok
	}
	v, ok = l.whole(s, v, what, nil, v.Pos)
	return v, s, ok
}

// follow follows a reference to a value, and gives the scope in which its parts are looked up.
func (l *loader) follow(s *scope, v *source.Value, what string) (*source.Value, *scope, bool) {
	var seen []*definition
	for refOf(v) != nil {
		d := l.valueOf(s, v, what, seen)
		if d == nil {
			return nil, s, false
		}
		seen = append(seen, d)
		v, s = d.value, d.scope
	}
	return v, s, true
}

// valueOf returns the value that a reference means, or reports an error. Open are those around it.
func (l *loader) valueOf(s *scope, v *source.Value, what string, open []*definition) *definition {
	ref, at := refOf(v), v.Pos
	if !l.wants(ref, source.String, "the reference in "+what) {
		return nil
	}
	d := l.resolve(s, ref.Text, ref.Pos)
	switch {
	case d == nil:
		return nil
	case d.value.Kind == source.Object && d.value.Get("component_type") != nil:
		l.Errorf(at, "ref-type", "refer to a value", "%s refers to the component %s, want a value", what, source.Quote(d.key))
		return nil
	case slices.Contains(open, d) || len(open) >= MaxNesting:
		l.Errorf(at, "ref-cycle", "refer to a value", "the reference in %s has no value: %s contains itself or nests deeper than %d", what, source.Quote(d.key), MaxNesting)
		return nil
	}
	d.used = true
	// A value is read each time that something refers to it.
	if d.weight == 0 {
		d.weight = weight(d.value)
	}
	if !l.work(at, d.weight) {
		return nil
	}
	return d
}

func refers(v *source.Value) bool {
	for m := range v.All() {
		if refOf(m.Value) != nil {
			return true
		}
	}
	return false
}

// whole is a copy of a value with what its parts refer to. Open are the definitions around it,
// and what comes out of one stands where the first reference was written.
func (l *loader) whole(s *scope, v *source.Value, what string, open []*definition, from source.Pos) (*source.Value, bool) {
	if len(open) == 0 {
		from = v.Pos
	}
	if refOf(v) != nil {
		d := l.valueOf(s, v, what, open)
		if d == nil {
			return nil, false
		}
		return l.whole(d.scope, d.value, what, append(slices.Clip(open), d), from)
	}
	c := *v
	c.Pos = from
	c.Items, c.Members = slices.Clone(v.Items), slices.Clone(v.Members)
	all := true
	for i, item := range v.Items {
		part, ok := l.whole(s, item, what, open, from)
		c.Items[i], all = part, all && ok
	}
	for i, m := range v.Members {
		part, ok := l.whole(s, m.Value, what, open, from)
		c.Members[i].Value, all = part, all && ok
		if len(open) > 0 {
			c.Members[i].KeyPos = from
		}
	}
	return &c, all
}

// plainParts replaces references in an object's members.
func (l *loader) plainParts(s *scope, spec *catalog.FieldSpec, f *Field, what string) bool {
	c, all := *f.JSON, true
	c.Members = slices.Clone(c.Members)
	for i, m := range c.Members {
		known := slices.ContainsFunc(spec.Fields, func(s catalog.FieldSpec) bool { return s.Name == m.Key })
		switch read := f.Fields[m.Key]; {
		case read != nil && read.JSON != nil:
			c.Members[i].Value = read.JSON
		case !known && refers(m.Value):
			part, ok := l.whole(s, m.Value, what, nil, m.Value.Pos)
			c.Members[i].Value, all = part, all && ok
		}
	}
	f.JSON = &c
	return all
}
