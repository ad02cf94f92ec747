package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"weft/activities/contract"
)

// Bounds on what is validated: a schema and an answer are untrusted, and the validator's
// cost grows steeply with depth.
const (
	maxInstanceDepth = 64
	maxSchemaBytes   = 256 << 10
	validateTime     = 3 * time.Second
	// maxFrames bounds how deep the validator can recurse: one frame of some 6 KiB for
	// each schema and level of the answer. A goroutine whose stack goes beyond 512 MiB
	// ends the whole process, and nothing can recover it.
	maxFrames = 32 << 10
	// maxVisits bounds how many schemas are tried altogether.
	maxVisits = 500_000
	// maxFieldErrors bounds what is reported: a model mends the first ones first.
	maxFieldErrors = 100
)

// check extracts JSON from an answer and validates it. An empty schema takes any JSON. Its
// error is ctx's: what was cut short says nothing about the answer.
func check(ctx context.Context, schema json.RawMessage, text string) (*contract.Checked, error) {
	return checkWithin(ctx, validateTime, schema, text)
}

func checkWithin(ctx context.Context, limit time.Duration, schema json.RawMessage, text string) (*contract.Checked, error) {
	raw := extract(text)
	if raw == nil {
		return wrong("$", "No JSON output found but output_schema requires structured output"), nil
	}
	if d := contract.Depth(raw); d > maxInstanceDepth {
		return wrong("$", fmt.Sprintf("the answer nests %d deep, at most %d are checked", d, maxInstanceDepth)), nil
	}
	if len(schema) == 0 || string(bytes.TrimSpace(schema)) == "{}" {
		return &contract.Checked{Data: raw}, nil
	}
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan *contract.Checked, 1)
	go func() { done <- validate(within, schema, raw) }()
	select {
	case c := <-done:
		return c, ctx.Err()
	case <-within.Done():
		return wrong("$", fmt.Sprintf("the schema could not be checked within %s; make it simpler", limit)), ctx.Err()
	}
}

func wrong(path, message string) *contract.Checked {
	return &contract.Checked{Errors: []contract.FieldError{{Path: path, Message: message}}}
}

// A fenced block, as the blueprint dialect's framework finds it.
var fence = regexp.MustCompile("(?s)```(?:json)?\\s*\\n?(.*?)\\n?```")

// extract finds JSON in an answer: an answer that is an object and nothing else; the whole
// of a fenced block, tried in order; else from the first brace to the last, else the whole
// text. It returns nil where there is none; null counts as none.
func extract(text string) json.RawMessage {
	// An object first: a string in it may quote a fenced block.
	if raw := parse(text); raw != nil && raw[0] == '{' {
		return raw
	}
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		if raw := parse(m[1]); raw != nil {
			return raw
		}
	}
	from, to := strings.Index(text, "{"), strings.LastIndex(text, "}")
	if from >= 0 && to > from {
		if raw := parse(text[from : to+1]); raw != nil {
			return raw
		}
	}
	return parse(text)
}

// whole reads a text that is JSON and nothing else, or one fenced block; nil where more is
// said.
func whole(text string) json.RawMessage {
	text = strings.TrimSpace(text)
	if m := fence.FindStringSubmatchIndex(text); m != nil && m[0] == 0 && m[1] == len(text) {
		text = text[m[2]:m[3]]
	}
	return parse(text)
}

// parse reads text as one JSON value and returns it compacted.
func parse(text string) json.RawMessage {
	text = strings.TrimSpace(strings.TrimPrefix(text, "\ufeff"))
	if text == "" || text == "null" || !utf8.ValidString(text) || !json.Valid([]byte(text)) {
		return nil
	}
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) != nil {
		return nil
	}
	return b.Bytes()
}

