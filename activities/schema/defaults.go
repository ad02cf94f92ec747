package schema

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"weft/activities/textutil"
	"weft/workflows/plan"
	"weft/workflows/plan/pytext"
)

// Default is a default that is invalid by its own schema.
type Default struct {
	// Pointer is a JSON pointer from the root of the schema.
	Pointer string
	Errors  []Error
}

// Defaults lists the defaults in a schema that are invalid by their own schemas, in the order of the text; it ignores formats.
// The list is incomplete if the validation exceeds its budget.
func Defaults(schema json.RawMessage) (out []Default) {
	defer func() { _ = recover() }() // the budget is exceeded
	rules, err := pytext.Parse(schema)
	if err != nil || !strings.Contains(string(schema), `"default"`) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), Time/10)
	defer cancel()
	c, err := compiler([]byte(rewritten(rules, false, false).JSON()), jsonschema.Draft7,
		map[string]jsonschema.ExtCompiler{"budget": &budget{ctx: ctx, left: maxVisits}, "type": typeRule{}})
	if err != nil {
		return nil
	}
	eachDefault(rules, "", func(of, value *pytext.Value, at string) {
		raw := json.RawMessage(value.JSON())
		if depth := plan.Depth(raw); depth > MaxDepth || strings.Count(string(schema), "{")*(depth+1) > maxFrames || strange(value) != "" {
			return
		}
		compiled, err := c.Compile(documentURL + "#" + at)
		if err != nil {
			return
		}
		instance, _ := textutil.DecodeExact(raw) // it has been parsed before
		if invalid := (*jsonschema.ValidationError)(nil); errors.As(compiled.Validate(instance), &invalid) {
			out = append(out, Default{at + "/default", (&phraser{ctx: ctx, index: index{}, rules: of, value: value}).all(invalid)})
		}
	})
	return out
}

// parts are the keywords whose values are schemas or lists of schemas.
var parts = map[string]bool{"items": true, "prefixItems": true, "additionalItems": true, "unevaluatedItems": true, "contains": true,
	"additionalProperties": true, "unevaluatedProperties": true, "propertyNames": true,
	"if": true, "then": true, "else": true, "not": true, "allOf": true, "anyOf": true, "oneOf": true}

// eachDefault visits the schemas within a schema, or a list of schemas, that have a default.
func eachDefault(v *pytext.Value, at string, visit func(of, value *pytext.Value, at string)) {
	for i, item := range v.Items {
		eachDefault(item, at+"/"+strconv.Itoa(i), visit)
	}
	for _, m := range v.Members {
		switch inner := at + "/" + escaped(m.Key); {
		case m.Key == "default":
			visit(v, m.Value, at)
		case parts[m.Key]:
			eachDefault(m.Value, inner, visit)
		case holdsNamed[m.Key]:
			for _, named := range m.Value.Members {
				eachDefault(named.Value, inner+"/"+escaped(named.Key), visit)
			}
		}
	}
}

// escaped escapes a name for a JSON pointer in the fragment of a URL.
func escaped(name string) string {
	return url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
}
