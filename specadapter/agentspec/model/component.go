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

// Component is one component of a document, checked. References are resolved: two
// references to one definition are the same Component, and nothing else is; in particular
// ids do not identify. There is no cycle of components.
type Component struct {
	// Type is the row that describes the component.
	Type *catalog.Type
	// At is where the component is defined.
	At source.Pos
	// Key is the name under which it can be referred to; empty for one that is written
	// in its place.
	Key string
	// ID is the author's, or one that the place gives.
	ID          string
	Name        string
	Description string
	// Metadata is the author's object, or nil.
	Metadata *source.Value
	// Inputs and Outputs are declared by the author or else inferred. They have unique
	// titles.
	Inputs, Outputs []*Property
	// Branches of a node are where it can go on, sorted.
	Branches []string
	// Reads and Writes are the variables of a node of WayFlow's for variables.
	Reads  []*Property
	Writes []Write
	// Flow is set on a Flow.
	Flow *Flow
	// Undeclared are the placeholders of its texts that no input gives a value. Only the
	// default profile accepts some.
	Undeclared []string

	source   *source.Value
	fields   map[string]*Field
	height   int                  // of the components in it, itself included
	ins      bool                 // Inputs are declared
	outs     bool                 // Outputs are declared
	broken   bool                 // an error makes its fields or properties unreliable
	yields   string               // what in it waits for somebody, "" if nothing
	tools    map[string]bool      // the names of its tools, once they are known
	waiting  *string              // what in its tools waits for somebody, once it is known
	inIndex  map[string]*Property // of Inputs, made when it is first needed
	outIndex map[string]*Property
}

// Field is the value of one of a component's fields.
type Field struct {
	// At is where the value is written.
	At source.Pos
	// JSON is the value as the author wrote it, a reference to a value replaced. It is nil
	// where one component stands or a secret.
	JSON *source.Value
	// Components are those that the field names, in order. A pair takes two. In a list of
	// texts and components they are the components of JSON's items.
	Components []*Component
	// Fields are those of a plain object.
	Fields map[string]*Field
	// Secrets are the references of a sensitive field: one, or one for each key of Keys.
	Secrets []string
	Keys    []string

	parts []catalog.FieldSpec // the rows of Fields
}

// Field returns a field that the author set, or nil. A field that is null counts as not
// set.
func (c *Component) Field(name string) *Field { return c.fields[name] }

// JSON is the value of a field as in [Field], or null where it has none.
func (c *Component) JSON(name string) *source.Value {
	if f := c.fields[name]; f != nil && f.JSON != nil {
		return f.JSON
	}
	return &source.Value{}
}

// Text is the value of a field for texts, or the table's default.
func (c *Component) Text(name string) string { return c.literal(name, source.String) }

// Flag is the value of a field for true or false, or the table's default.
func (c *Component) Flag(name string) bool { return c.literal(name, source.Bool) == "true" }

// Number is the value of a field for numbers, or the table's default; 0 where there is neither.
func (c *Component) Number(name string) float64 { return decimal(c.literal(name, source.Number)) }

// literal is the value of a field if it is of a kind, or the table's default.
func (c *Component) literal(name string, kind source.Kind) string {
	if v := c.JSON(name); v.Kind == kind {
		return v.Literal()
	}
	if spec := c.Type.Field(name); spec != nil {
		return spec.Default
	}
	return ""
}

// Number is the value of a part of a plain object, or the table's default; 0 where there is neither.
func (f *Field) Number(name string) float64 {
	if part := f.Fields[name]; part != nil && part.JSON.Kind == source.Number {
		return decimal(part.JSON.Text)
	}
	i := slices.IndexFunc(f.parts, func(s catalog.FieldSpec) bool { return s.Name == name })
	return decimal(f.parts[i].Default)
}

// decimal is a number that was checked already; "" is 0.
func decimal(text string) float64 {
	n, _ := strconv.ParseFloat(text, 64)
	return n
}

// Component is the component in a field for one, or nil.
func (c *Component) Component(name string) *Component {
	if f := c.fields[name]; f != nil && len(f.Components) == 1 {
		return f.Components[0]
	}
	return nil
}

// Components are those in a field for several.
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

// FieldPos is the place of a field's value, or of the component where it is not set.
func (c *Component) FieldPos(name string) source.Pos {
	if f := c.fields[name]; f != nil {
		return f.At
	}
	if v := c.source.Get(name); v != nil {
		return v.Pos
	}
	return c.At
}

// String names the component in messages, such as: LlmNode "summarize".
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

// titled finds a property by an index, which is made when it is first needed.
func titled(byTitle *map[string]*Property, list []*Property, title string) *Property {
	if *byTitle == nil {
		*byTitle = index(list)
	}
	return (*byTitle)[title]
}

// SafeID keeps / for what nests, and @ for the names of state keys.
func SafeID(name string) string { return strings.NewReplacer("/", "_", "@", "_").Replace(name) }

// IsSet reports whether a field holds more than nothing.
func (f *Field) IsSet() bool {
	if len(f.Components) > 0 || len(f.Secrets) > 0 || len(f.Keys) > 0 {
		return true
	}
	return f.JSON != nil && (len(f.JSON.Items) > 0 || len(f.JSON.Members) > 0 || f.JSON.Text != "")
}
