// Package inputs validates the parameters of a run and formats them as the text that a flow
// receives.
//
// The starter uses it before a start and the worker when it compiles a document, so that
// invalid parameters are rejected early. It is pure: no disk, no environment, and no clock except for the
// timeout of a check. Texts and errors are those of the blueprint dialect's framework, byte for byte.
//
// Start at [Read], then [Start].
package inputs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weft/activities/schema"
	"weft/specadapter/source"
	"weft/workflows/plan"
	"weft/workflows/plan/pytext"
	"weft/workflows/plan/value"
)

// MaxBytes is the maximum size of the parameters, and of the text formatted from them.
const MaxBytes = 1 << 20

// prompt is the only parameter of an agent without a schema.
const prompt = "prompt"

// Params are the parameters of a run, in source order.
type Params struct {
	object *pytext.Value
	// text is the text of the run if it is not a parameter.
	text string
}

// JSON returns the parameters as a compact JSON object.
func (p *Params) JSON() json.RawMessage { return json.RawMessage(p.object.JSON()) }

// Codes of the diagnostics of Read, in addition to the parser's.
const (
	CodeNoObject = "params-object"
	CodeNumber   = "number-range"
)

// Read parses parameters: a JSON object, or YAML if the name has that extension. Messages contain
// the name. The parameters are nil if and only if a diagnostic is an error.
func Read(name string, raw []byte) (*Params, []source.Diagnostic) {
	fail := func(at source.Pos, code, help, format string, args ...any) (*Params, []source.Diagnostic) {
		return nil, []source.Diagnostic{{File: name, Line: at.Line, Col: at.Col, Code: code, Help: help, Text: fmt.Sprintf(format, args...)}}
	}
	if len(raw) > MaxBytes {
		return fail(source.Pos{}, source.CodeTooLarge, "pass large texts by the name of a file or document", "the parameters have %d bytes, over the limit of %d", len(raw), MaxBytes)
	}
	doc, diags := source.Parse(name, raw)
	if doc == nil {
		return nil, diags
	}
	if doc.Root.Kind != source.Object {
		return fail(doc.Root.Pos, CodeNoObject, `use an object: {"prompt": "..."}`, "the parameters are %s, expected an object", doc.Root.Describe())
	}
	if v, at := uncountable(doc.Root); v != nil {
		return fail(v.Pos, CodeNumber, "use a smaller number or a string", "the number %s in %s is out of range", v.Describe(), source.Quote(strings.Join(at, ".")))
	}
	text := doc.Root.JSON()
	if d := plan.Depth(text); d > schema.MaxDepth {
		return fail(doc.Root.Pos, source.CodeTooLarge, "flatten them", "the parameters are nested %d deep, over the limit of %d", d, schema.MaxDepth)
	}
	object, err := pytext.Parse(text)
	if err != nil {
		return fail(doc.Root.Pos, source.CodeSyntax, "", "%v", err)
	}
	return &Params{object: object}, diags
}

// uncountable returns a number that is out of range and the path to it, or nil.
func uncountable(v *source.Value, at ...string) (*source.Value, []string) {
	if v.Kind == source.Number && !schema.Countable(v.Text) {
		return v, at
	}
	for i, item := range v.Items {
		if bad, at := uncountable(item, append(at, strconv.Itoa(i))...); bad != nil {
			return bad, at
		}
	}
	for _, m := range v.Members {
		if bad, at := uncountable(m.Value, append(at, m.Key)...); bad != nil {
			return bad, at
		}
	}
	return nil, nil
}

// FromText returns parameters that consist only of the prompt.
func FromText(text string) *Params {
	return &Params{object: &pytext.Value{Kind: pytext.Object, Members: []pytext.Member{{Key: prompt, Value: &pytext.Value{Kind: pytext.String, Text: text}}}}}
}

// ParseParams returns the parameters of a run that is started with an object, a text, or both. The text is
// the prompt.
func ParseParams(params json.RawMessage, text string) (*Params, error) {
	if len(params) == 0 || string(params) == "null" {
		return FromText(text), nil
	}
	p, err := parseObject("params", params)
	if err != nil {
		return nil, err
	}
	if text == "" {
		return p, nil
	}
	if p.object.Get(prompt) != nil {
		return nil, fmt.Errorf("the prompt is set twice: as the run's input and as the parameter %q; remove one of them", prompt)
	}
	set(p.object, prompt, &pytext.Value{Kind: pytext.String, Text: text})
	return p, nil
}

// parseObject parses the parameters of a flag or a request. Its error has no position, because the text has no file.
func parseObject(name string, raw json.RawMessage) (*Params, error) {
	p, diags := Read(name, raw)
	if p == nil {
		diags[0].Line, diags[0].Col = 0, 0
		return nil, fmt.Errorf("%s", diags[0])
	}
	return p, nil
}

// OfTurn returns the inputs of a later turn of a session: only the prompt or, in the documented style, the same inputs
// as a start.
func OfTurn(in *plan.Inputs) *plan.Inputs {
	if in != nil && in.Style == plan.StyleDocumented {
		return in
	}
	return &plan.Inputs{Mode: plan.InputsMerged}
}

