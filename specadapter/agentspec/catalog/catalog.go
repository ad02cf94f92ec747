// Package catalog lists the component types of Open Agent Spec: their fields, the values of these, and
// the versions that introduced them. It contains the data by which package model parses documents.
//
// Start at [Type] and [Types].
package catalog

import (
	"cmp"
	"slices"
	"strings"
)

// Type describes a component type. Plugins define further types, see the options of package
// model.
type Type struct {
	// Name is the component_type.
	Name string
	// Is lists the abstract and concrete types that the component also is, such as Node.
	Is  []string
	Doc string
	// Abstract types only appear in fields; no component can have one.
	Abstract bool
	// Since is the first version that has the type; 0 means all versions.
	Since Version
	// IO reports whether the component has inputs and outputs.
	IO bool
	// Fields are the fields in addition to id, name, description, metadata, inputs, outputs
	// and, for nodes, branches.
	Fields []FieldSpec
	// Like is the type of the language that a plugin's type extends: it also has that type's
	// fields and rules, and can be used in its place.
	Like string
	// Open accepts unlisted fields without checks.
	Open bool
	// Unsupported is the remedy if the component cannot run; empty if it can. NotYet: it is validated but cannot be
	// run yet.
	Unsupported string
	NotYet      bool

	// Unknown reports whether the type is not in the catalog; see [UnknownType].
	Unknown bool
}

// FieldKind is the kind of a field's values.
type FieldKind uint8

// The kinds of fields. A value may also be null, if it is not required, or a reference to such
// a value.
const (
	// Text is a string, Texts a list of strings, TextMap an object of strings.
	Text FieldKind = iota
	Texts
	TextMap
	// Flag is true or false.
	Flag
	// Number is any number, Whole an integer.
	Number
	Whole
	// Any is any JSON value, Object any object.
	Any
	Object
	// Plain is an object with the fields of [FieldSpec.Fields].
	Plain
	// One is a component, Many a list of components, Pairs a list of pairs of components.
	One
	Many
	Pairs
	// Mixed is a list of strings and components.
	Mixed
	// Schemas is an object of properties.
	Schemas
	// FlagOrText is true, false or one of the strings of [FieldSpec.Enum].
	FlagOrText
	// TextOrTexts is a string or a list of strings.
	TextOrTexts
)

// FieldSpec describes one field.
type FieldSpec struct {
	Name string
	Kind FieldKind
	// Doc describes the field; see also docs.
	Doc string
	// Of is the type of the components in the field.
	Of       string
	Required bool
	// Default is the value of a field that is not set: a string, or a JSON number, true or
	// false.
	Default string
	// Enum lists the valid strings; empty means any.
	Enum []string
	// Since is the first version in which the field can differ from its default.
	Since Version
	// Sensitive fields contain a reference to a secret, never the secret.
	Sensitive bool
	// Template fields may contain placeholders.
	Template bool
	// Fields are the fields of a plain object; Open accepts others.
	Fields []FieldSpec
	Open   bool
	// Legacy are names of the field before the first release.
	Legacy []string
	// Also are other names of the field, in WayFlow's plugins.
	Also []string
}

// eachNamed returns fields that differ only in their names.
func eachNamed(like FieldSpec, names ...string) []FieldSpec {
	out := make([]FieldSpec, len(names))
	for i, name := range names {
		out[i], out[i].Name = like, name
	}
	return out
}

// Field returns the field with a name, or nil.
func (t *Type) Field(name string) *FieldSpec {
	if i := slices.IndexFunc(t.Fields, func(f FieldSpec) bool { return f.Name == name }); i >= 0 {
		return &t.Fields[i]
	}
	return nil
}

// Satisfies reports whether a component of the type can be used where another type is expected.
func (t *Type) Satisfies(name string) bool {
	return t.Name == name || name == "Component" || t.Unknown || slices.Contains(t.Is, name)
}

// Runs reports whether a component can be part of a run.
func (t *Type) Runs() bool { return t.Unsupported == "" && !t.NotYet }

// ActsAs reports whether a component has the rules of a type: its own or the one that it extends.
func (t *Type) ActsAs(name string) bool { return t.Name == name || t.Like == name }

// UnknownType returns a placeholder for a type that is not in the catalog. Its components are
// accepted as declared, so that there is only one diagnostic.
func UnknownType(name string) *Type { return &Type{Name: name, IO: true, Open: true, Unknown: true} }

// tables are all types of the language, by subject.
var tables = [][]Type{agentTypes, nodeTypes, edgeTypes, toolTypes, transportTypes, modelTypes, storeTypes, abstractTypes}

// Types returns all concrete types of the language, sorted by name.
func Types() []Type {
	out := slices.DeleteFunc(slices.Concat(tables...), func(t Type) bool { return t.Abstract })
	slices.SortFunc(out, func(a, b Type) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Rows returns the types of the language and of plugins by name.
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
				t.Fields[i].Since = 0 // plugins have their own versions
			}
			t.Fields = append(t.Fields, own...)
			t.IO, t.NotYet, t.Doc = like.IO, like.NotYet, cmp.Or(t.Doc, like.Doc)
		}
		rows[t.Name] = &t
	}
	return rows
}

// NextBranch is the branch of nodes with only one branch.
const NextBranch = "next"

// abstractTypes are the types that only fields refer to.
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

// The versions that changed the language. Pre-release versions are treated as [V2541].
const (
	V2541 Version = iota + 1
	V2542
	V2610
	V2612
	V2620
)

// Current is the newest version, and the default of a document without one.
const Current = V2620

// versions are the labels of the language, in order.
var versions = []struct {
	label   string
	version Version
	old     bool // a pre-release, treated as the first release
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

// String returns the version's label, such as "25.4.1".
func (v Version) String() string {
	for _, row := range versions {
		if row.version == v && !row.old {
			return row.label
		}
	}
	return "none"
}

// VersionLabels returns the valid values of agentspec_version, for messages.
func VersionLabels() string {
	var out []string
	for _, row := range versions {
		out = append(out, row.label)
	}
	return strings.Join(out, ", ")
}

// ParseVersion returns the version with a label, or 0; old reports whether it is a pre-release, treated as the first release.
func ParseVersion(label string) (version Version, old bool) {
	for _, row := range versions {
		if row.label == label {
			return row.version, row.old
		}
	}
	return 0, false
}
