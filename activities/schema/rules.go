package schema

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"weft/workflows/plan/pytext"
)

// budget ends a validation that takes too much: the validator itself never looks at the
// clock, and its goroutine would go on for years. It is part of every schema, as an
// extension that takes any value.
type budget struct {
	ctx  context.Context
	left int
}

func (b *budget) Compile(jsonschema.CompilerContext, map[string]any) (jsonschema.ExtSchema, error) {
	return b, nil
}

// Validate counts one try of one schema. It panics when the budget is spent, which ends the
// validation; validate recovers it.
func (b *budget) Validate(jsonschema.ValidationContext, any) error {
	if b.left--; b.left < 0 {
		panic(fmt.Sprintf("it takes more than %d steps to check this value; make it simpler", maxVisits))
	}
	if b.left%64 == 0 && b.ctx.Err() != nil {
		panic("it takes too long to check this value; make it simpler")
	}
	return nil
}

// laterType is the name of "type" in a rewritten schema.
const laterType = "weft:type"

// rewritten is a schema that checks values as Python does: its types under another name,
// because the library looks at no other rule where a type is wrong, and without its formats
// if these are not rules, because the library checks them in draft 7 whether it is asked to or
// not. Named reports whether a value holds schemas by their names.
func rewritten(v *pytext.Value, formats, named bool) *pytext.Value {
	out := *v
	out.Items, out.Members = nil, nil
	for _, item := range v.Items {
		out.Items = append(out.Items, rewritten(item, formats, false))
	}
	for _, m := range v.Members {
		switch {
		case named:
			m.Value = rewritten(m.Value, formats, false)
		case m.Key == "format" && m.Value.Kind == pytext.String && !formats:
			continue
		case m.Key == "type":
			m.Key = laterType
		case !data[m.Key]:
			m.Value = rewritten(m.Value, formats, holdsNamed[m.Key])
		}
		out.Members = append(out.Members, m)
	}
	return &out
}

// data are the rules that hold values, holdsNamed those that hold schemas by their names.
var (
	data       = map[string]bool{"const": true, "enum": true, "default": true, "examples": true}
	holdsNamed = map[string]bool{"properties": true, "patternProperties": true, "definitions": true, "$defs": true,
		"dependencies": true, "dependentSchemas": true}
)

// typeRule is the rule that a rewritten schema has instead of "type".
type typeRule struct{ types []any }

// Compile reads the rule, if a schema has it. That it is well-formed has been looked at.
func (typeRule) Compile(_ jsonschema.CompilerContext, m map[string]any) (jsonschema.ExtSchema, error) {
	switch t := m[laterType].(type) {
	case string:
		return typeRule{[]any{t}}, nil
	case []any:
		return typeRule{t}, nil
	}
	return nil, nil
}

func (r typeRule) Validate(ctx jsonschema.ValidationContext, v any) error {
	kind := typeOf(v)
	if slices.Contains(r.types, any(kind)) || kind == "number" && slices.Contains(r.types, any("integer")) && whole(v) {
		return nil
	}
	return ctx.Error("type", "%s is not one of the types %v", kind, r.types)
}

func typeOf(v any) string {
	switch v.(type) {
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "null"
}

// whole reports whether a number has no fraction, as 100.0 has none.
func whole(v any) bool {
	r, ok := new(big.Rat).SetString(fmt.Sprint(v))
	return ok && r.IsInt()
}
