// Package schema validates values against JSON Schemas that authors supply, with the messages of
// Python's validator, which the blueprint dialect's framework uses.
//
// Schemas and values are untrusted: size, depth, steps and time are bounded, and nothing
// outside the schema is ever loaded. The package depends on no dialect, on Temporal or on the disk.
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

// Bounds on what is checked: the validator's cost grows steeply with depth.
const (
	// MaxDepth is how deep a schema and a value of it may nest. What is checked may nest one deeper: the arguments of a finish
	// tool are an object around the value.
	MaxDepth   = 64
	MaxChecked = MaxDepth + 1
	// MaxBytes is the most that a schema may have.
	MaxBytes = 256 << 10
	// MaxErrors bounds what is reported: the first ones are fixed first.
	MaxErrors = 100
	// Time is how long a check may take. It is far more than an honest schema needs, for a
	// right value must not be refused because the machine has much else to do.
	Time = 10 * time.Second
	// maxFrames bounds how deep the validator can recurse: one frame of some 6 KiB for
	// each schema and level of the value. A goroutine whose stack goes beyond 512 MiB
	// ends the whole process, and nothing can recover it.
	maxFrames = 32 << 10
	// maxVisits bounds how many schemas are tried altogether.
	maxVisits = 500_000
)

// Error says what is wrong at one place of a value.
type Error struct {
	// Path is like $.items.0.title; $ is the whole value.
	Path    string `json:"path"`
	Message string `json:"message"`
	// SchemaPath is the rule's place, like properties/items/items/required.
	SchemaPath string `json:"schema_path"`
}

// Options say how to check. The zero value checks no formats and takes [Time] at most.
type Options struct {
	// Formats makes "format" a rule; Python's validator takes it as a remark.
	Formats bool
	// Documented names places as the dialect's documentation does: $.items[0].title and
	// items.items.required, and the path of a property that is missing ends in its name.
	Documented bool
	// Limit is how long it may take; 0 is [Time].
	Limit time.Duration
}

// Check validates a value against a schema, draft 7 unless it says otherwise. Errors are in
// the order in which the schema's rules are written. What cannot be checked is an error at $.
// The second result is ctx's error: what was cut short says nothing about the value.
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
		return wrong("the schema could not be checked within %s; make it simpler", o.Limit), ctx.Err()
	}
}

func wrong(format string, args ...any) []Error {
	return []Error{{Path: "$", Message: fmt.Sprintf(format, args...)}}
}

// Usable says why values cannot be checked against a schema at all; nil if they can.
func Usable(schema json.RawMessage) error {
	_, _, err := prepare(schema, true, &budget{ctx: context.Background(), left: maxVisits})
	return err
}

func prepare(schema json.RawMessage, formats bool, b *budget) (rules *pytext.Value, compiled *jsonschema.Schema, err error) {
	if len(schema) > MaxBytes {
		return nil, nil, fmt.Errorf("it has %d bytes, at most %d are used", len(schema), MaxBytes)
	}
	if rules, err = pytext.Parse(schema); err != nil {
		return nil, nil, err
	}
	if literal := strange(rules); literal != "" {
		return nil, nil, fmt.Errorf("the number %s is out of range", textutil.Cut(literal, maxShown))
	}
	// The author's own text reports whether it is a schema; what checks values is rewritten.
	extensions := map[string]jsonschema.ExtCompiler{"budget": b, "type": typeRule{}}
	if _, err = Compile(schema, jsonschema.Draft7, extensions); err != nil {
		return nil, nil, err
	}
	compiled, err = Compile([]byte(rewritten(rules, formats, false).JSON()), jsonschema.Draft7, extensions)
	return rules, compiled, err
}

// validate checks until ctx ends.
func validate(ctx context.Context, schema, raw json.RawMessage, o Options) (out []Error) {
	defer func() {
		if r := recover(); r != nil {
			out = wrong("the schema cannot be used: %v", r)
		}
	}()
	depth := plan.Depth(raw)
	if depth > MaxChecked {
		return wrong("the value nests %d deep, at most %d are checked", depth, MaxChecked)
	}
	if n := bytes.Count(schema, []byte("{")); len(schema) <= MaxBytes && n*(depth+1) > maxFrames {
		return wrong("a schema of %d parts and a value that nests %d deep are too much to check; make either flatter", n, depth)
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
	instance, _ := textutil.DecodeExact(raw) // it was parsed
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

// documentURL is where a schema is while it is compiled. Nothing is read from there.
const documentURL = "mem:///schema.json"

// Compile compiles a schema, of a draft unless it says otherwise by $schema. References out of the
// schema are refused and never followed. Extensions are rules that every schema in it has, by their
// names. What the library cannot handle is an error, too.
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

// compiler is one that has a schema under documentURL.
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

// Reason returns why a schema could not be compiled, without the library's prefixes and the name that
// the schema was compiled under.
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

// Countable reports whether a JSON number is within the range that is computed with: a whole
// one of at most 400 digits, or what a double holds.
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

// maxShown is how many bytes of a value a message repeats.
const maxShown = 500
