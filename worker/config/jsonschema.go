package config

import (
	"encoding/json"
	"maps"
	"reflect"
)

// SchemaKey is the key by which a file names its JSON Schema for editors. It is no setting.
const SchemaKey = "$schema"

// JSONSchema is a JSON Schema of weft.yaml for editors, made of the same tags that read the file.
func JSONSchema() ([]byte, error) {
	root := schema.jsonSchema(true)
	root[SchemaKey] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Settings of Weft"
	root["properties"].(object)[SchemaKey] = object{"type": "string", "description": "schema of this file, for editors"}
	out, err := json.MarshalIndent(root, "", " ")
	return append(out, '\n'), err
}

type object = map[string]any

// jsonSchema is the schema of a place in the file; null reports whether the place may be empty.
func (n *node) jsonSchema(null bool) object {
	if n.setting != nil {
		return n.setting.jsonSchema(null)
	}
	out := object{"type": types(null, "object")}
	if n.doc != "" {
		out["description"] = n.doc
	}
	if n.each != nil {
		out["additionalProperties"] = n.each.jsonSchema(false)
		return out
	}
	properties := object{}
	for _, c := range n.children {
		properties[c.name] = c.jsonSchema(true)
	}
	out["properties"], out["additionalProperties"] = properties, false
	return out
}

// jsonSchema is the schema of the values that [setting.parse] accepts.
func (s *setting) jsonSchema(null bool) object {
	out := object{"description": s.doc + "\n\n" + s.want()}
	if s.doc == "" {
		out["description"] = s.want()
	}
	if s.def != "" {
		out["default"] = s.defaultValue()
	}
	scalar := object{"type": types(false, "string", "number", "boolean")}
	switch s.typ.Kind() {
	case reflect.Slice:
		out["type"] = types(null, "array", "string")
		out["items"] = scalar
		if len(s.oneOf) > 0 {
			out["items"] = object{"enum": s.oneOf}
		}
	case reflect.Map:
		out["type"], out["additionalProperties"] = types(null, "object"), scalar
	case reflect.Bool:
		out["enum"] = append(words(null, []string{"true", "false"}), true, false)
	case reflect.String:
		out["type"] = types(null, "string", "number", "boolean")
		switch {
		case len(s.oneOf) > 0:
			out["enum"] = words(null, s.oneOf)
		case s.kind == "address":
			out["pattern"] = `^(.*:[0-9]+)?$`
		case s.kind == "connection":
			out["type"] = types(null, "string")
		}
	case reflect.Int64:
		out["type"], out["pattern"] = types(null, "string"), `^\+?(0|([0-9]*\.?[0-9]+(ns|us|µs|μs|ms|s|m|h))+)$`
	case reflect.Float64:
		out["type"], out["minimum"] = types(null, "number", "string"), 0
	default:
		out["type"], out["pattern"] = types(null, "integer", "string"), `^[+-]?[0-9]+$`
		within := object{"minimum": s.min, "maximum": s.max}
		if s.or != "" {
			out["anyOf"] = []object{within, {"const": json.Number(s.or)}}
			break
		}
		maps.Copy(out, within)
	}
	return out
}

func (s *setting) defaultValue() any {
	if s.typ == durationType {
		return s.def
	}
	v, err := s.parse(s.fromText(s.def))
	must(err)
	return v
}

func types(null bool, names ...string) []string {
	if null {
		names = append(names, "null")
	}
	return names
}

func words(null bool, names []string) []any {
	var out []any
	for _, name := range names {
		out = append(out, name)
	}
	if null {
		out = append(out, nil)
	}
	return out
}
