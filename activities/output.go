package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"weft/activities/contract"
	"weft/activities/schema"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// check extracts JSON from an answer and validates it. An empty schema accepts any JSON. Its error is ctx's.
func check(ctx context.Context, rules json.RawMessage, text string) (*contract.Checked, error) {
	return checkAs(ctx, rules, text, schema.Options{})
}

// checkOutput checks an answer without calls against the required output, if any. If the output is only required of the last
// answer, errors are dropped.
func checkOutput(ctx context.Context, out *plan.Output, in *contract.ModelInput, m *contract.Message) (*contract.Checked, error) {
	if out == nil || len(m.Calls) > 0 && !in.NoTools {
		return nil, nil
	}
	c, err := checkLone(ctx, out, m.Text)
	if err == nil && out.IfLast != "" {
		c.Errors = nil
	}
	return c, err
}

// checkLone is [check] for an output that may consist of a single member: other answers become the value of the member.
func checkLone(ctx context.Context, out *plan.Output, text string) (*contract.Checked, error) {
	raw := extract(text)
	if out.ValueMember == "" {
		return checkFit(ctx, out, raw, text)
	}
	if raw == nil {
		var err error
		if raw, err = json.Marshal(strings.TrimSpace(text)); err != nil {
			return nil, err
		}
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil || object[out.ValueMember] == nil {
		name, err := json.Marshal(out.ValueMember)
		if err != nil {
			return nil, err
		}
		raw = fmt.Appendf(nil, "{%s:%s}", name, raw)
	}
	return checkFit(ctx, out, raw, string(raw))
}

// checkFit casts the members of an answer, if the output asks for it, and validates it. A member that the schema accepts but
// that cannot be represented, such as an integer of more than 64 bits, is an error, too.
func checkFit(ctx context.Context, out *plan.Output, raw json.RawMessage, text string) (*contract.Checked, error) {
	v, err := value.Parse(raw)
	fits := err == nil && out.Fit
	if fits {
		v = value.Fit(out.Schema, v)
		text = string(v.JSON())
	}
	c, err := checkAs(ctx, out.Schema, text, schema.Options{Documented: out.Style == plan.StyleDocumented})
	if err != nil || !fits || len(c.Errors) > 0 {
		return c, err
	}
	for name, err := range value.InvalidValues(out.Schema, v) {
		c.Errors = append(c.Errors, contract.FieldError{Path: "$." + name, Message: err.Error()})
	}
	return c, nil
}

func checkAs(ctx context.Context, rules json.RawMessage, text string, o schema.Options) (*contract.Checked, error) {
	raw := extract(text)
	if raw == nil {
		return invalid("$", "No JSON output found but output_schema requires structured output"), nil
	}
	if d := plan.Depth(raw); d > schema.MaxChecked {
		return invalid("$", fmt.Sprintf("the answer nests %d levels deep, at most %d are allowed", d, schema.MaxChecked)), nil
	}
	if len(rules) == 0 || string(bytes.TrimSpace(rules)) == "{}" {
		return &contract.Checked{Data: raw}, nil
	}
	o.Formats = true
	problems, err := schema.Check(ctx, rules, raw, o)
	if err != nil || len(problems) == 0 {
		return &contract.Checked{Data: raw}, err
	}
	c := &contract.Checked{}
	for _, p := range problems {
		c.Errors = append(c.Errors, contract.FieldError(p))
	}
	return c, nil
}

func invalid(path, message string) *contract.Checked {
	return &contract.Checked{Errors: []contract.FieldError{{Path: path, Message: message}}}
}

// fence matches a fenced block as the reference implementation of the blueprint dialect does.
var fence = regexp.MustCompile("(?s)```(?:json)?\\s*\\n?(.*?)\\n?```")

// extract finds JSON in an answer: an object alone; else a fenced block; else the text from the first to the last
// brace; else the entire text. It returns nil if there is none, and for null.
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

// parseOnly parses a text that consists of JSON or of one fenced block; it returns nil for others.
func parseOnly(text string) json.RawMessage {
	text = strings.TrimSpace(text)
	if m := fence.FindStringSubmatchIndex(text); m != nil && m[0] == 0 && m[1] == len(text) {
		text = text[m[2]:m[3]]
	}
	return parse(text)
}

// parse returns the text as compact JSON, or nil if it is not JSON.
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
