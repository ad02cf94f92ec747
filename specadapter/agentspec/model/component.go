package model

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"

	"weft/specadapter/agentspec/catalog"
	"weft/specadapter/source"
)

// Component is a validated component of a document. References are resolved: references to
// the same definition share a Component; nothing else does, in particular not components
// with equal ids. There are no cycles of components.
type Component struct {
	// Type is the entry of the component's type in the catalog.
	Type *catalog.Type
	// At is where the component is defined.
	At source.Pos
	// Key is the name by which it can be referred to; empty for an inline component.
	Key string
	// ID is the author's id, or one made from the type and position.
	ID          string
	Name        string
	Description string
	// Metadata is the author's object, or nil.
	Metadata *source.Value
	// Inputs and Outputs are declared or else inferred. Their titles are unique.
	Inputs, Outputs []*Property
	// Branches are the branches of a node, sorted.
	Branches []string
	// Reads and Writes are the variables that a WayFlow node reads and writes.
	Reads  []*Property
	Writes []Write
	// Flow is set on a Flow.
	Flow *Flow
	// Undeclared are the placeholders in its texts that are not inputs; the default profile
	// accepts some.
	Undeclared []string

	source   *source.Value
	fields   map[string]*Field
	height   int                  // nesting depth of the components in it, including itself
	ins      bool                 // Inputs are declared
	outs     bool                 // Outputs are declared
	broken   bool                 // an error makes its fields or properties unreliable
	yields   string               // the part that waits for a user or client, or ""
	tools    map[string]bool      // cache of the names of its tools
	waiting  *string              // cache of toolYield
	inIndex  map[string]*Property // index of Inputs, created on demand
	outIndex map[string]*Property
}

// Field is the value of one of a component's fields.
type Field struct {
	// At is the position of the value.
	At source.Pos
	// JSON is the value, with references to values replaced. It is nil for a single component
	// or a secret.
	JSON *source.Value
	// Components are the components in the field, in order; a pair has two. In a list of
	// strings and components they are the components among JSON's items.
	Components []*Component
	// Fields are the fields of a plain object.
	Fields map[string]*Field
	// Secrets are the references of a sensitive field: one, or one per key in Keys.
	Secrets []string
	Keys    []string

	parts []catalog.FieldSpec // the specifications of Fields
}

// Field returns a field, or nil if it is absent or null.
func (c *Component) Field(name string) *Field { return c.fields[name] }

// JSON returns the value of a field as in [Field], or null if it has none.
func (c *Component) JSON(name string) *source.Value {
	if f := c.fields[name]; f != nil && f.JSON != nil {
		return f.JSON
	}
	return &source.Value{}
}

// Text returns the value of a string field, or its default.
func (c *Component) Text(name string) string { return c.literal(name, source.String) }

// Flag returns the value of a boolean field, or its default.
func (c *Component) Flag(name string) bool { return c.literal(name, source.Bool) == "true" }

// Number returns the value of a number field, or its default; 0 if there is neither.
func (c *Component) Number(name string) float64 { return decimal(c.literal(name, source.Number)) }

// literal returns the value of a field if it is of the kind, or its default.
func (c *Component) literal(name string, kind source.Kind) string {
	if v := c.JSON(name); v.Kind == kind {
		return v.Literal()
	}
	if spec := c.Type.Field(name); spec != nil {
		return spec.Default
	}
	return ""
}

// Number returns the value of a number field of a plain object, or its default; 0 if there is neither.
func (f *Field) Number(name string) float64 {
	if part := f.Fields[name]; part != nil && part.JSON.Kind == source.Number {
		return decimal(part.JSON.Text)
	}
	i := slices.IndexFunc(f.parts, func(s catalog.FieldSpec) bool { return s.Name == name })
	return decimal(f.parts[i].Default)
}

// decimal parses a number that has been validated; "" is 0.
func decimal(text string) float64 {
	n, _ := strconv.ParseFloat(text, 64)
	return n
}

// Component returns the component in a field for a single one, or nil.
func (c *Component) Component(name string) *Component {
	if f := c.fields[name]; f != nil && len(f.Components) == 1 {
		return f.Components[0]
	}
	return nil
}

// Components returns the components in a field.
func (c *Component) Components(name string) []*Component {
	if f := c.fields[name]; f != nil {
		return f.Components
	}
	return nil
}

func (c *Component) parts() iter.Seq[*Component] {
	return func(yield func(*Component) bool) {
		for _, f := range c.fields {
			for _, part := range f.Components {
				if !yield(part) {
					return
				}
			}
		}
	}
}

// FieldPos returns the position of a field's value, or of the component if it is not set.
func (c *Component) FieldPos(name string) source.Pos {
	if f := c.fields[name]; f != nil {
		return f.At
	}
	if v := c.source.Get(name); v != nil {
		return v.Pos
	}
	return c.At
}

// String returns the type and name of the component for messages, such as: LlmNode "summarize".
func (c *Component) String() string {
	name := cmp.Or(c.Name, c.ID)
	if name == "" {
		return article(c.Type.Name)
	}
	return c.Type.Name + " " + source.Quote(name)
}

// Input returns the input with a title, or nil.
func (c *Component) Input(title string) *Property { return titled(&c.inIndex, c.Inputs, title) }

// Output returns the output with a title, or nil.
func (c *Component) Output(title string) *Property { return titled(&c.outIndex, c.Outputs, title) }

// titled returns the property with a title. It creates the index on demand.
func titled(byTitle *map[string]*Property, list []*Property, title string) *Property {
	if *byTitle == nil {
		*byTitle = index(list)
	}
	return (*byTitle)[title]
}

// SafeID replaces / and @ in a name, which are reserved for nested ids and for state keys.
func SafeID(name string) string { return strings.NewReplacer("/", "_", "@", "_").Replace(name) }

// IsSet reports whether a field's value is not empty.
func (f *Field) IsSet() bool {
	if len(f.Components) > 0 || len(f.Secrets) > 0 || len(f.Keys) > 0 {
		return true
	}
	return f.JSON != nil && (len(f.JSON.Items) > 0 || len(f.JSON.Members) > 0 || f.JSON.Text != "")
}
