package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"weft/activities/contract"
	"weft/activities/schema"
	"weft/activities/textutil"
	"weft/workflows/plan"
)

// Function is a Go function as a tool, made by [Func]. Flows bind it by its name, or at a connection of
// transport local.
type Function struct {
	spec    contract.ToolSpec
	schema  *jsonschema.Schema // of the arguments
	timeout time.Duration
	never   bool
	pure    bool
	// invoke decodes the arguments, calls the function and encodes its result. A failed one is about the arguments.
	invoke func(ctx context.Context, args json.RawMessage) (Result, error)
	// problems are what is wrong with the function itself, for Open.
	problems problems
}

// Name is the name that flows bind.
func (f Function) Name() string { return f.spec.Name }

// FunctionOption changes how a [Function] is offered or called.
type FunctionOption func(*Function)

// RetryNever prevents a call whose outcome is unknown from being repeated; the model is informed.
func RetryNever() FunctionOption { return func(f *Function) { f.never = true } }

// Pure declares that the function has no side effects, makes no requests and takes milliseconds: its calls are made in the
// run's workflow task if possible, instead of as activities. A call may be repeated, regardless of its outcome.
func Pure() FunctionOption { return func(f *Function) { f.pure = true } }

// Timeout limits one attempt of a call, which is retried after it. The limit of the flow's policy also applies.
func Timeout(d time.Duration) FunctionOption {
	return func(f *Function) {
		f.problems.addIf(d <= 0, "its timeout is %v, want more than 0", d)
		f.timeout = d
	}
}

// Schema replaces the derived JSON Schema of the arguments. Its root must be of type object.
func Schema(text string) FunctionOption {
	return func(f *Function) { f.spec.Schema = json.RawMessage(text) }
}

// Func makes a tool of a function. The JSON Schema of the arguments is derived from In, a struct or a map with
// string keys: fields are required unless tagged omitempty or omitzero, and the tag jsonschema describes a
// field.
//
// Invalid arguments, unknown fields included, never reach the function; the model is told. A string result is
// returned unchanged, others as JSON. The message of an error is returned to the model, unless it is or wraps a
// [*contract.Failure], which has its own class: unavailable, timeout and rate_limited are retried. A panic is an
// error; its stack is logged.
//
// The function may be called concurrently. Its ctx has the attempt's deadline, is cancelled when the run is cancelled
// or the worker stops, and carries the call's [IdempotencyKey]. The worker does not wait for a call whose ctx is done.
//
// [Open] reports errors in functions.
func Func[In, Out any](name, description string, fn func(ctx context.Context, in In) (Out, error), options ...FunctionOption) Function {
	f := Function{spec: contract.ToolSpec{Name: name, Description: description}}
	for _, o := range options {
		o(&f)
	}
	f.problems.addIf(strings.TrimSpace(name) == "", "it has no name")
	f.problems.addIf(slices.Contains(plan.Builtins, name), "the name is that of a system tool, which every node has; choose another")
	f.problems.addIf(f.pure && f.never, "it has tool.Pure, whose calls may be repeated, and tool.RetryNever; leave one of them out")
	f.problems.addIf(fn == nil, "it is nil")
	err := f.compileSchema(schema.Derive[In])
	f.problems.addIf(err != nil, "%v", err)
	f.invoke = func(ctx context.Context, args json.RawMessage) (Result, error) {
		var in In
		d := json.NewDecoder(bytes.NewReader(args))
		d.DisallowUnknownFields()
		if err := d.Decode(&in); err != nil {
			return Result{Text: "arguments: " + strings.TrimPrefix(err.Error(), "json: "), Failed: true}, nil
		}
		out, err := fn(ctx, in)
		if err != nil {
			return Result{}, err
		}
		text, err := encodeResult(out)
		return Result{Text: text}, err
	}
	return f
}

// compileSchema makes the schema ready, that of the option Schema or else the derived one.
func (f *Function) compileSchema(derive func() (json.RawMessage, error)) error {
	var out bytes.Buffer
	if f.spec.Schema == nil {
		raw, err := derive()
		if err != nil {
			return fmt.Errorf("its arguments have no JSON Schema: %w; change their type, or give it with tool.Schema", err)
		}
		f.spec.Schema = raw
	}
	if err := json.Compact(&out, f.spec.Schema); err != nil {
		return fmt.Errorf("its schema is not JSON: %w", err)
	}
	f.spec.Schema = out.Bytes()
	var root struct{ Type any }
	if err := json.Unmarshal(f.spec.Schema, &root); err != nil || root.Type != "object" {
		return fmt.Errorf("its schema is %s, want one with type object at its root", short(out.String()))
	}
	var err error
	if f.schema, err = schema.Compile(f.spec.Schema, jsonschema.Draft2020, nil); err != nil {
		return fmt.Errorf("its schema cannot be used: %w", err)
	}
	return nil
}

// maxArgumentDepth bounds what is validated: the validator's cost grows with depth.
const maxArgumentDepth = 64

// validate says what of the arguments does not fit the schema, in words for the model.
func (f *Function) validate(args json.RawMessage) (problem string) {
	if d := plan.Depth(args); d > maxArgumentDepth {
		return fmt.Sprintf("arguments: they nest %d deep, at most %d are allowed", d, maxArgumentDepth)
	}
	value, ok := textutil.DecodeExact(args)
	if !ok {
		return "arguments: they are not JSON"
	}
	err := f.schema.Validate(value)
	if err == nil {
		return ""
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return fmt.Sprintf("arguments: they cannot be checked: %v", err)
	}
	var all []string
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		for _, c := range e.Causes {
			walk(c)
		}
		if len(e.Causes) == 0 {
			all = append(all, fmt.Sprintf("%s: %s", strings.ReplaceAll("$"+e.InstanceLocation, "/", "."), e.Message))
		}
	}
	walk(invalid)
	slices.Sort(all)
	return "arguments: " + strings.Join(slices.Compact(all), "; ")
}

func encodeResult(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case json.RawMessage:
		if len(v) == 0 {
			return "null", nil
		}
		if !json.Valid(v) {
			return "", fmt.Errorf("the result is not JSON: %s", short(string(v)))
		}
		return textutil.Compact(v), nil
	}
	raw, err := textutil.JSON(v)
	if err != nil {
		return "", fmt.Errorf("the result cannot be written as JSON: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return string(raw), nil
}

type idempotencyKeyType struct{}

// IdempotencyKey returns the idempotency key of the call to which a [Function]'s ctx belongs. It is the same for all attempts of
// the call, and empty outside a call.
func IdempotencyKey(ctx context.Context) string {
	key, _ := ctx.Value(idempotencyKeyType{}).(string)
	return key
}
