// Package catalog lists the component types of Open Agent Spec: their fields, the values of these, and
// the versions that introduced them. It contains only data, with which package model reads documents.
//
// Start at [Type] and [Types].
package catalog

import (
	"cmp"
	"slices"
	"strings"
)

// Type is one row of the table of components: what a component of that name may hold.
// A plugin's component is a row too, see the options of package model.
type Type struct {
	// Name is the component_type.
	Name string
	// Is lists the types that the component can stand for, such as Node and Component.
	Is  []string
	Doc string
	// Abstract types are only named by fields; no document can hold one.
	Abstract bool
	// Since is the first version that has the type; 0 is the first of all.
	Since Version
	// IO reports whether the component has inputs and outputs.
	IO bool
	// Fields are those beside id, name, description, metadata, inputs, outputs and, for
	// nodes, branches.
	Fields []FieldSpec
	// Like names a type of the language that a plugin's component extends: it has that type's
	// fields and rules too, and can stand for it.
	Like string
	// Open keeps fields that the row does not list, without a look at them.
	Open bool
	// Unsupported is the reason why the component cannot run; empty for all others. NotYet: it is read and checked, but
	// nothing runs it yet.
	Unsupported string
	NotYet      bool

	// Unknown types are those that no row describes.
	Unknown bool
}

// FieldKind is what a field may hold.
type FieldKind uint8

// The kinds of fields. Each may also be null, if it is not required, or a reference to such
// a value.
const (
	// Text is a string, Texts a list of strings, TextMap an object of strings.
	Text FieldKind = iota
	Texts
	TextMap
	// Flag is true or false.
	Flag
	// Number is any number, Whole a whole one.
	Number
	Whole
	// Any is any JSON, Object any object.
	Any
	Object
	// Plain is an object with the fields of [FieldSpec.Fields].
	Plain
	// One is a component, Many a list of them, Pairs a list of lists of two.
	One
	Many
	Pairs
	// Mixed is a list of strings and components.
	Mixed
	// Schemas is an object of properties.
	Schemas
	// FlagOrText is true, false or one of the field's texts.
	FlagOrText
	// TextOrTexts is a string or a list of strings.
	TextOrTexts
)

// FieldSpec describes one field.
type FieldSpec struct {
	Name string
	Kind FieldKind
	// Doc says what the field is for; see also docs.
	Doc string
	// Of is the type of the components in the field.
	Of       string
	Required bool
	// Default is what the field means when it is not set: a text, or a JSON number, true or
	// false.
	Default string
	// Enum lists the texts that the field may hold; empty for any.
	Enum []string
	// Since is the first version in which the field can differ from its default.
	Since Version
	// Sensitive fields hold a reference to a secret, never the secret.
	Sensitive bool
	// Template fields may hold placeholders.
	Template bool
	// Fields are those of a plain object; Open keeps others.
	Fields []FieldSpec
	Open   bool
	// Legacy are names of the field before the first release.
	Legacy []string
	// Also are other names of the field, in WayFlow's plugins.
	Also []string
}

// eachNamed are fields that differ in their names alone.
func eachNamed(like FieldSpec, names ...string) []FieldSpec {
	out := make([]FieldSpec, len(names))
	for i, name := range names {
		out[i], out[i].Name = like, name
	}
	return out
}

// Field returns the row's field of a name, or nil.
func (t *Type) Field(name string) *FieldSpec {
	if i := slices.IndexFunc(t.Fields, func(f FieldSpec) bool { return f.Name == name }); i >= 0 {
		return &t.Fields[i]
	}
	return nil
}

// Satisfies reports whether a component of the type can stand where another type is wanted.
func (t *Type) Satisfies(name string) bool {
	return t.Name == name || name == "Component" || t.Unknown || slices.Contains(t.Is, name)
}

// Runs reports whether a component can be part of a run.
func (t *Type) Runs() bool { return t.Unsupported == "" && !t.NotYet }

