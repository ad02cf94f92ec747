package llm

import (
	"slices"
	"strings"

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

// speak is the protocol of the model's provider.
func (c *remote) speak() protocol { return protocols[c.row.Protocol](c) }

// Parameters that not every provider takes, as rows list them in Params.
const (
	paramTopK      = "top_k"
	paramSeed      = "seed"
	paramFrequency = "frequency_penalty"
	paramPresence  = "presence_penalty"
	paramParallel  = "parallel_tool_calls"
	paramEffort    = "reasoning_effort"
)

// supported refuses what would otherwise be dropped in silence.
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
	return nil
}

// wanted is a tool choice in one form: auto, none, required, or the name of a tool.
type wanted struct{ mode, tool string }

// The modes of a tool choice; a named tool has none of them.
const (
	choiceAuto     = "auto"
	choiceNone     = "none"
	choiceRequired = "required"
)

// choiceOf reads langchaingo's option.
func (c *remote) choiceOf(v any) (wanted, error) {
	switch v := v.(type) {
	case nil:
		return wanted{}, nil
	case string:
		switch v {
		case choiceAuto, choiceNone, choiceRequired:
			return wanted{mode: v}, nil
		}
	case llms.ToolChoice:
		if v.Function != nil && v.Function.Name != "" {
			return wanted{tool: v.Function.Name}, nil
		}
	case *llms.ToolChoice:
		if v != nil {
			return c.choiceOf(*v)
		}
	}
	return wanted{}, c.unsendable("tool_choice is %v, want auto, none, required or a function", v)
}
