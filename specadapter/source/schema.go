package source

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"weft/activities/schema"
)

// Limits of a JSON Schema in a document. They bound the cost of compiling the schema and of
// validating a model's answers by it.
const (
	MaxSchemaBytes = schema.MaxBytes
	MaxSchemaDepth = schema.MaxDepth
	MaxSchemaRefs  = 256
)

// SchemaProblem is an error in a schema, with its position.
type SchemaProblem struct {
	Pos  Pos
	Text string
	Help string
}

// CheckSchema compiles a value as a JSON Schema, draft 7 unless $schema selects another, and
// returns its problems. References that leave the document are rejected and never followed.
func CheckSchema(v *Value) []SchemaProblem {
	s := schemaSize{}
	s.measure(v, 0)
	raw := v.JSON()
	if len(raw) > MaxSchemaBytes {
		s.add(v.Pos, "simplify the schema", "the schema has %d bytes, over the limit of %d", len(raw), MaxSchemaBytes)
	}
	if s.refs > MaxSchemaRefs {
		s.add(v.Pos, "simplify the schema", "the schema has %d references, over the limit of %d", s.refs, MaxSchemaRefs)
	}
	if len(s.problems) > 0 {
		return s.problems
	}
	if _, err := schema.Compile(raw, jsonschema.Draft7, nil); err != nil {
		return schemaProblems(v, err)
	}
	return nil
}

// InvalidDefault is a default that does not match its schema.
type InvalidDefault struct {
	Default *Value
	Errors  []schema.Error
}

// Text describes the mismatches.
func (m *InvalidDefault) Text() string {
	out := make([]string, len(m.Errors))
	for i, e := range m.Errors {
		out[i] = e.Message
		if e.Path != "$" {
			out[i] = e.Path + ": " + e.Message
		}
	}
	return strings.Join(out, "; ")
}

// InvalidDefaults returns the defaults in a valid schema (see [CheckSchema]) that do not match their schemas.
func InvalidDefaults(v *Value) []InvalidDefault {
	return Map(schema.Defaults(v.JSON()), func(d schema.Default) InvalidDefault { return InvalidDefault{v.pointer(d.Pointer), d.Errors} })
}

// schemaSize checks a schema against the limits before it is compiled.
type schemaSize struct {
	refs     int
	problems []SchemaProblem
	deep     bool
}

func (s *schemaSize) add(at Pos, help, format string, args ...any) {
	s.problems = append(s.problems, SchemaProblem{Pos: at, Help: help, Text: fmt.Sprintf(format, args...)})
}

// OutOfRange returns the first number in a value that is outside the supported range; nil if there is none.
func (v *Value) OutOfRange() *Value {
	for m := range v.All() {
		if m.Value.Kind == Number && !schema.Countable(m.Value.Text) {
			return m.Value
		}
	}
	return nil
}

// measure checks a part of a schema; depth counts the schema objects around it. The innermost of [MaxSchemaDepth]
// schemas may still contain the schema of a scalar.
func (s *schemaSize) measure(v *Value, depth int) {
	if v.Kind == Object {
		depth++
	}
	if depth > MaxSchemaDepth+1 {
		if !s.deep {
			s.add(v.Pos, "flatten the schema, or use $ref", "the schema is nested deeper than %d", MaxSchemaDepth)
		}
		s.deep = true
		return
	}
	if v.Kind == Number && !schema.Countable(v.Text) {
		s.add(v.Pos, "use a smaller number", "the number %s is out of range", v.Describe())
	}
	for _, item := range v.Items {
		s.measure(item, depth)
	}
	for _, m := range v.Members {
		if m.Key == "$ref" && m.Value.Kind == String {
			s.ref(m.Value)
		}
		if schemaMaps[m.Key] && m.Value.Kind == Object {
			// The object only maps names to schemas: it does not count as a level.
			for _, inner := range m.Value.Members {
				s.measure(inner.Value, depth)
			}
			continue
		}
		s.measure(m.Value, depth)
	}
}

// schemaMaps are the keywords whose values map names to schemas.
var schemaMaps = map[string]bool{"properties": true, "patternProperties": true, "definitions": true, "$defs": true}

