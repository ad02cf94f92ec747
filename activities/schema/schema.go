// Package schema validates values against JSON Schemas that authors supply, with the messages of
// Python's validator, which the blueprint dialect's framework uses.
//
// Schemas and values are untrusted: size, depth, steps and time are bounded, and nothing
// outside the schema is ever loaded.
//
// Start at [Check].
package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"weft/activities/textutil"
	"weft/workflows/plan"
	"weft/workflows/plan/pytext"
)

// Bounds of a validation, whose cost grows steeply with depth.
const (
	// MaxDepth is the maximum nesting of a schema and its values, MaxChecked that of a value that is validated: the arguments
	// of a finish tool are an object around the value.
	MaxDepth   = 64
	MaxChecked = MaxDepth + 1
	// MaxBytes is the maximum size of a schema.
	MaxBytes = 256 << 10
	// MaxErrors bounds the number of errors that are reported.
	MaxErrors = 100
	// Time is the default timeout. It is far more than a reasonable schema needs, so that a
	// valid value is not rejected on a busy machine.
	Time = 10 * time.Second
	// maxFrames bounds the recursion of the validator: one frame of about 6 KiB for
	// each schema and level of the value. A goroutine whose stack exceeds 512 MiB
	// crashes the process, which cannot be recovered.
	maxFrames = 32 << 10
	// maxVisits bounds the number of validations against single schemas.
	maxVisits = 500_000
)

// Error is a problem at one place of a value.
type Error struct {
	// Path is like $.items.0.title; $ is the value itself.
	Path    string `json:"path"`
	Message string `json:"message"`
	// SchemaPath is the path of the rule, like properties/items/items/required.
	SchemaPath string `json:"schema_path"`
}

// Options are the options of [Check]. The zero value ignores formats and has the timeout [Time].
type Options struct {
	// Formats validates "format", which Python's validator ignores by default.
	Formats bool
	// Documented formats paths as the dialect's documentation does: $.items[0].title and
	// items.items.required, and the path of a missing property ends in its name.
	Documented bool
	// Limit is the timeout; 0 means [Time].
	Limit time.Duration
}

// Check validates a value against a schema, by default of draft 7. The problems are in the order
// of the rules in the schema. If the validation is impossible, the problem is at $.
// The error is ctx's; the problems are then meaningless.
func Check(ctx context.Context, schema, value json.RawMessage, o Options) ([]Error, error) {
	if o.Limit == 0 {
		o.Limit = Time
	}
	within, cancel := context.WithTimeout(ctx, o.Limit)
	defer cancel()
	done := make(chan []Error, 1)
	go func() { done <- validate(within, schema, value, o) }()
	select {
	case errs := <-done:
		return errs, ctx.Err()
	case <-within.Done():
		return wrong("the validation took more than %s; simplify the schema", o.Limit), ctx.Err()
	}
}

func wrong(format string, args ...any) []Error {
	return []Error{{Path: "$", Message: fmt.Sprintf(format, args...)}}
}

// Usable returns an error if values cannot be validated against a schema.
func Usable(schema json.RawMessage) error {
	_, _, err := prepare(schema, true, &budget{ctx: context.Background(), left: maxVisits})
	return err
}

func prepare(schema json.RawMessage, formats bool, b *budget) (rules *pytext.Value, compiled *jsonschema.Schema, err error) {
	if len(schema) > MaxBytes {
		return nil, nil, fmt.Errorf("it has %d bytes, at most %d are allowed", len(schema), MaxBytes)
	}
	if rules, err = pytext.Parse(schema); err != nil {
		return nil, nil, err
	}
	if literal := strange(rules); literal != "" {
		return nil, nil, fmt.Errorf("the number %s is out of range", textutil.Cut(literal, maxShown))
	}
	// The original must be a valid schema; the rewritten one validates values.
	extensions := map[string]jsonschema.ExtCompiler{"budget": b, "type": typeRule{}}
	if _, err = Compile(schema, jsonschema.Draft7, extensions); err != nil {
		return nil, nil, err
	}
	compiled, err = Compile([]byte(rewritten(rules, formats, false).JSON()), jsonschema.Draft7, extensions)
	return rules, compiled, err
}

