package value

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
)

// typeSchema is the part of a JSON Schema that [Cast] uses.
type typeSchema struct {
	Type       typeNames                  `json:"type,omitempty"`
	Items      json.RawMessage            `json:"items,omitempty"`
	Properties map[string]json.RawMessage `json:"properties,omitempty"`
	More       json.RawMessage            `json:"additionalProperties,omitempty"`
	AnyOf      []json.RawMessage          `json:"anyOf,omitempty"`
	Enum       []json.RawMessage          `json:"enum,omitempty"`
}

// typeNames is one type, or a list of alternatives.
type typeNames []string

func (t *typeNames) UnmarshalJSON(raw []byte) error {
	if raw[0] == '[' {
		return json.Unmarshal(raw, (*[]string)(t))
	}
	*t = typeNames{""}
	return json.Unmarshal(raw, &(*t)[0])
}

// expandTypes converts a list of types to alternatives with one type each.
func (k *typeSchema) expandTypes() error {
	for _, t := range k.Type {
		one := typeSchema{Type: typeNames{t}, Items: k.Items, Properties: k.Properties, More: k.More}
		raw, err := json.Marshal(one)
		if err != nil {
			return err
		}
		k.AnyOf = append(k.AnyOf, raw)
	}
	return nil
}

// Cast converts a value to a type: a JSON Schema with type, items, properties, additionalProperties, anyOf and enum. A
// value that has the type is unchanged. Anything can be converted to a string, as the JSON that Python writes; numbers
// and numeric strings to each other, truncating fractions; 0, 1 and the strings of booleans to booleans. An empty type
// accepts everything.
func Cast(schema json.RawMessage, v Value) (Value, error) {
	if len(schema) == 0 || string(schema) == "true" || string(schema) == "{}" {
		return v, nil
	}
	var k typeSchema
	if err := json.Unmarshal(schema, &k); err != nil {
		return v, fmt.Errorf("invalid type %s: %w", schema, err)
	}
	convert := k.cast
	if len(k.Type) > 1 {
		if err := k.expandTypes(); err != nil {
			return v, err
		}
	}
	if len(k.AnyOf) > 0 {
		convert = k.union
	}
	out, err := convert(v)
	if err != nil {
		return v, err
	}
	return out, k.checkEnum(out)
}

// Complete returns an object with the defaults of a schema's properties added for missing members. Existing members keep
// their notation.
func Complete(schema, object json.RawMessage) json.RawMessage {
	rules, err := Parse(schema)
	if err != nil {
		return object
	}
	var has map[string]json.RawMessage
	if json.Unmarshal(object, &has) != nil {
		return object
	}
	properties, _ := rules.Get("properties")
	out := bytes.TrimSuffix(bytes.TrimSpace(object), []byte("}"))
	for _, p := range properties.Members {
		def, ok := p.Value.Get("default")
		if _, set := has[p.Key]; set || !ok {
			continue
		}
		comma := ","
		if len(has) == 0 {
			comma, has = "", map[string]json.RawMessage{p.Key: nil}
		}
		out = fmt.Appendf(out[:len(out):len(out)], "%s%s:%s", comma, Of(p.Key).JSON(), def.JSON())
	}
	return append(out[:len(out):len(out)], '}')
}

// Fit converts the members of a model's object to the types of a schema's properties, if necessary by parsing strings
// as JSON, or else replaces them with the property's default. Other members are unchanged.
func Fit(schema json.RawMessage, v Value) Value {
	rules, err := Parse(schema)
	if err != nil || v.Kind != Object {
		return v
	}
	out := Value{Kind: Object}
	properties, _ := rules.Get("properties")
	for _, p := range properties.Members {
		member, ok := v.Get(p.Key)
		fit, err := fitted(p.Value.JSON(), member)
		def, has := p.Value.Get("default")
		switch {
		case ok && err == nil:
			member = fit
		case has:
			member = def
		case !ok:
			continue
		}
		out.Members = append(out.Members, Member{p.Key, member})
	}
	for _, m := range v.Members {
		if _, declared := properties.Get(m.Key); !declared {
			out.Members = append(out.Members, m)
		}
	}
	return out
}

// InvalidValues iterates over the members of an object, by name, that cannot be converted to the types of a schema's
// properties.
func InvalidValues(schema json.RawMessage, v Value) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		rules, err := Parse(schema)
		if err != nil {
			return
		}
		properties, _ := rules.Get("properties")
		for _, p := range properties.Members {
			if m, ok := v.Get(p.Key); ok {
				if _, err := Cast(p.Value.JSON(), m); err != nil && !yield(p.Key, err) {
					return
				}
			}
		}
	}
}

