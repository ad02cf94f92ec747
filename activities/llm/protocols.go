package llm

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"weft/activities/textutil"

	"github.com/tmc/langchaingo/llms"
)

// The protocols that providers speak, see [Provider].
const (
	// ProtocolChat is OpenAI's chat completions; the zero value.
	ProtocolChat = ""
	// ProtocolClaude is Anthropic's messages.
	ProtocolClaude = "claude"
	// ProtocolGemini is Google's generateContent.
	ProtocolGemini = "gemini"
	// ProtocolOCI is the chat of Oracle's Generative AI service.
	ProtocolOCI = "oci"
)

// protocols is the table of all protocols.
var protocols = map[string]func(*remote) protocol{
	ProtocolChat:   func(m *remote) protocol { return compatible{m} },
	ProtocolClaude: func(m *remote) protocol { return claude{m} },
	ProtocolGemini: func(m *remote) protocol { return gemini{m} },
	ProtocolOCI:    newOCI,
}

// newProtocol is the protocol of the model's provider.
func (c *remote) newProtocol() protocol { return protocols[c.row.Protocol](c) }

// Parameters that not every provider takes, as rows list them in Params.
const (
	paramTopK      = "top_k"
	paramSeed      = "seed"
	paramFrequency = "frequency_penalty"
	paramPresence  = "presence_penalty"
	paramParallel  = "parallel_tool_calls"
	paramEffort    = "reasoning_effort"
)

// supported refuses options that would otherwise be dropped silently, and an invalid schema.
func (c *remote) supported(call *Call, o *llms.CallOptions) error {
	var here []string
	for _, opt := range []struct {
		name string
		set  bool
	}{
		{"n", o.N > 1}, {"candidate_count", o.CandidateCount > 1}, {"min_length", o.MinLength != 0},
		{"max_length", o.MaxLength != 0}, {"repetition_penalty", o.RepetitionPenalty != 0},
		{"functions", len(o.Functions) > 0}, {"function_call", o.FunctionCallBehavior != ""},
		{"response_mime_type", o.ResponseMIMEType != "" && o.ResponseMIMEType != "text/plain"},
	} {
		if opt.set {
			here = append(here, opt.name)
		}
	}
	for _, opt := range []struct {
		name string
		set  bool
	}{
		{paramTopK, o.TopK != 0}, {paramSeed, o.Seed >= 0}, {paramFrequency, o.FrequencyPenalty != 0}, {paramPresence, o.PresencePenalty != 0},
		{paramParallel, call.Parallel != nil}, {paramEffort, call.Effort != ""},
	} {
		if opt.set && !slices.Contains(c.row.Params, opt.name) {
			here = append(here, opt.name)
		}
	}
	if len(here) > 0 {
		return c.unsendable("%s takes no %s; leave it out, or choose a model of another provider", c.row.Name, strings.Join(here, ", "))
	}
	if len(call.Schema) > 0 && !json.Valid(call.Schema) {
		return c.unsendable("the schema of the answer is not JSON")
	}
	return nil
}

// optional returns v, or nil if it is negative, which means that it is not set.
func optional[T int | float64](v T) *T {
	if v < 0 {
		return nil
	}
	return &v
}

// encodeTools converts tools into a protocol's. A tool without a schema takes any object.
func encodeTools[T any](c *remote, tools []llms.Tool, convert func(f *llms.FunctionDefinition, schema any) T) ([]T, error) {
	var out []T
	for _, t := range tools {
		if t.Function == nil || t.Function.Name == "" {
			return nil, c.unsendable("a tool of type %q has no name", t.Type)
		}
		schema := t.Function.Parameters
		if raw, ok := schema.(json.RawMessage); ok && len(raw) > 0 && !json.Valid(raw) {
			return nil, c.unsendable("the schema of tool %q is not JSON", t.Function.Name)
		} else if schema == nil || ok && len(raw) == 0 {
			schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		out = append(out, convert(t.Function, schema))
	}
	return out, nil
}

// budget is a reasoning effort as a number of tokens.
func (c *remote) budget(budgets map[string]int, effort string) (int, error) {
	n, ok := budgets[effort]
	if !ok {
		return 0, c.unsendable("reasoning_effort is %q, want none, minimal, low, medium, high, xhigh or max", effort)
	}
	return n, nil
}

// toolChoice is auto, none or required, or the name of a tool.
type toolChoice struct{ mode, tool string }

// The modes of a tool choice; a named tool has none of them.
const (
	choiceAuto     = "auto"
	choiceNone     = "none"
	choiceRequired = "required"
)

// choiceOf reads langchaingo's option.
func (c *remote) choiceOf(v any) (toolChoice, error) {
	switch v := v.(type) {
	case nil:
		return toolChoice{}, nil
	case string:
		switch v {
		case choiceAuto, choiceNone, choiceRequired:
			return toolChoice{mode: v}, nil
		}
	case llms.ToolChoice:
		if v.Function != nil && v.Function.Name != "" {
			return toolChoice{tool: v.Function.Name}, nil
		}
	case *llms.ToolChoice:
		if v != nil {
			return c.choiceOf(*v)
		}
	}
	return toolChoice{}, c.unsendable("tool_choice is %v, want auto, none, required or a function", v)
}

// marshal encodes a request and merges the author's extra fields into it.
func (c *remote) marshal(v any, extra json.RawMessage) ([]byte, error) {
	raw, err := textutil.JSON(v)
	if err != nil {
		return nil, c.unsendable("%v", err)
	}
	if !isSet(extra) {
		return raw, nil
	}
	merged, err := c.merged("", raw, extra)
	if err != nil {
		return nil, err
	}
	return merged, nil
}

// merged adds the members of one object to another, recursively. It never replaces a value that the engine has
// set.
func (c *remote) merged(path string, into, from json.RawMessage) (json.RawMessage, error) {
	var have, more map[string]json.RawMessage
	if json.Unmarshal(from, &more) != nil || more == nil {
		return nil, c.unsendable("extra parameters%s are not a JSON object", path)
	}
	if json.Unmarshal(into, &have) != nil || have == nil {
		return nil, c.unsendable("extra parameter%s is set by the engine already; leave it out", path)
	}
	for _, key := range slices.Sorted(maps.Keys(more)) {
		value := more[key]
		if have[key] != nil {
			var err error
			if value, err = c.merged(path+" "+key, have[key], value); err != nil {
				return nil, c.unsendable("extra parameter%s is set by the engine already; use the parameter of its own, or leave it out", path+" "+key)
			}
		}
		have[key] = value
	}
	return textutil.JSON(have)
}