// For returns the parameters of a run of a flow. If inputs are named values, the text is not a
// parameter but the first message of the user.
func For(in *plan.Inputs, params json.RawMessage, text string) (*Params, error) {
	if in.Mode != plan.InputsNamed {
		return ParseParams(params, text)
	}
	if len(params) == 0 || string(params) == "null" {
		params = json.RawMessage("{}")
	}
	p, err := ParseParams(params, "")
	if err == nil {
		p.text = text
	}
	return p, err
}

// Invalid is the error of parameters that do not match their schema. Its JSON is the error body
// of the framework's API.
type Invalid struct {
	Code      string          `json:"error"`
	Message   string          `json:"message"`
	AgentName string          `json:"agent_name"`
	Errors    []schema.Error  `json:"validation_errors"`
	Schema    json.RawMessage `json:"parameters_schema"`
	// Named reports whether the flow has named inputs, without a prompt.
	Named bool `json:"-"`
}

// Error returns all errors on one line.
func (e *Invalid) Error() string {
	parts := source.Map(e.Errors, func(p schema.Error) string { return p.Path + ": " + p.Message })
	return fmt.Sprintf("%s (%s): %s", e.Message, source.Quote(e.AgentName), strings.Join(parts, "; "))
}

// Check validates parameters against a flow's inputs. The error is an [*Invalid] or the error
// of ctx.
func Check(ctx context.Context, flow string, in *plan.Inputs, p *Params) error {
	rules := Schema(in)
	errs, err := schema.Check(ctx, rules, p.JSON(), schema.Options{Documented: in.Style == plan.StyleDocumented})
	if err == nil && len(errs) == 0 && in.Mode == plan.InputsNamed {
		errs = misfits(rules, p)
	}
	if err != nil || len(errs) == 0 {
		return err
	}
	e := &Invalid{Code: "parameter_validation_failed", Message: "Parameters do not match agent's parameters_schema",
		AgentName: flow, Errors: errs, Schema: rules, Named: in.Mode == plan.InputsNamed}
	if e.Named {
		e.Message = "the params do not match the declared inputs of the flow"
	}
	return e
}

// misfits reports values that the schema accepts but a flow cannot process, such as an integer of more than 64 bits.
func misfits(rules json.RawMessage, p *Params) []schema.Error {
	v, err := value.Parse(p.JSON())
	if err != nil {
		return []schema.Error{{Path: "$", Message: err.Error()}}
	}
	var errs []schema.Error
	for name, err := range value.InvalidValues(rules, v) {
		errs = append(errs, schema.Error{Path: "$." + name, Message: err.Error()})
	}
	return errs
}

// implicit is the schema of an agent without one.
const implicit = `{"type":"object","required":["prompt"],"properties":{"prompt":{"type":"string","minLength":1}},"additionalProperties":false}`

// Schema returns the schema that parameters must match: the author's, with the prompt added in
// merged mode. The schema {} counts as none.
func Schema(in *plan.Inputs) json.RawMessage {
	own, err := pytext.Parse(in.Schema)
	none := err != nil || !own.Truthy()
	switch {
	case none && in.Mode == plan.InputsProcedural:
		return json.RawMessage(`{"type":"object"}`)
	case none:
		return json.RawMessage(implicit)
	case in.Mode != plan.InputsMerged:
		return in.Schema
	}
	return json.RawMessage(merged(own).JSON())
}

// merged adds the prompt to an author's schema, unless the schema defines it.
func merged(own *pytext.Value) *pytext.Value {
	text := func(s string) *pytext.Value { return &pytext.Value{Kind: pytext.String, Text: s} }
	out := &pytext.Value{Kind: pytext.Object, Members: append([]pytext.Member{}, own.Members...)}
	if t := out.Get("type"); t == nil || t.Kind != pytext.String || t.Text != "object" {
		set(out, "type", text("object"))
	}
	properties := &pytext.Value{Kind: pytext.Object}
	if p := own.Get("properties"); p != nil {
		properties.Members = append([]pytext.Member{}, p.Members...)
	}
	if properties.Get(prompt) == nil {
		set(properties, prompt, &pytext.Value{Kind: pytext.Object, Members: []pytext.Member{
			{Key: "type", Value: text("string")}, {Key: "minLength", Value: &pytext.Value{Kind: pytext.Number, Text: "1"}}}})
	}
	set(out, "properties", properties)
	required := &pytext.Value{Kind: pytext.Array}
	if r := own.Get("required"); r != nil {
		required.Items = append([]*pytext.Value{}, r.Items...)
	}
	if slices.ContainsFunc(required.Items, func(name *pytext.Value) bool { return name.Text == prompt }) {
		return out
	}
	required.Items = append(required.Items, text(prompt))
	set(out, "required", required)
	return out
}

func set(v *pytext.Value, key string, to *pytext.Value) {
	for i := range v.Members {
		if v.Members[i].Key == key {
			v.Members[i].Value = to
			return
		}
	}
	v.Members = append(v.Members, pytext.Member{Key: key, Value: to})
}