// fitted casts a value or, if that fails for a string, the JSON in it.
func fitted(schema json.RawMessage, v Value) (Value, error) {
	out, err := Cast(schema, v)
	if err == nil || v.Kind != String {
		return out, err
	}
	inner, parseErr := Parse([]byte(v.Text))
	if parseErr != nil {
		return v, err
	}
	return Cast(schema, inner)
}

// union prefers the first alternative that leaves the value unchanged to the first that it can be converted to.
func (k *typeSchema) union(v Value) (Value, error) {
	for _, m := range k.AnyOf {
		if out, err := Cast(m, v); err == nil && bytes.Equal(out.JSON(), v.JSON()) {
			return out, nil
		}
	}
	for _, m := range k.AnyOf {
		if out, err := Cast(m, v); err == nil {
			return out, nil
		}
	}
	return v, fmt.Errorf("%s has none of the allowed types", v.Brief())
}

// checkEnum rejects values that are not in the enum.
func (k *typeSchema) checkEnum(v Value) error {
	if len(k.Enum) == 0 {
		return nil
	}
	for _, raw := range k.Enum {
		if one, err := Parse(raw); err == nil && Equal(ByValue, one, v) {
			return nil
		}
	}
	return fmt.Errorf("%s is not one of the allowed values", v.Brief())
}

func (k *typeSchema) cast(v Value) (Value, error) {
	if len(k.Type) == 0 {
		return v, nil
	}
	switch k.Type[0] {
	case "":
		return v, nil
	case "string":
		return Of(v.Spaced()), nil
	case "integer":
		return toInteger(v)
	case "number":
		return toNumber(v)
	case "boolean":
		return toBoolean(v)
	case "null":
		if v.Kind == Null {
			return v, nil
		}
	case "array":
		return k.array(v)
	case "object":
		return k.object(v)
	}
	return v, fmt.Errorf("%s is %s, expected %s", v.Brief(), v.Kind, k.Type[0])
}

func (k *typeSchema) array(v Value) (Value, error) {
	if v.Kind != Array {
		return v, fmt.Errorf("%s is %s, expected an array", v.Brief(), v.Kind)
	}
	out := Value{Kind: Array}
	for i, item := range v.Items {
		item, err := Cast(k.Items, item)
		if err != nil {
			return v, fmt.Errorf("item %d: %w", i+1, err)
		}
		out.Items = append(out.Items, item)
	}
	return out, nil
}

// object casts the members of an object and drops those that the type does not allow.
func (k *typeSchema) object(v Value) (Value, error) {
	if v.Kind != Object {
		return v, fmt.Errorf("%s is %s, expected an object", v.Brief(), v.Kind)
	}
	out := Value{Kind: Object}
	for _, m := range v.Members {
		schema, declared := k.Properties[m.Key]
		if !declared {
			if string(k.More) == "false" {
				continue
			}
			schema = k.More
		}
		item, err := Cast(schema, m.Value)
		if err != nil {
			return v, fmt.Errorf("member %q: %w", m.Key, err)
		}
		out.Members = append(out.Members, Member{m.Key, item})
	}
	return out, nil
}

// toNumber converts a value to a number.
func toNumber(v Value) (Value, error) {
	switch v.Kind {
	case Int, Double:
		return v, nil
	case Bool:
		if v.True {
			return Of(1), nil
		}
		return Of(0), nil
	case String:
		text := strings.TrimSpace(v.Text)
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return Of(n), nil
		}
		if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
			return Of(f), nil
		}
	}
	return v, fmt.Errorf("%s is %s, expected a number", v.Brief(), v.Kind)
}

func toInteger(v Value) (Value, error) {
	n, err := toNumber(v)
	if err != nil || n.Kind == Int {
		return n, err
	}
	if f := math.Trunc(n.Float); math.Abs(f) < 1<<63 {
		return Of(int64(f)), nil
	}
	return v, fmt.Errorf("%s is not a 64-bit integer", v.Brief())
}

func toBoolean(v Value) (Value, error) {
	switch v.Kind {
	case Bool:
		return v, nil
	case Int, Double:
		return Of(v.Float != 0), nil
	case String:
		switch strings.ToLower(strings.TrimSpace(v.Text)) {
		case "true", "1":
			return Of(true), nil
		case "false", "0":
			return Of(false), nil
		}
	}
	return v, fmt.Errorf("%s is %s, expected a boolean", v.Brief(), v.Kind)
}

// Spaced returns the value for display as Python writes JSON, with spaces after commas and colons. A string is returned
// as it is.
func (v Value) Spaced() string {
	if v.Kind == String {
		return v.Text
	}
	return string(v.append(nil, ", ", ": "))
}
