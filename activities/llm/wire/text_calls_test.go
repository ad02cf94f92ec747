package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
)

// weatherTools are two tools offered to the model.
var weatherTools = []llms.Tool{
	{Type: "function", Function: &llms.FunctionDefinition{Name: "weather", Parameters: json.RawMessage(
		`{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},"places":{"type":"array"}}}`)}},
	{Type: "function", Function: &llms.FunctionDefinition{Name: "now"}},
}

// TestCallsInText checks the formats of calls that servers leave in the text. Text that is not entirely valid remains text.
func TestCallsInText(t *testing.T) {
	oslo := contract.ToolCall{Name: "weather", Arguments: `{"city":"Oslo"}`}
	now := contract.ToolCall{Name: "now", Arguments: `{}`}
	for name, tt := range map[string]struct {
		text, rest string
		calls      []contract.ToolCall
	}{
		"Hermes":                     {"<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\":\"Oslo\"}}\n</tool_call>", "", []contract.ToolCall{oslo}},
		"Hermes, two calls and text": {"I look.\n<tool_call>{\"name\":\"weather\",\"arguments\":{\"city\":\"Oslo\"}}</tool_call>\n<tool_call>{\"name\":\"now\"}</tool_call><|im_end|>", "I look.", []contract.ToolCall{oslo, now}},
		"Hermes without an end":      {`<tool_call>{"name":"now","arguments":{}}`, "", []contract.ToolCall{now}},
		"arguments as a string":      {`<tool_call>{"name":"weather","arguments":"{\"city\":\"Oslo\"}"}</tool_call>`, "", []contract.ToolCall{oslo}},
		"an unknown tool":            {`<tool_call>{"name":"wether","arguments":{}}</tool_call>`, "", []contract.ToolCall{{Name: "wether", Arguments: "{}"}}},
		"Qwen3-Coder":                {"<tool_call>\n<function=weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=places>\n[\"a\"]\n</parameter>\n</function>\n</tool_call>", "", []contract.ToolCall{{Name: "weather", Arguments: `{"city":"Oslo","days":3,"places":["a"]}`}}},
		"Qwen3-Coder, a number":      {"<function=weather>\n<parameter=city>\n42\n</parameter>\n</function>", "", []contract.ToolCall{{Name: "weather", Arguments: `{"city":"42"}`}}},
		"Qwen3-Coder, lines":         {"<function=weather>\n<parameter=city>\na < b\n  c\n</parameter>\n</function>", "", []contract.ToolCall{{Name: "weather", Arguments: `{"city":"a < b\n  c"}`}}},
		"Qwen3-Coder, invalid type":  {"<function=weather><parameter=days>soon</parameter></function>", "", []contract.ToolCall{{Name: "weather", Arguments: `{"days":"soon"}`}}},
		"Functionary":                {`<function=weather>{"city":"Oslo"}</function>`, "", []contract.ToolCall{oslo}},
		"Mistral":                    {`[TOOL_CALLS] [{"name":"weather","arguments":{"city":"Oslo"}},{"name":"now","arguments":{}}]</s>`, "", []contract.ToolCall{oslo, now}},
		"Mistral 11":                 {`[TOOL_CALLS]weather[ARGS]{"city":"Oslo"}[TOOL_CALLS]now[CALL_ID]a1[ARGS]{}`, "", []contract.ToolCall{oslo, now}},
		"Mistral, no marks":          {`Well.[TOOL_CALLS]weather{"city":"Oslo"}`, "Well.", []contract.ToolCall{oslo}},
		"Llama":                      {`<|python_tag|>{"name":"weather","parameters":{"city":"Oslo"}}; {"name":"now","parameters":{}}<|eom_id|>`, "", []contract.ToolCall{oslo, now}},
		"Llama, bare":                {`{"name": "weather", "parameters": {"city":"Oslo"}}`, "", []contract.ToolCall{oslo}},
		"Llama, bare with a type":    {`{"type": "function", "name": "now", "parameters": {}}`, "", []contract.ToolCall{now}},
		"a bare list":                {`[{"name": "weather", "arguments": {"city":"Oslo"}}]`, "", []contract.ToolCall{oslo}},
		"DeepSeek V3":                {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{\"city\":\"Oslo\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>", "", []contract.ToolCall{oslo, now}},
		"DeepSeek V3.1":              {`So.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{"city":"Oslo"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`, "So.", []contract.ToolCall{oslo}},
		"Granite":                    {`<|tool_call|>[{"name":"weather","arguments":{"city":"Oslo"}}]`, "", []contract.ToolCall{oslo}},

		"plain text":                       {text: "It rains in Oslo.\n"},
		"no text":                          {text: ""},
		"text that mentions a marker":      {text: "Write <tool_call> and the name of a tool."},
		"half a call":                      {text: `<tool_call>{"name":"weather","arguments":{"city":"Os`},
		"a call and half a call":           {text: `<tool_call>{"name":"now"}</tool_call><tool_call>{"name":"weather"`},
		"a list with an invalid element":   {text: `[TOOL_CALLS][{"name":"now","arguments":{}},{"x":1}]`},
		"arguments that are not an object": {text: `<tool_call>{"name":"weather","arguments":[1]}</tool_call>`},
		"no name":                          {text: `<tool_call>{"arguments":{}}</tool_call>`},
		"an element without an end":        {text: "<function=weather><parameter=city>Oslo</function>"},
		"Python":                           {text: `<|python_tag|>brave_search.call(query="Oslo")`},
		"an object that is not a call":     {text: `{"name":"weather","city":"Oslo"}`},
		"an object with another field":     {text: `{"name":"weather","parameters":{},"note":"x"}`},
		"an object of an unknown tool":     {text: `{"name":"Anna","parameters":{"age":3}}`},
		"an object and text":               {text: `{"name":"now","parameters":{}} is how to call it`},
		"an empty list":                    {text: `[]`},
		"a block without its arguments":    {text: "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
		"very deep":                        {text: "<tool_call>" + strings.Repeat("[", 100_000)},
	} {
		t.Run(name, func(t *testing.T) {
			calls, rest := callsInText(tt.text, weatherTools)
			if tt.calls == nil {
				tt.rest = tt.text
			}
			if diff := cmp.Diff(tt.calls, calls); diff != "" || rest != tt.rest {
				t.Errorf("rest %q, want %q; calls (-want +got):\n%s", rest, tt.rest, diff)
			}
		})
	}
}

// FuzzCallsInText checks that a text is unchanged unless all of its calls are valid.
func FuzzCallsInText(f *testing.F) {
	for _, s := range []string{`<tool_call>{"name":"now"}</tool_call>`, "<function=weather><parameter=city>x</parameter></function>", `[TOOL_CALLS]now[ARGS]{}`, `<|python_tag|>{"name":"now"};`, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		calls, rest := callsInText(text, weatherTools)
		if len(calls) == 0 && rest != text {
			t.Errorf("%q became %q", text, rest)
		}
		for _, c := range calls {
			if c.Name == "" || !json.Valid([]byte(c.Arguments)) || c.Arguments[0] != '{' {
				t.Errorf("%q parsed as the call %+v", text, c)
			}
		}
	})
}
