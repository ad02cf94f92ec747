package model

import (
	"slices"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan/value"
)

// ShapeKind is the kind of a type.
type ShapeKind uint8

// The kinds of types.
const (
	AnyShape ShapeKind = iota
	StringShape
	IntegerShape
	NumberShape
	BooleanShape
	NullShape
	ArrayShape
	ObjectShape
	UnionShape
)

// Shape is the type of values in data flow: the part of a JSON Schema that consists of type,
// items, properties, additionalProperties, anyOf and enum. Shapes may be shared and are
// immutable.
type Shape struct {
	Kind ShapeKind
	// Items is the type of the elements of an array.
	Items *Shape
	// Props are the members of an object in source order. More is the type of all others; nil
	// means that no others are allowed.
	Props []Prop
	More  *Shape
	// Members are the types of a union, none of them a union itself.
	Members []*Shape
	// Enum lists the allowed values; nil means all.
	Enum []*source.Value
}

// Prop is a member of an object.
type Prop struct {
	Name string
	Type *Shape
	// Optional members have a default.
	Optional bool
}

// Types without parts.
var (
	AnyType     = &Shape{Kind: AnyShape}
	stringType  = &Shape{Kind: StringShape}
	integerType = &Shape{Kind: IntegerShape}
	numberType  = &Shape{Kind: NumberShape}
	booleanType = &Shape{Kind: BooleanShape}
	nullType    = &Shape{Kind: NullShape}
)

var simpleTypes = map[string]*Shape{
	"string": stringType, "integer": integerType, "number": numberType, "boolean": booleanType, "null": nullType,
}

// ArrayOf returns the type of an array.
func ArrayOf(items *Shape) *Shape { return &Shape{Kind: ArrayShape, Items: items} }

func union(parts ...*Shape) *Shape {
	u := &Shape{Kind: UnionShape}
	for _, p := range parts {
		if p.Kind == UnionShape {
			u.Members = append(u.Members, p.Members...)
		} else {
			u.Members = append(u.Members, p)
		}
	}
	if len(u.Members) == 1 {
		return u.Members[0]
	}
	return u
}

// maxNamed is the maximum number of parts, and depth, of a type in a message.
const maxNamed = 3

// String returns the type for messages, such as "array of string".
func (s *Shape) String() string { return s.name(0) }

func (s *Shape) name(depth int) string {
	if s.Enum != nil {
		return "one of " + strings.Join(some(len(s.Enum), maxNamed, func(i int) string { return s.Enum[i].Describe() }), ", ")
	}
	switch s.Kind {
	case AnyShape:
		return "any type"
	case ArrayShape:
		if depth == maxNamed {
			return "array"
		}
		return "array of " + s.Items.name(depth+1)
	case ObjectShape:
		return s.objectName()
	case UnionShape:
		if depth == maxNamed {
			return "union"
		}
		return strings.Join(some(len(s.Members), maxNamed, func(i int) string { return s.Members[i].name(depth + 1) }), " or ")
	}
	return s.Kind.String()
}

// all reports whether a predicate holds for a type, or for all types of a union.
func (s *Shape) all(is func(*Shape) bool) bool {
	if s.Kind != UnionShape {
		return is(s)
	}
	return !slices.ContainsFunc(s.Members, func(m *Shape) bool { return !is(m) })
}

// String returns the name of a type without parts.
func (k ShapeKind) String() string {
	for name, t := range simpleTypes {
		if t.Kind == k {
			return name
		}
	}
	return ""
}

func (s *Shape) objectName() string {
	names := strings.Join(some(len(s.Props), maxNamed, func(i int) string { return source.Quote(s.Props[i].Name) }), ", ")
	switch {
	case names == "" && s.More == nil:
		return "object without members"
	case names == "":
		return "object"
	case s.More == nil:
		return "object of " + names
	}
	return "object with " + names
}

// some returns the first of n names, at most so many, and an ellipsis for the others.
func some(n, most int, name func(i int) string) []string {
	var out []string
	for i := range min(n, most) {
		out = append(out, name(i))
	}
	if n > most {
		out = append(out, "...")
	}
	return out
}

const maxUnion = 100

type shapeReader struct {
	l      *loader
	what   string
	failed bool
	// rare is set by keywords that [Shape] does not represent, which need a schema compiler.
	rare bool
}

func (r *shapeReader) errorf(at source.Pos, help, format string, args ...any) {
	r.l.Errorf(at, "prop-schema", help, "a schema in "+strings.ReplaceAll(r.what, "%", "%%")+": "+format, args...)
	r.failed = true
}

// read converts a schema at a nesting depth to a shape.
func (r *shapeReader) read(v *source.Value, depth int) *Shape {
	if v.Kind == source.Bool && v.True {
		return AnyType
	}
	if v.Kind != source.Object {
		r.errorf(v.Pos, `use {"type": ...}`, "%s is not a JSON Schema", v.Describe())
		return AnyType
	}
	if depth > source.MaxSchemaDepth+1 { // the innermost may still contain the schema of a scalar
		if !r.failed {
			r.errorf(v.Pos, "flatten the schema", "it is nested deeper than %d", source.MaxSchemaDepth)
		}
		return AnyType
	}
	r.title(v)
	return r.merge(v, depth)
}