// ActsAs reports whether a component has the rules of a type.
func (t *Type) ActsAs(name string) bool { return t.Name == name || t.Like == name }

// UnknownType stands for a type that no row describes. What has it is taken as its author
// declares it, so that one diagnostic is enough.
func UnknownType(name string) *Type { return &Type{Name: name, IO: true, Open: true, Unknown: true} }

// tables are all rows, by concern.
var tables = [][]Type{agentTypes, nodeTypes, edgeTypes, toolTypes, transportTypes, modelTypes, storeTypes, abstractTypes}

// Types lists all components that the language has, abstract ones excepted, by name.
func Types() []Type {
	out := slices.DeleteFunc(slices.Concat(tables...), func(t Type) bool { return t.Abstract })
	slices.SortFunc(out, func(a, b Type) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Rows finds the rows of the language and of plugins by name.
func Rows(plugins []Type) map[string]*Type {
	rows := map[string]*Type{}
	for _, t := range slices.Concat(tables...) {
		rows[t.Name] = &t
	}
	for _, t := range plugins {
		if like := rows[t.Like]; like != nil {
			t.Is = slices.Concat([]string{like.Name}, like.Is, t.Is)
			own := t.Fields
			t.Fields = slices.DeleteFunc(slices.Clone(like.Fields), func(f FieldSpec) bool {
				return slices.ContainsFunc(own, func(o FieldSpec) bool { return o.Name == f.Name })
			})
			for i := range t.Fields {
				t.Fields[i].Since = 0 // a plugin has versions of its own
			}
			t.Fields = append(t.Fields, own...)
			t.IO, t.NotYet, t.Doc = like.IO, like.NotYet, cmp.Or(t.Doc, like.Doc)
		}
		rows[t.Name] = &t
	}
	return rows
}

// NextBranch is the branch by which nodes with one way on are left.
const NextBranch = "next"

// abstractTypes are what fields want and documents cannot hold.
var abstractTypes = abstract("Component", "ComponentWithIO", "AgenticComponent", "RemoteAgent", "Node", "Tool", "ToolBox",
	"ClientTransport", "RemoteTransport", "AuthConfig", "OciClientConfig", "GeminiAuthConfig", "MessageTransform", "Datastore",
	"RelationalDatastore", "OracleDatabaseConnectionConfig", "PostgresDatabaseConnectionConfig")

func abstract(names ...string) []Type {
	var out []Type
	for _, name := range names {
		out = append(out, Type{Name: name, Abstract: true})
	}
	return out
}

// Version is a version of the language. They are ordered; the zero Version is none.
type Version uint8

// The versions that change what documents may hold. The pre-release ones are read as
// [V2541].
const (
	V2541 Version = iota + 1
	V2542
	V2610
	V2612
	V2620
)

// Current is the newest version, and that of a document that names none.
const Current = V2620

// versions are the labels of the language, in order.
var versions = []struct {
	label   string
	version Version
	old     bool // a pre-release, read as the first release
}{
	{"25.3.0", V2541, true},
	{"25.3.1", V2541, true},
	{"25.4.0", V2541, true},
	{"25.4.1", V2541, false},
	{"25.4.2", V2542, false},
	{"26.1.0", V2610, false},
	{"26.1.2", V2612, false},
	{"26.2.0", V2620, false},
}

// String is the version's label, such as "25.4.1".
func (v Version) String() string {
	for _, row := range versions {
		if row.version == v && !row.old {
			return row.label
		}
	}
	return "none"
}

// VersionLabels lists what agentspec_version may be.
func VersionLabels() string {
	var out []string
	for _, row := range versions {
		out = append(out, row.label)
	}
	return strings.Join(out, ", ")
}

// ParseVersion returns the version with a label, or 0. Old reports whether it is a pre-release, read as the first release.
func ParseVersion(label string) (version Version, old bool) {
	for _, row := range versions {
		if row.label == label {
			return row.version, row.old
		}
	}
	return 0, false
}