// ref counts a reference and rejects one that leaves the document.
func (s *schemaSize) ref(v *Value) {
	s.refs++
	scheme, _, ok := strings.Cut(v.Text, ":")
	if ok && !strings.ContainsAny(scheme, "/#?") && !strings.HasPrefix(v.Text, "http://json-schema.org/") &&
		!strings.HasPrefix(v.Text, "https://json-schema.org/") {
		s.add(v.Pos, "copy the referenced schema into definitions and refer to #/definitions/...", "the reference %s points outside the document", Quote(v.Text))
	}
}

// schemaProblems converts the compiler's errors to problems with positions.
func schemaProblems(v *Value, err error) []SchemaProblem {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		text := schema.Reason(err)
		return []SchemaProblem{{Pos: refPos(v, text), Text: text, Help: "fix the schema"}}
	}
	var out []SchemaProblem
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		for _, cause := range relevantCauses(v, e) {
			walk(cause)
		}
		if len(e.Causes) > 0 {
			return
		}
		at := v.pointer(e.InstanceLocation)
		text, help := explainPattern(e.Message)
		out = append(out, SchemaProblem{Pos: at.Pos, Help: help, Text: fmt.Sprintf("%s: %s", schemaPath(e.InstanceLocation), text)})
	}
	walk(invalid)
	// The library reports in map order.
	slices.SortFunc(out, func(a, b SchemaProblem) int { return cmp.Or(a.Pos.Compare(b.Pos), cmp.Compare(a.Text, b.Text)) })
	return slices.Compact(out)
}

// relevantCauses returns the causes of an error. Of a failed anyOf, such as that of items (a schema or an array of schemas),
// it returns only the alternatives that accept the value's type, or the first if none does.
func relevantCauses(v *Value, e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if e.Message != "anyOf failed" {
		return e.Causes
	}
	var accepts func(cause *jsonschema.ValidationError) bool
	accepts = func(cause *jsonschema.ValidationError) bool {
		if cause.InstanceLocation != e.InstanceLocation {
			return true
		}
		switch path.Base(cause.KeywordLocation) {
		case "type":
			return false
		case "enum": // all enumerations are of strings
			return v.pointer(e.InstanceLocation).Kind == String
		}
		return !slices.ContainsFunc(cause.Causes, func(c *jsonschema.ValidationError) bool { return !accepts(c) })
	}
	out := slices.DeleteFunc(slices.Clone(e.Causes), func(cause *jsonschema.ValidationError) bool { return !accepts(cause) })
	if len(out) == 0 {
		out = e.Causes[:1]
	}
	return out
}

// explainPattern explains why a pattern is invalid if the message is about one; else it returns the message.
func explainPattern(message string) (text, help string) {
	quoted, ok := strings.CutSuffix(message, " is not valid 'regex'")
	if !ok {
		return message, "fix the schema"
	}
	why := "it cannot be parsed"
	if pattern, err := strconv.Unquote(`"` + strings.NewReplacer(`"`, `\"`, `\'`, `'`).Replace(strings.TrimSuffix(strings.TrimPrefix(quoted, "'"), "'")) + `"`); err == nil {
		if _, err = regexp.Compile(pattern); err != nil {
			why = strings.TrimPrefix(err.Error(), "error parsing regexp: ")
		}
	}
	return fmt.Sprintf("the pattern %s: %s", quoted, why),
		`use RE2 syntax, which has no lookaround, no backreferences, no \Z (use \z) and no counts above 1000`
}

// refPos returns the position of the reference that a message names, or else of the schema.
func refPos(v *Value, text string) Pos {
	best := v.Pos
	for m := range v.All() {
		if (m.Key == "$ref" || m.Key == "$schema" || m.Key == "$id") && m.Value.Kind == String &&
			m.Value.Text != "" && strings.Contains(text, m.Value.Text) {
			best = m.Value.Pos
		}
	}
	return best
}

// pointer returns the value at a JSON pointer, or the closest existing parent of it.
func (v *Value) pointer(p string) *Value {
	for _, part := range schema.Pointer(p) {
		next := v.Get(part)
		if i, err := strconv.Atoi(part); v.Kind == Array && err == nil && i >= 0 && i < len(v.Items) {
			next = v.Items[i]
		}
		if next == nil {
			return v
		}
		v = next
	}
	return v
}

func schemaPath(pointer string) string {
	if pointer == "" {
		return "the schema"
	}
	return Quote(strings.Join(schema.Pointer(pointer), "."))
}
