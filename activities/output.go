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
	validateTime     = 10 * time.Second
)

// check extracts JSON from an answer and validates it. An empty schema takes any JSON.
func check(ctx context.Context, schema json.RawMessage, text string) *contract.Checked {
	raw := extract(text)
	if raw == nil {
		return wrong("$", "No JSON output found but output_schema requires structured output")
	}
	if d := depth(raw); d > maxInstanceDepth {
		return wrong("$", fmt.Sprintf("the answer nests %d deep, at most %d are checked", d, maxInstanceDepth))
	}
	if len(schema) == 0 || string(bytes.TrimSpace(schema)) == "{}" {
		return &contract.Checked{Data: raw}
	}
	done := make(chan *contract.Checked, 1)
	go func() { done <- validate(schema, raw) }()
	select {
	case c := <-done:
		return c
	case <-time.After(validateTime):
		return wrong("$", fmt.Sprintf("the schema could not be checked within %s; make it simpler", validateTime))
	case <-ctx.Done():
		return wrong("$", "cancelled")
	}
}

func wrong(path, message string) *contract.Checked {
	return &contract.Checked{Errors: []contract.FieldError{{Path: path, Message: message}}}
}

// A fenced block, as the blueprint dialect's framework finds it.
var fence = regexp.MustCompile("(?s)```(?:json)?\\s*\\n?(.*?)\\n?```")

// extract finds JSON in an answer: the whole of a fenced block, tried in order, else from
// the first brace to the last, else the whole text. It returns nil where there is none;
// null counts as none.
func extract(text string) json.RawMessage {
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

// depth is how deep a JSON value nests.
func depth(raw []byte) int {
	most, now, quoted := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			now++
			most = max(most, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return most
}

// validate checks a value against a schema. Nothing outside the schema is ever loaded.
func validate(schema, raw json.RawMessage) (out *contract.Checked) {
	defer func() {
		if r := recover(); r != nil {
			out = wrong("$", fmt.Sprintf("the schema cannot be used: %v", r))
		}
	}()
	if len(schema) > maxSchemaBytes {
		return wrong("$", fmt.Sprintf("the schema is %d bytes, at most %d are used", len(schema), maxSchemaBytes))
	}
	compiled, err := compile(schema)
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

func compile(schema json.RawMessage) (*jsonschema.Schema, error) {
	const name = "mem:///schema.json"
	c := jsonschema.NewCompiler()
	c.Draft, c.AssertFormat = jsonschema.Draft7, true
	c.LoadURL = func(u string) (io.ReadCloser, error) {
		return nil, fmt.Errorf("the reference %q leaves the document", u)
	}
	if err := c.AddResource(name, bytes.NewReader(schema)); err != nil {
		return nil, err
	}
	return c.Compile(name)
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
			out = append(out, phrase(e, at(value, e.InstanceLocation), at(schema, e.KeywordLocation))...)
		}
	}
	walk(e)
	slices.SortStableFunc(out, func(a, b contract.FieldError) int {
		return strings.Compare(a.Path+"\x00"+a.SchemaPath+"\x00"+a.Message, b.Path+"\x00"+b.SchemaPath+"\x00"+b.Message)
	})
	return slices.Compact(out)
}
