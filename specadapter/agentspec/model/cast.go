package model

import (
	"slices"

	"weft/specadapter/source"
	"weft/workflows/plan/value"
)

// numeric types are cast to each other freely.
func (s *Shape) numeric() bool {
	return s.Kind == IntegerShape || s.Kind == NumberShape || s.Kind == BooleanShape
}

// castable reports whether every value of one type can become a value of another: everything
// becomes a string or any type, numbers and booleans become each other, arrays and objects
// by their parts, a union by each of its types. A string becomes nothing else, since most
// strings would not.
func (l *loader) castable(at source.Pos, from, to *Shape) bool {
	switch {
	case from == to || to.Kind == AnyShape || to.Kind == StringShape, from.numeric() && to.numeric():
		return true
	}
	pair := [2]*Shape{from, to}
	if known, ok := l.casts[pair]; ok {
		return known
	}
	if !l.work(at, 1+len(from.Members)*max(1, len(to.Members))+len(from.Props)+len(to.Props)) {
		return true
	}
	// Shapes have no cycles, so nothing asks for this pair while it is worked out.
	ok := l.castParts(at, from, to)
	l.casts[pair] = ok
	return ok
}

// castParts requires of an object all members of the target, and further ones only where the target takes them.
func (l *loader) castParts(at source.Pos, from, to *Shape) bool {
	fits := func(from, to *Shape) bool { return l.castable(at, from, to) }
	switch {
	case from.Kind == UnionShape:
		return from.all(func(m *Shape) bool { return fits(m, to) })
	case to.Kind == UnionShape:
		return slices.ContainsFunc(to.Members, func(m *Shape) bool { return fits(from, m) })
	case from.Kind == ArrayShape && to.Kind == ArrayShape:
		return fits(from.Items, to.Items)
	case from.Kind == ObjectShape && to.Kind == ObjectShape:
		return from.hasAll(to, fits) && (from.More == nil || to.More != nil && fits(from.More, to.More))
	}
	return from.Kind == to.Kind
}

// hasAll reports whether an object has the members of another, with types that fit.
func (s *Shape) hasAll(other *Shape, fits func(t, want *Shape) bool) bool {
	have := make(map[string]*Shape, len(s.Props))
	for _, p := range s.Props {
		have[p.Name] = p.Type
	}
	return !slices.ContainsFunc(other.Props, func(p Prop) bool { return have[p.Name] == nil || !fits(have[p.Name], p.Type) })
}

func (l *loader) same(at source.Pos, a, b *Shape) bool {
	switch {
	case a == b:
		return true
	case a.Kind != b.Kind || !l.work(at, 1+len(a.Members)*len(b.Members)+len(a.Props)):
		return false
	}
	same := func(a, b *Shape) bool { return l.same(at, a, b) }
	covers := func(a, b *Shape) bool {
		return a.all(func(m *Shape) bool {
			return slices.ContainsFunc(b.Members, func(n *Shape) bool { return same(m, n) })
		})
	}
	switch a.Kind {
	case ArrayShape:
		return same(a.Items, b.Items)
	case UnionShape:
		return covers(a, b) && covers(b, a)
	case ObjectShape:
		return len(a.Props) == len(b.Props) && (a.More == nil) == (b.More == nil) && (a.More == nil || same(a.More, b.More)) && a.hasAll(b, same)
	}
	return true
}

// accepts reports whether a value is of a type. Numbers and booleans accept each other.
func (l *loader) accepts(at source.Pos, v *source.Value, t *Shape) bool {
	if !l.work(at, 1+len(t.Enum)) {
		return true
	}
	if t.Enum != nil && !slices.ContainsFunc(t.Enum, func(one *source.Value) bool { return alike(one, v) }) {
		return false
	}
	switch t.Kind {
	case AnyShape:
		return true
	case StringShape:
		return v.Kind == source.String
	case NullShape:
		return v.Kind == source.Null
	case IntegerShape, NumberShape, BooleanShape:
		return t.acceptsNumber(v)
	case UnionShape:
		return slices.ContainsFunc(t.Members, func(m *Shape) bool { return l.accepts(at, v, m) })
	case ArrayShape:
		return v.Kind == source.Array && !slices.ContainsFunc(v.Items, func(item *source.Value) bool { return !l.accepts(at, item, t.Items) })
	}
	return v.Kind == source.Object && l.acceptsObject(at, v, t)
}

// acceptsNumber reports whether a run can make a value one of a numeric type: an integer has 64 bits.
func (s *Shape) acceptsNumber(v *source.Value) bool {
	if s.Kind != IntegerShape || v.Kind != source.Number {
		return v.Kind == source.Number || v.Kind == source.Bool
	}
	n, err := value.Parse(v.JSON())
	if err == nil {
		_, err = value.Cast([]byte(`{"type":"integer"}`), n)
	}
	return err == nil
}

// alike reports whether two values are one, numbers by their value.
func alike(a, b *source.Value) bool {
	x, err := value.Parse(a.JSON())
	if err != nil {
		return false
	}
	y, err := value.Parse(b.JSON())
	return err == nil && value.Equal(value.ByValue, x, y)
}

func (l *loader) acceptsObject(at source.Pos, v *source.Value, t *Shape) bool {
	have := make(map[string]*source.Value, len(v.Members))
	for _, m := range v.Members {
		have[m.Key] = m.Value
	}
	for _, p := range t.Props {
		value := have[p.Name]
		if value == nil && !p.Optional || value != nil && !l.accepts(at, value, p.Type) {
			return false
		}
		delete(have, p.Name)
	}
	for _, m := range v.Members {
		if have[m.Key] != nil && (t.More == nil || !l.accepts(at, m.Value, t.More)) {
			return false
		}
	}
	return true
}
