package shape

// jsonSchema is the name of the definition of JSON Schemas in a document.
const jsonSchema = "json_schema"

// Types are the types of values in a JSON Schema.
var Types = OneOf("array", "boolean", "integer", "null", "number", "object", "string")

// draft7 is the schema of a JSON Schema (draft 7) in a document.
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
