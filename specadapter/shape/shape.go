// Package shape describes the objects of a dialect: parsers recognize the fields of an object by it, and
// the JSON Schema for editors is generated from it.
//
// Start at [Object], then [Document].
package shape

import (
	"encoding/json"
	"maps"
	"regexp"
	"strings"
	"unicode"
)

// Schema is a JSON Schema (2020-12).
type Schema = map[string]any

// Object describes an object.
type Object struct {
	// Name is the name of its definition in the schema.
	Name   string
	Doc    string
	Fields []Field
	// Rules are additional keywords of its schema, such as "allOf".
	Rules Schema
}

// Field describes a field.
type Field struct {
	Name string
	// Type is the schema of its values. A field that is not required may also be null.
	Type     Schema
	Doc      string
	Required bool
}

// Names returns the names of the fields.
func (o *Object) Names() []string {
	var out []string
	for _, f := range o.Fields {
		out = append(out, f.Name)
	}
	return out
}

// Schemas of common fields. Count is an integer of at least 1, Map an object with string values, JSONSchema a JSON Schema.
var (
	Text       = Schema{"type": "string"}
	Flag       = Schema{"type": "boolean"}
	Count      = Schema{"type": "integer", "minimum": 1}
	Any        = Schema{}
	Map        = Schema{"type": "object", "additionalProperties": Schema{"type": "string"}}
	JSONSchema = Schema{"type": "object", "$ref": "#/$defs/" + jsonSchema}
)

// OneOf returns the schema of an enumeration of strings.
func OneOf(texts ...string) Schema { return Schema{"enum": texts} }

// AnyCase returns the schema of an enumeration of strings that ignores case.
func AnyCase(texts ...string) Schema {
	var forms []string
	for _, text := range texts {
		form := ""
		for _, c := range text {
			if lower, upper := unicode.ToLower(c), unicode.ToUpper(c); lower != upper {
				form += "[" + string(lower) + string(upper) + "]"
			} else {
				form += regexp.QuoteMeta(string(c))
			}
		}
		forms = append(forms, form)
	}
	return Schema{"anyOf": []Schema{OneOf(texts...), {"type": "string", "pattern": "^(" + strings.Join(forms, "|") + ")$"}}}
}

// List returns the schema of an array.
func List(of Schema) Schema { return Schema{"type": "array", "items": of} }

// Ref returns a reference to a definition.
func Ref(name string) Schema { return Schema{"$ref": "#/$defs/" + name} }

// Between returns the schema of a number in a range, inclusive.
func Between(least, most float64) Schema {
	return Schema{"type": "number", "minimum": least, "maximum": most}
}

// Nullable returns a schema that also allows null.
func Nullable(s Schema) Schema {
	out := maps.Clone(s)
	switch kind := s["type"].(type) {
	case string:
		out["type"] = []string{kind, "null"}
	case []string:
		out["type"] = append(kind[:len(kind):len(kind)], "null")
	}
	if texts, ok := s["enum"].([]string); ok {
		values := []any{nil}
		for _, text := range texts {
			values = append(values, text)
		}
		out["enum"] = values
	}
	switch forms, ok := s["anyOf"].([]Schema); {
	case ok:
		out["anyOf"] = append(forms[:len(forms):len(forms)], Schema{"type": "null"})
	case s["$ref"] != nil:
		return Schema{"anyOf": []Schema{s, {"type": "null"}}}
	}
	return out
}

// Schema returns the object's schema, which allows no other fields.
func (o *Object) Schema() Schema {
	properties, required := Schema{}, []string{}
	for _, f := range o.Fields {
		field := maps.Clone(f.Type)
		if f.Required {
			required = append(required, f.Name)
		} else {
			field = Nullable(f.Type)
		}
		field["description"] = f.Doc
		properties[f.Name] = field
	}
	out := Schema{"type": "object", "description": o.Doc, "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		out["required"] = required
	}
	maps.Copy(out, o.Rules)
	return out
}

// Key is the member in which a document names its JSON Schema for editors. It has no other effect.
const Key = "$schema"

// Document returns the schema of a document: its root object and the definitions that the root refers to.
func Document(title string, root *Object, definitions ...*Object) Schema {
	out, defs := root.Schema(), Schema{}
	for _, o := range definitions {
		defs[o.Name] = o.Schema()
	}
	return Complete(out, title, defs)
}

// Complete turns the schema of a root object into the schema of a document.
func Complete(root Schema, title string, definitions Schema) Schema {
	definitions[jsonSchema] = draft7()
	root[Key], root["title"], root["$defs"] = "https://json-schema.org/draft/2020-12/schema", title, definitions
	root["properties"].(Schema)[Key] = Schema{"type": "string", "description": "schema of this document, for editors"}
	return root
}

// Marshal returns a schema as indented JSON, the form in which it is published.
func Marshal(s Schema) ([]byte, error) {
	out, err := json.MarshalIndent(s, "", " ")
	return append(out, '\n'), err
}

// jsonSchema is the name of the definition for JSON Schemas that a document contains.
const jsonSchema = "json_schema"

// Types is the schema of a type name in a JSON Schema.
var Types = OneOf("array", "boolean", "integer", "null", "number", "object", "string")

// draft7 returns the schema of a JSON Schema (draft 7) in a document.
func draft7() Schema {
	of := Ref(jsonSchema)
	some := Schema{"type": "array", "minItems": 1, "items": of}
	properties := Schema{
		"type":        Schema{"anyOf": []Schema{Types, {"type": "array", "minItems": 1, "uniqueItems": true, "items": Types}}},
		"items":       Schema{"anyOf": []Schema{of, some}},
		"required":    Schema{"type": "array", "uniqueItems": true, "items": Text},
		"enum":        Schema{"type": "array"},
		"multipleOf":  Schema{"type": "number", "exclusiveMinimum": 0},
		"uniqueItems": Flag,
	}
	add := func(s Schema, names ...string) {
		for _, name := range names {
			properties[name] = s
		}
	}
	add(Schema{"type": "object", "additionalProperties": of}, "properties", "patternProperties", "definitions", "$defs")
	add(of, "additionalProperties", "additionalItems", "contains", "propertyNames", "not", "if", "then", "else")
	add(some, "allOf", "anyOf", "oneOf")
	add(Schema{"type": "number"}, "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
	add(Schema{"type": "integer", "minimum": 0}, "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
	add(Text, "pattern", "title", "description", "format", "$ref", "$id", "$schema", "$comment")
	return Schema{"type": []string{"object", "boolean"}, "properties": properties}
}
