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

// kind is a type as [Cast] reads it: the part of JSON Schema that says what values are.
type kind struct {
	Type       typeNames                  `json:"type,omitempty"`
	Items      json.RawMessage            `json:"items,omitempty"`
	Properties map[string]json.RawMessage `json:"properties,omitempty"`
	More       json.RawMessage            `json:"additionalProperties,omitempty"`
	AnyOf      []json.RawMessage          `json:"anyOf,omitempty"`
	Enum       []json.RawMessage          `json:"enum,omitempty"`
}

// typeNames are one type, or a list of types of which a value has one.
type typeNames []string

func (t *typeNames) UnmarshalJSON(raw []byte) error {
	if raw[0] == '[' {
		return json.Unmarshal(raw, (*[]string)(t))
	}
	*t = typeNames{""}
	return json.Unmarshal(raw, &(*t)[0])
}

// spread writes a list of types as a choice between kinds of one type each.
func (k *kind) spread() error {
	for _, t := range k.Type {
		one := kind{Type: typeNames{t}, Items: k.Items, Properties: k.Properties, More: k.More}
		raw, err := json.Marshal(one)
		if err != nil {
			return err
		}
		k.AnyOf = append(k.AnyOf, raw)
	}
	return nil
}

// Cast makes a value one of a type: a JSON Schema of type, items, properties,
// additionalProperties, anyOf and enum. A value that has the type stays as it is. Anything
// becomes a string, its JSON as Python writes it; numbers, and texts that are numbers, become
// each other, a fraction cut off; 0 and 1 and their words become booleans. An empty type takes
// everything.
func Cast(schema json.RawMessage, v Value) (Value, error) {
	if len(schema) == 0 || string(schema) == "true" || string(schema) == "{}" {
		return v, nil
	}
	var k kind
	if err := json.Unmarshal(schema, &k); err != nil {
		return v, fmt.Errorf("the type %s: %w", schema, err)
	}
	become := k.cast
	if len(k.Type) > 1 {
		if err := k.spread(); err != nil {
			return v, err
		}
	}
	if len(k.AnyOf) > 0 {
		become = k.union
	}
	out, err := become(v)
	if err != nil {
		return v, err
	}
	return out, k.listed(out)
}

// Complete is an object with the defaults of a schema's properties for the members that it lacks. What it has stays as
// it is written.
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
		if _, given := has[p.Key]; given || !ok {
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

// Fitted is an object of a model's whose members are made what a schema's properties want: cast, if need be from the JSON
// that a text holds; else the property's default. A member that is neither stays as it is.
func Fitted(schema json.RawMessage, v Value) Value {
	rules, err := Parse(schema)
	if err != nil || v.Kind != Object {
		return v
	}
	out := Value{Kind: Object}
	properties, _ := rules.Get("properties")
	for _, p := range properties.Members {
		given, ok := v.Get(p.Key)
		fit, err := fitted(p.Value.JSON(), given)
		def, has := p.Value.Get("default")
		switch {
		case ok && err == nil:
			given = fit
		case has:
			given = def
		case !ok:
			continue
		}
		out.Members = append(out.Members, Member{p.Key, given})
	}
	for _, m := range v.Members {
		if _, known := properties.Get(m.Key); !known {
			out.Members = append(out.Members, m)
		}
	}
	return out
}

// Misfits are the members of an object that cannot be cast to what a schema's properties want, by their names.
func Misfits(schema json.RawMessage, v Value) iter.Seq2[string, error] {
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

// fitted casts a value, or else the JSON that it is the text of.
func fitted(schema json.RawMessage, v Value) (Value, error) {
	out, err := Cast(schema, v)
	if err == nil || v.Kind != String {
		return out, err
	}
	inner, wrong := Parse([]byte(v.Text))
	if wrong != nil {
		return v, err
	}
	return Cast(schema, inner)
}

// union takes the first member that the value has already, else the first that it can become.
func (k *kind) union(v Value) (Value, error) {
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
	return v, fmt.Errorf("%s has none of the wanted types", v.Brief())
}

// listed refuses values that an enum does not list.
func (k *kind) listed(v Value) error {
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

func (k *kind) cast(v Value) (Value, error) {
	if len(k.Type) == 0 {
		return v, nil
	}
	switch k.Type[0] {
	case "":
		return v, nil
	case "string":
		return Of(v.Spaced()), nil
	case "integer":
		return whole(v)
	case "number":
		return figure(v)
	case "boolean":
		return truth(v)
	case "null":
		if v.Kind == Null {
			return v, nil
		}
	case "array":
		return k.array(v)
	case "object":
		return k.object(v)
	}
	return v, fmt.Errorf("%s is %s, want %s", v.Brief(), v.Kind, k.Type[0])
}

func (k *kind) array(v Value) (Value, error) {
	if v.Kind != Array {
		return v, fmt.Errorf("%s is %s, want an array", v.Brief(), v.Kind)
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

// object casts members; those that the type has no place for are left out.
func (k *kind) object(v Value) (Value, error) {
	if v.Kind != Object {
		return v, fmt.Errorf("%s is %s, want an object", v.Brief(), v.Kind)
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

// figure is a value as a number.
func figure(v Value) (Value, error) {
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
	return v, fmt.Errorf("%s is %s, want a number", v.Brief(), v.Kind)
}

func whole(v Value) (Value, error) {
	n, err := figure(v)
	if err != nil || n.Kind == Int {
		return n, err
	}
	if f := math.Trunc(n.Float); math.Abs(f) < 1<<63 {
		return Of(int64(f)), nil
	}
	return v, fmt.Errorf("%s is not a 64-bit integer", v.Brief())
}

func truth(v Value) (Value, error) {
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
	return v, fmt.Errorf("%s is %s, want a boolean", v.Brief(), v.Kind)
}

// Spaced is the value for a reader, as Python writes JSON: with blanks behind commas and
// colons. A string stands for itself.
func (v Value) Spaced() string {
	if v.Kind == String {
		return v.Text
	}
	return string(v.append(nil, ", ", ": "))
}