// validate validates until ctx is done.
func validate(ctx context.Context, schema, raw json.RawMessage, o Options) (out []Error) {
	defer func() {
		if r := recover(); r != nil {
			out = wrong("the schema cannot be used: %v", r)
		}
	}()
	depth := plan.Depth(raw)
	if depth > MaxChecked {
		return wrong("the value nests %d levels deep, at most %d are allowed", depth, MaxChecked)
	}
	if n := bytes.Count(schema, []byte("{")); len(schema) <= MaxBytes && n*(depth+1) > maxFrames {
		return wrong("a schema of %d objects and a value that nests %d levels deep are too complex; flatten either", n, depth)
	}
	rules, compiled, err := prepare(schema, o.Formats, &budget{ctx: ctx, left: maxVisits})
	if err != nil {
		return wrong("the schema cannot be used: %v", err)
	}
	value, err := pytext.Parse(raw)
	if err != nil {
		return wrong("%v", err)
	}
	if literal := strange(value); literal != "" {
		return wrong("the number %s is out of range", textutil.Cut(literal, maxShown))
	}
	instance, _ := textutil.DecodeExact(raw) // it has been parsed before
	err = compiled.Validate(instance)
	var invalid *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &invalid):
		return (&phraser{ctx: ctx, index: index{}, rules: rules, value: value, documented: o.Documented}).all(invalid)
	}
	return wrong("%v", err)
}

// documentURL is the URL under which a schema is compiled. It is never fetched.
const documentURL = "mem:///schema.json"

// Compile compiles a schema, of the given draft unless $schema names another. References to other
// documents are rejected. Extensions are rules, by name, that apply to every schema in it. A panic
// of the library is returned as an error.
func Compile(schema []byte, draft *jsonschema.Draft, extensions map[string]jsonschema.ExtCompiler) (compiled *jsonschema.Schema, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the schema cannot be compiled: %v", r)
		}
	}()
	c, err := compiler(schema, draft, extensions)
	if err != nil {
		return nil, err
	}
	return c.Compile(documentURL)
}

// compiler returns a compiler that has the schema under documentURL.
func compiler(schema []byte, draft *jsonschema.Draft, extensions map[string]jsonschema.ExtCompiler) (*jsonschema.Compiler, error) {
	c := jsonschema.NewCompiler()
	c.Draft, c.AssertFormat = draft, true
	for name, e := range extensions {
		c.RegisterExtension(name, nil, e)
	}
	c.LoadURL = func(u string) (io.ReadCloser, error) {
		return nil, fmt.Errorf("the reference %q points outside the document", u)
	}
	return c, c.AddResource(documentURL, bytes.NewReader(schema))
}

// Reason returns the text of a compile error without the library's prefixes and documentURL.
func Reason(err error) string {
	if wrapped, ok := errors.AsType[*jsonschema.SchemaError](err); ok && wrapped.Err != nil {
		err = wrapped.Err
	}
	return strings.TrimSuffix(strings.ReplaceAll(strings.TrimPrefix(err.Error(), "jsonschema: "), documentURL, ""), " in ")
}

// strange returns a number that exact arithmetic would expand to gigabytes, such as 1e999999999, or "".
func strange(v *pytext.Value) string {
	if v.Kind == pytext.Number && !Countable(v.Text) {
		return v.Text
	}
	for _, item := range v.Items {
		if s := strange(item); s != "" {
			return s
		}
	}
	for _, m := range v.Members {
		if s := strange(m.Value); s != "" {
			return s
		}
	}
	return ""
}

// Countable reports whether a JSON number is in the supported range: an integer of at most 400
// digits, or a double.
func Countable(literal string) bool {
	if len(literal) > 400 {
		return false
	}
	if i := strings.IndexAny(literal, "eE"); i >= 0 {
		if exp, err := strconv.Atoi(literal[i+1:]); err != nil || exp < -400 || exp > 400 {
			return false
		}
	}
	if !strings.ContainsAny(literal, ".eE") {
		return true
	}
	_, err := strconv.ParseFloat(literal, 64)
	return err == nil
}

// maxShown bounds the part of a value in a message, in bytes.
const maxShown = 500