// validate checks a value against a schema, until ctx ends. Nothing outside the schema is
// ever loaded.
func validate(ctx context.Context, schema, raw json.RawMessage) (out *contract.Checked) {
	defer func() {
		if r := recover(); r != nil {
			out = wrong("$", fmt.Sprintf("the schema cannot be used: %v", r))
		}
	}()
	if len(schema) > maxSchemaBytes {
		return wrong("$", fmt.Sprintf("the schema is %d bytes, at most %d are used", len(schema), maxSchemaBytes))
	}
	if n, d := bytes.Count(schema, []byte("{")), contract.Depth(raw)+1; n*d > maxFrames {
		return wrong("$", fmt.Sprintf("a schema of %d parts and an answer that nests %d deep are too much to check; make either flatter", n, d-1))
	}
	compiled, err := compile(schema, &budget{ctx: ctx, left: maxVisits})
	if err != nil {
		return wrong("$", "the schema cannot be used: "+err.Error())
	}
	value, err := decode(raw)
	if err != nil {
		return wrong("$", err.Error())
	}
	err = compiled.Validate(value)
	var invalid *jsonschema.ValidationError
	switch {
	case err == nil:
		return &contract.Checked{Data: raw}
	case errors.As(err, &invalid):
		rules, decodeErr := decode(schema)
		if decodeErr != nil {
			return wrong("$", decodeErr.Error())
		}
		return &contract.Checked{Errors: fieldErrors(invalid, value, rules)}
	}
	return wrong("$", err.Error())
}

// budget ends a validation that takes too much: the validator itself never looks at the
// clock, and its goroutine would go on for years. It is part of every schema, as an
// extension that takes any value.
type budget struct {
	ctx  context.Context
	left int
}

// Compile makes the budget part of a schema.
func (b *budget) Compile(jsonschema.CompilerContext, map[string]any) (jsonschema.ExtSchema, error) {
	return b, nil
}

// Validate counts one try of one schema. It panics when the budget is spent, which ends the
// validation; validate recovers it.
func (b *budget) Validate(jsonschema.ValidationContext, any) error {
	if b.left--; b.left < 0 {
		panic(fmt.Sprintf("it takes more than %d steps to check this answer; make it simpler", maxVisits))
	}
	if b.left%64 == 0 && b.ctx.Err() != nil {
		panic("it takes too long to check this answer; make it simpler")
	}
	return nil
}

// schemaURL is where a schema is while it is compiled. Nothing is read from there.
const schemaURL = "mem:///schema.json"

func compile(schema json.RawMessage, b *budget) (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.Draft, c.AssertFormat = jsonschema.Draft7, true
	c.RegisterExtension("budget", nil, b)
	c.LoadURL = func(u string) (io.ReadCloser, error) {
		return nil, fmt.Errorf("the reference %q leaves the document", u)
	}
	if err := c.AddResource(schemaURL, bytes.NewReader(schema)); err != nil {
		return nil, err
	}
	return c.Compile(schemaURL)
}

func decode(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

// fieldErrors lists the leaves of a validation error, sorted: the library's order is
// random.
func fieldErrors(e *jsonschema.ValidationError, value, schema any) []contract.FieldError {
	var out []contract.FieldError
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		for _, c := range e.Causes {
			walk(c)
		}
		if len(e.Causes) == 0 {
			// The absolute location, because the other leads through references.
			rule := strings.TrimPrefix(e.AbsoluteKeywordLocation, schemaURL+"#")
			out = append(out, phrase(e, at(value, e.InstanceLocation), at(schema, rule))...)
		}
	}
	walk(e)
	slices.SortStableFunc(out, func(a, b contract.FieldError) int {
		return strings.Compare(a.Path+"\x00"+a.SchemaPath+"\x00"+a.Message, b.Path+"\x00"+b.SchemaPath+"\x00"+b.Message)
	})
	out = slices.Compact(out)
	if more := len(out) - maxFieldErrors; more > 0 {
		out = append(out[:maxFieldErrors:maxFieldErrors], contract.FieldError{Path: "$", Message: fmt.Sprintf("and %d more errors", more)})
	}
	return out
}
