package llm

import (
	"cmp"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
	"weft/activities/textutil"
)

// draft is an answer while it is read: what all protocols have in common.
type draft struct {
	x                        *exchange
	text, reasoning, refusal strings.Builder
	// model and finish are the provider's own names of the model and the stop reason.
	model, finish string
	calls         []llms.ToolCall
	usage         *contract.Usage
	state         providerState
}

func (d *draft) complete() bool { return d.finish != "" }
func (d *draft) soFar() string  { return d.text.String() }

// addCall adds a tool call. Empty arguments are an empty object.
func (d *draft) addCall(id, name, arguments string) error {
	if name == "" {
		return invalidf("tool call %d of the answer has no name", len(d.calls)+1)
	}
	d.calls = append(d.calls, llms.ToolCall{ID: id, Type: "function", FunctionCall: &llms.FunctionCall{Name: name, Arguments: arguments}})
	return nil
}

// stopReasons maps what servers call the end of an answer, in lower case. Others are kept.
var stopReasons = map[string]string{
	"stop": "stop", "end_turn": "stop", "eos": "stop", "eos_token": "stop", "stop_sequence": "stop", "complete": "stop",
	"length": "length", "max_tokens": "length", "model_length": "length",
	"tool_calls": "tool_calls", "tool_call": "tool_calls", "tool_use": "tool_calls", "function_call": "tool_calls",
	"content_filter": "content_filter", "content-filter": "content_filter", "safety": "content_filter", "recitation": "content_filter", "error_toxic": "content_filter",
	"model_context_window_exceeded": "length",
}

// result checks that the answer is complete and converts it. field is the protocol's name of the stop reason.
func (d *draft) result(field string) (*llms.ContentResponse, error) {
	finish := strings.ToLower(strings.TrimSpace(d.finish))
	if finish == "" {
		return nil, invalidf("the answer ended without a %s after %d bytes of text: it was cut", field, d.text.Len())
	}
	info := map[string]any{infoModel: d.x.ref()}
	out := &llms.ContentChoice{
		Content: d.text.String(), ReasoningContent: d.reasoning.String(), ToolCalls: d.calls,
		StopReason: textutil.Truncate(cmp.Or(stopReasons[finish], finish), 60), GenerationInfo: info,
	}
	if d.model != "" && utf8.ValidString(d.model) {
		info[infoModel] = d.x.name + "/" + textutil.Truncate(d.model, 200)
	}
	if d.refusal.Len() > 0 {
		info[infoRefusal] = d.refusal.String()
	}
	if d.usage != nil {
		info[infoUsage] = *d.usage
	}
	if !d.state.empty() || d.x.row.Reasoning != "" && d.reasoning.Len() > 0 {
		d.state.By = d.x.name
		raw, err := textutil.JSON(&d.state)
		if err != nil {
			return nil, invalidf("the provider's own data: %v", err)
		}
		info[infoProvider] = json.RawMessage(raw)
	}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{out}}, nil
}
