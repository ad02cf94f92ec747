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

// Function is a tool implemented by a Go function, see [Func]. Flows bind it by name or through a connection with transport local.
type Function struct {
	spec    contract.ToolSpec
	schema  *jsonschema.Schema // schema of the arguments
	timeout time.Duration
	noRetry bool
	pure    bool
	// invoke decodes the arguments, calls the function and encodes its result, which has Failed set if the arguments are invalid.
	invoke func(ctx context.Context, args json.RawMessage) (Result, error)
	// problems are the problems of the definition, which Open reports.
	problems problems
}

// Name returns the name that flows bind.
func (f Function) Name() string { return f.spec.Name }

// FunctionOption is an option of [Func].
type FunctionOption func(*Function)

// RetryNever prevents a call whose outcome is unknown from being repeated; the model is informed.
func RetryNever() FunctionOption { return func(f *Function) { f.noRetry = true } }

// Pure declares that the function has no side effects, makes no requests and takes milliseconds. If possible, it is called in
// the run's workflow task instead of as an activity. A call may be repeated, regardless of its outcome.
func Pure() FunctionOption { return func(f *Function) { f.pure = true } }

// Timeout limits one attempt of a call. An attempt that times out is retried. The limit of the flow's policy also applies.
func Timeout(d time.Duration) FunctionOption {
	return func(f *Function) {
		f.problems.addIf(d <= 0, "its timeout is %v; it must be more than 0", d)
		f.timeout = d
	}
}

// Schema replaces the derived JSON Schema of the arguments. Its root must be of type object.
func Schema(text string) FunctionOption {
	return func(f *Function) { f.spec.Schema = json.RawMessage(text) }
}

// Func returns a tool that calls fn. The JSON Schema of the arguments is derived from In, a struct or a map with string keys:
// fields are required unless tagged omitempty or omitzero, and the tag jsonschema describes a field.
//
// Invalid arguments, including unknown fields, are reported to the model without calling fn. A string result is returned unchanged,
// other results as JSON. The message of an error is returned to the model, unless it is or wraps a [*contract.Failure], which has
// its own class: unavailable, timeout and rate_limited are retried. A panic is an error; its stack is logged.
//
// fn may be called concurrently. Its ctx has the attempt's deadline, is cancelled when the run is cancelled
// or the worker stops, and carries the call's [IdempotencyKey]. The worker does not wait for a call whose ctx is done.
//
// [Open] reports errors of the definition.
func Func[In, Out any](name, description string, fn func(ctx context.Context, in In) (Out, error), options ...FunctionOption) Function {
	f := Function{spec: contract.ToolSpec{Name: name, Description: description}}
	for _, o := range options {
		o(&f)
	}
	f.problems.addIf(strings.TrimSpace(name) == "", "it has no name")
	f.problems.addIf(slices.Contains(plan.Builtins, name), "the name is reserved for a system tool; choose another")
	f.problems.addIf(f.pure && f.noRetry, "tool.Pure, whose calls may be repeated, and tool.RetryNever are mutually exclusive; remove one of them")
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

// compileSchema compiles the schema set by the option Schema or, if there is none, the derived schema.
func (f *Function) compileSchema(derive func() (json.RawMessage, error)) error {
	var out bytes.Buffer
	if f.spec.Schema == nil {
		raw, err := derive()
		if err != nil {
			return fmt.Errorf("its arguments have no JSON Schema: %w; change their type, or set the schema with tool.Schema", err)
		}
		f.spec.Schema = raw
	}
	if err := json.Compact(&out, f.spec.Schema); err != nil {
		return fmt.Errorf("its schema is not JSON: %w", err)
	}
	f.spec.Schema = out.Bytes()
	var root struct{ Type any }
	if err := json.Unmarshal(f.spec.Schema, &root); err != nil || root.Type != "object" {
		return fmt.Errorf("its schema must have type object at its root, got %s", short(out.String()))
	}
	var err error
	if f.schema, err = schema.Compile(f.spec.Schema, jsonschema.Draft2020, nil); err != nil {
		return fmt.Errorf("its schema is invalid: %w", err)
	}
	return nil
}

// maxArgumentDepth limits the nesting of arguments, because the cost of validation grows with it.
const maxArgumentDepth = 64

// validate validates arguments against the schema. It returns a message for the model, or "" for valid arguments.
func (f *Function) validate(args json.RawMessage) (problem string) {
	if d := plan.Depth(args); d > maxArgumentDepth {
		return fmt.Sprintf("arguments: nested %d levels deep, at most %d are allowed", d, maxArgumentDepth)
	}
	value, ok := textutil.DecodeExact(args)
	if !ok {
		return "arguments: not valid JSON"
	}
	err := f.schema.Validate(value)
	if err == nil {
		return ""
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return fmt.Sprintf("arguments: validation failed: %v", err)
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
		return "", fmt.Errorf("the result cannot be encoded as JSON: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return string(raw), nil
}

type idempotencyKeyType struct{}

// IdempotencyKey returns the idempotency key of the call of a [Function], which is the same for all attempts; empty outside a call.
func IdempotencyKey(ctx context.Context) string {
	key, _ := ctx.Value(idempotencyKeyType{}).(string)
	return key
}
