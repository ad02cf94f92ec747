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

// budget aborts a validation that takes too many steps or too long: the validator itself has
// no limits, and its goroutine could run for years. It is part of every schema, as an
// extension that accepts any value.
type budget struct {
	ctx  context.Context
	left int
}

func (b *budget) Compile(jsonschema.CompilerContext, map[string]any) (jsonschema.ExtSchema, error) {
	return b, nil
}

// Validate counts one validation against one schema. It panics when the budget is exceeded;
// validate recovers.
func (b *budget) Validate(jsonschema.ValidationContext, any) error {
	if b.left--; b.left < 0 {
		panic(fmt.Sprintf("validating this value takes more than %d steps; simplify it", maxVisits))
	}
	if b.left%64 == 0 && b.ctx.Err() != nil {
		panic("validating this value takes too long; simplify it")
	}
	return nil
}

// laterType is the name of "type" in a rewritten schema.
const laterType = "weft:type"

// rewritten changes a schema so that the library validates as Python does. Types get another
// name, because the library skips all other rules if the type does not match. Formats are
// removed unless formats is set, because the library always checks them in draft 7. named means
// that v holds schemas by name.
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

// data are the keywords that hold values, holdsNamed those that hold schemas by name.
var (
	data       = map[string]bool{"const": true, "enum": true, "default": true, "examples": true}
	holdsNamed = map[string]bool{"properties": true, "patternProperties": true, "definitions": true, "$defs": true,
		"dependencies": true, "dependentSchemas": true}
)

// typeRule replaces "type" in a rewritten schema.
type typeRule struct{ types []any }

// Compile reads the rule, if a schema has it. The original schema has been compiled before, so it is well-formed.
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
	if slices.Contains(r.types, any(kind)) || kind == "number" && slices.Contains(r.types, any("integer")) && isInteger(v) {
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

// isInteger reports whether a number has no fractional part, such as 100.0.
func isInteger(v any) bool {
	r, ok := new(big.Rat).SetString(fmt.Sprint(v))
	return ok && r.IsInt()
}