// merge combines the types of type and anyOf in a union.
func (r *shapeReader) merge(v *source.Value, depth int) *Shape {
	var parts []*Shape
	for i := range v.Members {
		m := &v.Members[i]
		switch m.Key {
		case "title", "description":
			if m.Value.Kind != source.String && m.Value.Kind != source.Null {
				r.errorf(m.Value.Pos, "use a string in double quotes", "%s is %s, expected a string", m.Key, m.Value.Describe())
			}
		case "type":
			parts = append(parts, r.types(v, m.Value, depth)...)
		case "anyOf":
			parts = append(parts, r.members(m.Value, depth)...)
		case "allOf", "oneOf":
			r.errorf(m.KeyPos, "use anyOf, or spell the type out", "%s is not supported in data flow", m.Key)
		case "items", "properties", "additionalProperties":
		case "default", "examples":
			r.rare = r.rare || rareValue(m, depth)
		default:
			r.rare = true
		}
	}
	switch {
	case len(parts) == 0:
		parts = []*Shape{AnyType}
	case len(parts) > maxUnion:
		r.errorf(v.Pos, "simplify the type, or remove it to allow any", "it is a union of %d types, over the limit of %d", len(parts), maxUnion)
		return AnyType
	}
	s := union(parts...)
	if list := v.Get("enum"); list != nil {
		listed := *s
		listed.Enum = list.Items // validated by the schema compiler
		return &listed
	}
	return s
}

// rareValue reports whether a default or examples need a schema compiler. The default of a property is compared with its shape.
func rareValue(m *source.Member, depth int) bool {
	if m.Key == "default" {
		return depth > 1
	}
	return m.Value.OutOfRange() != nil
}

func (r *shapeReader) members(v *source.Value, depth int) []*Shape {
	if v.Kind != source.Array || len(v.Items) == 0 {
		r.errorf(v.Pos, "use an array of schemas", "anyOf is %s, expected a non-empty array", v.Describe())
		return nil
	}
	return source.Map(v.Items, func(item *source.Value) *Shape { return r.read(item, depth+1) })
}

func (r *shapeReader) types(v, t *source.Value, depth int) []*Shape {
	if t.Kind == source.String {
		return r.typeNamed(v, t, depth)
	}
	if t.Kind != source.Array || len(t.Items) == 0 {
		r.errorf(t.Pos, "use one of: "+typeNames, "type is %s, expected a string or a non-empty array", t.Describe())
		return nil
	}
	var parts []*Shape
	for _, item := range t.Items {
		if item.Kind == source.Null {
			r.l.legacy(item.Pos, "null in a list of types is not quoted", `use "null"`)
			parts = append(parts, nullType)
			continue
		}
		parts = append(parts, r.typeNamed(v, item, depth)...)
	}
	return parts
}

const typeNames = "string, integer, number, boolean, null, array, object"

func (r *shapeReader) typeNamed(v, t *source.Value, depth int) []*Shape {
	if simple := simpleTypes[t.Text]; simple != nil && t.Kind == source.String {
		return []*Shape{simple}
	}
	switch t.Text {
	case "array":
		of := AnyType
		if items := v.Get("items"); items != nil {
			of = r.read(items, depth+1)
		}
		return []*Shape{ArrayOf(of)}
	case "object":
		return []*Shape{r.object(v, depth)}
	}
	r.errorf(t.Pos, "use one of: "+typeNames, "unknown type %s", t.Describe())
	return nil
}

func (r *shapeReader) object(v *source.Value, depth int) *Shape {
	o := &Shape{Kind: ObjectShape, More: AnyType}
	if props := v.Get("properties"); props != nil {
		if props.Kind != source.Object {
			r.errorf(props.Pos, source.TypeHelp[source.Object], "properties is %s, expected an object", props.Describe())
			return o
		}
		for _, m := range props.Members {
			o.Props = append(o.Props, Prop{Name: m.Key, Type: r.read(m.Value, depth+1), Optional: m.Value.Get("default") != nil})
		}
	}
	if more := v.Get("additionalProperties"); more != nil {
		o.More = nil
		if more.Kind != source.Bool || more.True {
			o.More = r.read(more, depth+1)
		}
	}
	return o
}

// numeric reports whether the type is an integer, number or boolean, which can all be converted to each other.
func (s *Shape) numeric() bool {
	return s.Kind == IntegerShape || s.Kind == NumberShape || s.Kind == BooleanShape
}

// castable reports whether every value of one type can be converted to another: everything
// converts to a string or any type, numbers and booleans convert to each other, arrays and objects
// by their parts, a union if each of its types does. A string does not convert to any other type,
// because most strings would fail.
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
	// Shapes have no cycles, so this pair is not needed while it is computed.
	ok := l.castParts(at, from, to)
	l.casts[pair] = ok
	return ok
}

// castParts compares the parts of types. An object needs all members of the target, and others only if the target accepts them.
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

// hasAll reports whether an object has all members of another, with compatible types.
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

// acceptsNumber reports whether a run can convert a value to a numeric type; an integer has 64 bits.
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

// alike reports whether two values are equal, comparing numbers by value.
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
