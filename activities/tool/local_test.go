package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/workflows/plan"
)

type location struct {
	City string `json:"city" jsonschema:"where"`
	Days int    `json:"days,omitempty"`
}

type forecast struct {
	Text string  `json:"text"`
	ID   int64   `json:"id"`
	Days []int   `json:"days"`
	At   float64 `json:"at"`
}

// functions opens tools with Go functions only.
func functions(t *testing.T, all ...Function) *Tools {
	t.Helper()
	tools, err := Open(Settings{Functions: all, MaxResultBytes: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tools.Close)
	return tools
}

// functionCall returns the input for a call of a function of the worker.
func functionCall(name, args string) contract.ToolInput {
	return contract.ToolInput{Connection: plan.Connection{Kind: plan.ConnectionLocal}, Name: name, Arguments: json.RawMessage(args)}
}

// returns returns a function that returns v.
func returns[Out any](v Out) Function {
	return Func("f", "", func(context.Context, struct{}) (Out, error) { return v, nil })
}

// fallible returns a function that may fail.
func fallible(f func(ctx context.Context, in location) (string, error), o ...FunctionOption) Function {
	return Func("f", "", f, o...)
}

func TestListFunctions(t *testing.T) {
	tools := functions(t,
		Func("weather", "Tells the weather.", func(context.Context, location) (string, error) { return "", nil }),
		Func("now", "", func(context.Context, struct{}) (time.Time, error) { return time.Time{}, nil }),
	)
	at, err := tools.Resolve(plan.Connection{Kind: plan.ConnectionMCP}, "weather")
	if err != nil || !reflect.DeepEqual(at, plan.Connection{Kind: plan.ConnectionLocal}) {
		t.Fatalf("resolved to %+v, %v", at, err)
	}
	specs, err := tools.List(withTimeout(t, time.Minute), at)
	if err != nil || len(specs) != 2 || specs[0].Name != "now" || specs[1].Description != "Tells the weather." {
		t.Fatalf("listed %+v, %v", specs, err)
	}
	if got, want := string(specs[1].Schema), `{"type":"object","properties":{"city":{"type":"string","description":"where"},"days":{"type":"integer"}},"required":["city"],"additionalProperties":false}`; got != want {
		t.Errorf("schema %s, want %s", got, want)
	}
	if got, want := string(specs[0].Schema), `{"type":"object","additionalProperties":false}`; got != want {
		t.Errorf("schema %s, want %s", got, want)
	}
}

// Word implements json.Unmarshaler.
type Word struct{ s string }

// UnmarshalJSON accepts a string or a number.
func (w *Word) UnmarshalJSON(raw []byte) error { w.s = string(raw); return nil }

type unusualTypes struct {
	When  time.Time        `json:"when"`
	Addr  netip.Addr       `json:"addr"`
	Raw   *json.RawMessage `json:"raw"`
	Bytes []byte           `json:"bytes"`
	Exact json.Number      `json:"exact"`
	Word  []Word           `json:"word"`
	More  map[string]any   `json:"more,omitempty"`
}

// TestUnusualArgumentTypes checks types with their own JSON encoding: they must accept every value that their schema allows.
func TestUnusualArgumentTypes(t *testing.T) {
	tools := functions(t, Func("f", "", func(_ context.Context, in *unusualTypes) (string, error) {
		return fmt.Sprintf("%d %s %s %s %s %s %v", in.When.Year(), in.Addr, *in.Raw, in.Bytes, in.Exact, in.Word[0].s, in.More["x"]), nil
	}))
	args := `{"when":"2024-05-06T07:08:09Z","addr":"10.0.0.1","raw":[1,{"a":2}],"bytes":"aGV5","exact":12345678901234567890.5,"word":[true],"more":{"x":"y"}}`
	text, failed, err := resultText(tools.Call(withTimeout(t, time.Minute), functionCall("f", args), Meta{}))
	if want := `2024 10.0.0.1 [1,{"a":2}] hey 12345678901234567890.5 true y`; err != nil || failed || text != want {
		t.Errorf("got %q, %v, %v; want %q", text, failed, err, want)
	}
	text, failed, err = resultText(tools.Call(withTimeout(t, time.Minute), functionCall("f", strings.Replace(args, "2024-05-06T07", "tomorrow", 1)), Meta{}))
	if err != nil || !failed || !strings.Contains(text, "$.when: ") || strings.Contains(text, "$.addr") {
		t.Errorf("got %q, %v, %v", text, failed, err)
	}
}

func TestFunctionArguments(t *testing.T) {
	called := false
	tools := functions(t,
		fallible(func(_ context.Context, in location) (string, error) { called = true; return in.City, nil }),
		Func("own", "", func(_ context.Context, in map[string]any) (string, error) {
			called = true
			return fmt.Sprint(in["unit"]), nil
		},
			Schema(`{"type": "object", "properties": {"unit": {"enum": ["C", "F"]}, "sub": {"$ref": "#"}}, "required": ["unit"]}`)),
	)
	tests := map[string]struct {
		tool, args string
		text       string // of the result, or a part of the error
		failed     bool
	}{
		"all fields":               {args: `{"city":"Oslo","days":3}`, text: "Oslo"},
		"optional field missing":   {args: `{"city":"Oslo"}`, text: "Oslo"},
		"missing field":            {args: `{"days":3}`, text: `$: missing properties: 'city'`, failed: true},
		"no arguments":             {text: `$: missing properties: 'city'`, failed: true},
		"unknown field":            {args: `{"city":"Oslo","town":"x"}`, text: `'town' not allowed`, failed: true},
		"field in another case":    {args: `{"city":"Oslo","CITY":"Rome"}`, text: `'CITY' not allowed`, failed: true},
		"invalid type":             {args: `{"city":7}`, text: "$.city: expected string, but got number", failed: true},
		"two invalid types":        {args: `{"city":7,"days":"x"}`, text: "got number; $.days: expected integer", failed: true},
		"null":                     {args: `{"city":null}`, text: "$.city: expected string, but got null", failed: true},
		"fraction for an integer":  {args: `{"city":"Oslo","days":1.5}`, text: "expected integer", failed: true},
		"integer out of range":     {args: `{"city":"Oslo","days":99999999999999999999}`, text: "cannot unmarshal number", failed: true},
		"not an object":            {args: `[1]`, text: "arguments must be a JSON object", failed: true},
		"not JSON":                 {args: `{"city":`, text: "arguments must be a JSON object", failed: true},
		"nested too deeply":        {args: `{"city":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, text: "nested 5001 levels deep, at most 64", failed: true},
		"explicit schema, valid":   {tool: "own", args: `{"unit":"C","sub":{"unit":"F"}}`, text: "C"},
		"explicit schema, invalid": {tool: "own", args: `{"unit":"K","sub":{"unit":1}}`, text: `$.sub.unit: value must be one of "C", "F"; $.unit: value must`, failed: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			called = false
			if tc.tool == "" {
				tc.tool = "f"
			}
			text, failed, err := resultText(tools.Call(withTimeout(t, time.Minute), functionCall(tc.tool, tc.args), Meta{}))
			if err != nil || failed != tc.failed || called == failed || !strings.Contains(text, tc.text) || !failed && text != tc.text {
				t.Errorf("got %q, failed %v, %v, called %v", text, failed, err, called)
			}
		})
	}
}

func TestFunctionResults(t *testing.T) {
	tests := map[string]struct {
		f      Function
		text   string
		failed bool
	}{
		"string":                {f: returns("a <b> & \"c\""), text: `a <b> & "c"`},
		"struct":                {f: returns(forecast{Text: "<sun> & rain", ID: 9007199254740993, At: 0.1}), text: `{"text":"<sun> & rain","id":9007199254740993,"days":null,"at":0.1}`},
		"raw JSON":              {f: returns(json.RawMessage(`{"n": 12345678901234567890.10}`)), text: `{"n":12345678901234567890.10}`},
		"nil raw JSON":          {f: returns(json.RawMessage(nil)), text: "null"},
		"invalid raw JSON":      {f: returns(json.RawMessage(`{`)), text: "the result is not JSON: {", failed: true},
		"empty struct":          {f: returns(struct{}{}), text: "{}"},
		"nil pointer":           {f: returns[*forecast](nil), text: "null"},
		"number":                {f: returns(7), text: "7"},
		"not encodable as JSON": {f: returns(func() {}), text: "the result cannot be encoded as JSON: unsupported type: func()", failed: true},
		"error":                 {f: failing(errors.New("no such city")), text: "no such city", failed: true},
		"wrapped error":         {f: failing(fmt.Errorf("ask: %w", errors.New("no"))), text: "ask: no", failed: true},
		"empty error":           {f: failing(errors.New("")), text: "the tool failed", failed: true},
		"deadline exceeded":     {f: failing(context.DeadlineExceeded), text: "context deadline exceeded", failed: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			text, failed, err := resultText(functions(t, tc.f).Call(withTimeout(t, time.Minute), functionCall("f", `{}`), Meta{}))
			if err != nil || text != tc.text || failed != tc.failed {
				t.Errorf("got %q, failed %v, %v", text, failed, err)
			}
		})
	}
}

// failing returns a function that fails with err.
func failing(err error) Function {
	return Func("f", "", func(context.Context, struct{}) (string, error) { return "unseen", err })
}

func TestFunctionFailures(t *testing.T) {
	classified := &contract.Failure{Class: contract.ClassRateLimited, Text: "busy", After: time.Second}
	_, _, err := resultText(functions(t, failing(fmt.Errorf("ask: %w", classified))).Call(withTimeout(t, time.Minute), functionCall("f", `{}`), Meta{}))
	if f := wantFailure(t, err, contract.ClassRateLimited, "busy"); f.After != time.Second {
		t.Errorf("After is lost: %+v", f)
	}
	_, _, err = resultText(functions(t, returns(strings.Repeat("x", 10_001))).Call(withTimeout(t, time.Minute), functionCall("f", `{}`), Meta{}))
	wantFailure(t, err, contract.ClassTooLarge, `"f" of functions of the worker has 10001 bytes`)

	// A worker that runs an older build: another worker may have the function.
	_, _, err = resultText(functions(t, returns(1)).Call(withTimeout(t, time.Minute), functionCall("weather", `{}`), Meta{}))
	wantFailure(t, err, contract.ClassUnavailable, `this worker has no function "weather"; it has: f`, "deploy the same build")
	_, _, err = resultText(functions(t).Call(withTimeout(t, time.Minute), functionCall("weather", `{}`), Meta{}))
	wantFailure(t, err, contract.ClassUnavailable, "it has: none")
}

func TestFunctionPanic(t *testing.T) {
	var stack string
	meta := Meta{Panicked: func(v any, s []byte) { stack = fmt.Sprint(v) + "\n" + string(s) }}
	var nilMap map[string]int
	tools := functions(t, fallible(func(_ context.Context, in location) (string, error) {
		if in.City == "exit" {
			runtime.Goexit()
		}
		nilMap[in.City] = 1
		return "", nil
	}))
	text, failed, err := resultText(tools.Call(withTimeout(t, time.Minute), functionCall("f", `{"city":"x"}`), meta))
	if err != nil || !failed || text != "the tool panicked: assignment to entry in nil map" {
		t.Errorf("got %q, %v, %v", text, failed, err)
	}
	if !strings.Contains(stack, "nil map") || !strings.Contains(stack, "local_test.go") {
		t.Errorf("stack trace is %s", stack)
	}
	text, failed, err = resultText(tools.Call(withTimeout(t, time.Minute), functionCall("f", `{"city":"exit"}`), meta))
	if err != nil || !failed || text != "the tool ended without a result" {
		t.Errorf("got %q, %v, %v", text, failed, err)
	}
}

func TestFunctionContext(t *testing.T) {
	tools := functions(t, fallible(func(ctx context.Context, _ location) (string, error) {
		_, hasDeadline := ctx.Deadline()
		return fmt.Sprint(IdempotencyKey(ctx), " ", hasDeadline), nil
	}))
	text, _, err := resultText(tools.Call(withTimeout(t, time.Minute), functionCall("f", `{"city":"x"}`), Meta{IdempotencyKey: "run/1"}))
	if err != nil || text != "run/1 true" {
		t.Errorf("got %q, %v", text, err)
	}
	if key := IdempotencyKey(context.Background()); key != "" {
		t.Errorf("key outside a call: %q", key)
	}
}

func TestFunctionTimeoutAndCancel(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	var called, cancelled atomic.Int32 // a call may end before its function is called
	stubborn := func(context.Context, location) (string, error) { <-release; return "late", nil }
	cooperative := func(ctx context.Context, _ location) (string, error) {
		called.Add(1)
		<-ctx.Done()
		cancelled.Add(1)
		return "", ctx.Err()
	}
	for name, f := range map[string]func(context.Context, location) (string, error){"stubborn": stubborn, "cooperative": cooperative} {
		t.Run(name, func(t *testing.T) {
			in := functionCall("f", `{"city":"x"}`)
			_, _, err := resultText(functions(t, fallible(f, Timeout(30*time.Millisecond))).Call(withTimeout(t, time.Minute), in, Meta{}))
			wantFailure(t, err, contract.ClassTimeout, `function "f": no result within 30ms`, "tool.Timeout")

			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
			defer cancel()
			if _, _, err := resultText(functions(t, fallible(f)).Call(ctx, in, Meta{})); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("after the deadline of the attempt: %v", err)
			}
			ctx, cancel = context.WithCancel(context.Background())
			time.AfterFunc(30*time.Millisecond, cancel)
			if _, _, err := resultText(functions(t, fallible(f)).Call(ctx, in, Meta{})); !errors.Is(err, context.Canceled) {
				t.Errorf("after cancellation: %v", err)
			}
			closing := functions(t, fallible(f))
			time.AfterFunc(30*time.Millisecond, closing.Close)
			_, _, err = resultText(closing.Call(withTimeout(t, time.Minute), in, Meta{}))
			wantFailure(t, err, contract.ClassUnavailable, "the worker is stopping")
		})
	}
	for end := time.Now().Add(time.Minute); cancelled.Load() < called.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("contexts of %d of %d calls were cancelled", cancelled.Load(), called.Load())
		}
	}
}

func TestFunctionsOfConnection(t *testing.T) {
	open := func(tools map[string]string) *Tools {
		out, err := Open(Settings{Functions: []Function{returns("by name"), Func("charge", "", func(ctx context.Context, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}, RetryNever())}, Tools: tools,
			Connections: map[string]Connection{"here": {Transport: TransportLocal, Timeout: time.Second}, "never": {Transport: TransportLocal, Retry: "never"}, "web": {URL: "http://127.0.0.1:1"}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(out.Close)
		return out
	}
	tools := open(nil)
	at, err := tools.Resolve(plan.Connection{ID: "here", Kind: plan.ConnectionMCP}, "f")
	if err != nil || !reflect.DeepEqual(at, plan.Connection{ID: "here", Kind: plan.ConnectionLocal}) {
		t.Fatalf("resolved to %+v, %v", at, err)
	}
	specs, err := tools.List(withTimeout(t, time.Minute), at)
	if err != nil || len(specs) != 2 {
		t.Errorf("listed %+v, %v", specs, err)
	}
	text, _, err := resultText(tools.Call(withTimeout(t, time.Minute), contract.ToolInput{Connection: at, Name: "f"}, Meta{}))
	if err != nil || text != "by name" {
		t.Errorf("got %q, %v", text, err)
	}
	_, _, err = resultText(tools.Call(withTimeout(t, time.Minute), contract.ToolInput{Connection: at, Name: "charge"}, Meta{}))
	wantFailure(t, err, contract.ClassTimeout, `connection "here": no answer within 1 s`)
	for id, want := range map[string]string{"here": "f", "never": ""} {
		if got := tools.Rules(plan.Connection{ID: id, Kind: plan.ConnectionLocal}, specs).Repeatable; strings.Join(got, " ") != want {
			t.Errorf("connection %q: repeatable tools %v, want %q", id, got, want)
		}
	}
	// The operator's binding takes precedence.
	if at, err = open(map[string]string{"f": "web"}).Resolve(plan.Connection{}, "f"); err != nil || at.ID != "web" || at.Kind != plan.ConnectionMCP {
		t.Errorf("resolved to %+v, %v", at, err)
	}
	if at, err = open(map[string]string{"f": "here"}).Resolve(plan.Connection{}, "f"); err != nil || at.ID != "here" || at.Kind != plan.ConnectionLocal {
		t.Errorf("resolved to %+v, %v", at, err)
	}
	_, err = tools.Resolve(plan.Connection{}, "wether")
	wantFailure(t, err, contract.ClassConnection, `tool "wether" is not bound to a connection; available connections: here, never, web; functions of the worker: charge, f`)
}

type node struct {
	Next *node `json:"next"`
}

func TestOpenInvalidFunctions(t *testing.T) {
	valid := func(context.Context, location) (string, error) { return "", nil }
	_, err := Open(Settings{
		Connections: map[string]Connection{"here": {Transport: TransportLocal, URL: "http://x", Retry: "never"}},
		Functions: []Function{
			Func("twice", "", valid), Func("twice", "", valid), Func("", "", valid), Func("set_state", "", valid),
			Func("slow", "", valid, Timeout(-time.Second)), Func[location, string]("none", "", nil),
			Func("cycle", "", func(context.Context, node) (string, error) { return "", nil }),
			Func("scalar", "", func(context.Context, int) (string, error) { return "", nil }),
			Func("channel", "", func(context.Context, struct{ C chan int }) (string, error) { return "", nil }),
			Func("quoted", "", func(context.Context, struct {
				In []struct {
					N int `json:"n,string"`
				}
			}) (string, error) {
				return "", nil
			}),
			Func("broken", "", valid, Schema(`{`)), Func("list", "", valid, Schema(`{"type":"array"}`)),
			Func("wrong", "", valid, Schema(`{"type":"object","required":7}`)), Func("far", "", valid, Schema(`{"type":"object","$ref":"https://x.example/s"}`)),
			Func("loop", "", valid, Schema(`{"type":"object","allOf":[{"$ref":"#"}]}`)),
			{},
		}})
	f := wantFailure(t, err, contract.ClassConnection,
		`function "twice": duplicate name`, `function "": it has no name`, `function "set_state": the name is reserved for a system tool`,
		`function "slow": its timeout is -1s; it must be more than 0`, `function "none": it is nil`,
		`function "cycle": its arguments have no JSON Schema: ForType(tool.node): cycle detected for type tool.node; change their type, or set the schema with tool.Schema`,
		`function "scalar": its arguments have no JSON Schema: int is neither a struct nor a map`, `function "channel": its arguments have no JSON Schema`,
		`function "quoted": its arguments have no JSON Schema: the tag of field N of struct { N int "json:\"n,string\"" } has the option string`,
		`function "broken": its schema is not JSON`, `function "list": its schema must have type object at its root, got {"type":"array"}`,
		`function "wrong": its schema is invalid`, `function "far": its schema is invalid`, `the reference "https://x.example/s" points outside the document`, `function "loop": its schema is invalid`,
		`function "": not created by tool.Func`, `connections.here: transport local is for functions of the worker`)
	if len(f.Diagnostics) != 16 {
		t.Errorf("%d diagnostics:\n%s", len(f.Diagnostics), strings.Join(f.Diagnostics, "\n"))
	}
}
