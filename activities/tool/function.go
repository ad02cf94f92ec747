package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/workflows/plan"
)

// Function is a Go function as a tool; [Func] makes one. Flows bind it by its name, without
// a connection or at a connection of transport local.
type Function struct {
	spec    contract.ToolSpec
	schema  *jsonschema.Schema // of the arguments
	timeout time.Duration
	never   bool
	// invoke decodes the arguments, calls the function and renders its result. A problem
	// is one of the arguments, for the model.
	invoke func(ctx context.Context, args json.RawMessage) (text, problem string, err error)
	// problems are what is wrong with the function itself, for Open.
	problems []string
}

// Name is the name that flows bind.
func (f Function) Name() string { return f.spec.Name }

// FunctionOption changes how a [Function] is offered or called.
type FunctionOption func(*Function)

// RetryNever says that a second call does harm: where the outcome of a call is unknown, the
// model is told so and the function is not called again.
func RetryNever() FunctionOption { return func(f *Function) { f.never = true } }

// Timeout bounds one attempt of a call, which is retried then. Without it the flow's policy
// alone does; it bounds every call anyway.
func Timeout(d time.Duration) FunctionOption {
	return func(f *Function) {
		if d <= 0 {
			f.problems = append(f.problems, fmt.Sprintf("its timeout is %v, want more than 0", d))
		}
		f.timeout = d
	}
}

// Schema is the JSON Schema of the arguments where the type of the arguments does not say
// enough: enumerations, bounds, recursion. Its root must be of type object.
func Schema(text string) FunctionOption {
	return func(f *Function) { f.spec.Schema = json.RawMessage(text) }
}

// Func makes a tool of a function. The JSON Schema that the model sees comes from In, a
// struct or a map with texts as keys: fields are required unless tagged omitempty or
// omitzero, and the tag jsonschema is a field's description.
//
// Arguments that do not fit, unknown fields included, never reach the function; the model is
// told what is wrong. A result that is a string is given to the model as it is, everything
// else as JSON. An error is given to the model too, its message alone; but one that is or
// wraps a [*contract.Failure] counts as of its class, so that unavailable, timeout and
// rate_limited make Temporal call again. A panic is an error; its stack goes to the log.
//
// The function may be called several times at once. Its ctx has the deadline of the attempt,
// ends when the run is cancelled or the worker stops, and knows the call's
// [IdempotencyKey]. A call that is over by its ctx is not waited for.
//
// What is wrong with a function is reported by [Open].
func Func[In, Out any](name, description string, fn func(ctx context.Context, in In) (Out, error), options ...FunctionOption) Function {
	f := Function{spec: contract.ToolSpec{Name: name, Description: description}}
	for _, o := range options {
		o(&f)
	}
	switch {
	case strings.TrimSpace(name) == "":
		f.problems = append(f.problems, "it has no name")
	case slices.Contains(plan.Builtins, name):
		f.problems = append(f.problems, "the name is that of a system tool, which every node has; choose another")
	}
	if fn == nil {
		f.problems = append(f.problems, "it is nil")
	}
	if err := f.settle(derive[In]); err != nil {
		f.problems = append(f.problems, err.Error())
	}
	f.invoke = func(ctx context.Context, args json.RawMessage) (text, problem string, err error) {
		var in In
		d := json.NewDecoder(bytes.NewReader(args))
		d.DisallowUnknownFields()
		if err := d.Decode(&in); err != nil {
			return "", "arguments: " + strings.TrimPrefix(err.Error(), "json: "), nil
		}
		out, err := fn(ctx, in)
		if err != nil {
			return "", "", err
		}
		text, err = rendered(out)
		return text, "", err
	}
	return f
}

// settle makes the schema ready, that of the option Schema or else the derived one.
func (f *Function) settle(derive func() (json.RawMessage, error)) error {
	var out bytes.Buffer
	if f.spec.Schema == nil {
		raw, err := derive()
		if err != nil {
			return fmt.Errorf("its arguments have no JSON Schema: %w; change their type, or give it with tool.Schema", err)
		}
		f.spec.Schema = raw
	}
	if err := json.Compact(&out, f.spec.Schema); err != nil {
		return fmt.Errorf("its schema is no JSON: %w", err)
	}
	f.spec.Schema = out.Bytes()
	var root struct{ Type any }
	if err := json.Unmarshal(f.spec.Schema, &root); err != nil || root.Type != "object" {
		return fmt.Errorf("its schema is %s, want one with type object at its root", short(out.String()))
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat = true
	c.LoadURL = func(u string) (io.ReadCloser, error) { return nil, fmt.Errorf("the reference %q leaves the schema", u) }
	const at = "mem:///arguments.json"
	if err := c.AddResource(at, bytes.NewReader(f.spec.Schema)); err != nil {
		return fmt.Errorf("its schema cannot be used: %w", err)
	}
	var err error
	if f.schema, err = c.Compile(at); err != nil {
		return fmt.Errorf("its schema cannot be used: %w", err)
	}
	return nil
}

// maxArgumentDepth bounds what is validated: the validator's cost grows with depth.
const maxArgumentDepth = 64

// fits says what of the arguments does not fit the schema, in words for the model.
func (f *Function) fits(args json.RawMessage) (problem string) {
	if d := plan.Depth(args); d > maxArgumentDepth {
		return fmt.Sprintf("arguments: they nest %d deep, at most %d are taken", d, maxArgumentDepth)
	}
	value, ok := exact(args)
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

// rendered is a result as text.
func rendered(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case json.RawMessage:
		if len(v) == 0 {
			return "null", nil
		}
		if !json.Valid(v) {
			return "", fmt.Errorf("the result is no JSON: %s", short(string(v)))
		}
		return compact(v), nil
	}
	raw, err := textutil.JSON(v)
	if err != nil {
		return "", fmt.Errorf("the result cannot be written as JSON: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return string(raw), nil
}

type keyOfCall struct{}

// IdempotencyKey is the same for all attempts of the call that a [Function]'s ctx belongs
// to, and for no other call. It is empty outside a call.
func IdempotencyKey(ctx context.Context) string {
	key, _ := ctx.Value(keyOfCall{}).(string)
	return key
}
