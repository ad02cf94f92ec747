package schema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// Derive returns the JSON Schema of In, which must decode a JSON object: a struct, a map or a json.RawMessage.
func Derive[In any]() (json.RawMessage, error) {
	t := reflect.TypeFor[In]()
	if t == reflect.TypeFor[json.RawMessage]() {
		return json.RawMessage(`{"type":"object"}`), nil
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if k := t.Kind(); k != reflect.Struct && k != reflect.Map {
		return nil, fmt.Errorf("%v is neither a struct nor a map", reflect.TypeFor[In]())
	}
	own := map[reflect.Type]*jsonschema.Schema{}
	if err := findCustomSchemas(t, own, map[reflect.Type]bool{}); err != nil {
		return nil, err
	}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: own})
	if err != nil {
		return nil, err
	}
	return json.Marshal(s)
}

var (
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// anyType lists all types: for a pointer to a type whose schema has no type the library allows only null.
var anyType = []string{"null", "boolean", "number", "string", "array", "object"}

// findCustomSchemas collects the schemas of types in t with a custom JSON encoding, which the library ignores. It rejects the
// tag option string for the same reason.
func findCustomSchemas(t reflect.Type, into map[reflect.Type]*jsonschema.Schema, seen map[reflect.Type]bool) error {
	if seen[t] {
		return nil
	}
	seen[t] = true
	if s := customSchema(t); s != nil {
		into[t] = s
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return findCustomSchemas(t.Elem(), into, seen)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() && !f.Anonymous {
				continue
			}
			if _, options, _ := strings.Cut(f.Tag.Get("json"), ","); slices.Contains(strings.Split(options, ","), "string") {
				return fmt.Errorf("the tag of field %s of %v has the option string", f.Name, t)
			}
			if err := findCustomSchemas(f.Type, into, seen); err != nil {
				return err
			}
		}
	}
	return nil
}

// customSchema returns the schema of a type with a custom encoding, or nil.
func customSchema(t reflect.Type) *jsonschema.Schema {
	p := reflect.PointerTo(t)
	switch {
	case t == reflect.TypeFor[time.Time]():
		return &jsonschema.Schema{Type: "string", Format: "date-time"}
	case t == reflect.TypeFor[json.Number]():
		return &jsonschema.Schema{Type: "number"}
	case t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface:
		return nil
	case p.Implements(jsonUnmarshaler) && !p.Implements(textUnmarshaler):
		return &jsonschema.Schema{Types: anyType} // it may accept anything
	case p.Implements(jsonUnmarshaler), p.Implements(textUnmarshaler):
		return &jsonschema.Schema{Type: "string"}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return &jsonschema.Schema{Type: "string", ContentEncoding: "base64"}
	}
	return nil
}
