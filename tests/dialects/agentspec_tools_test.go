package dialects

import "testing"

// toolAgent returns a flow with an agent that has one tool and submits the text r.
func toolAgent(tool string) string {
	return flowOf("[]", "n: {component_type: AgentNode, agent: {component_type: Agent, name: a, llm_config: '@m', human_in_the_loop: false, system_prompt: A, tools: ["+tool+"], outputs: [{title: r, type: string}]}}", "n", "[{title: r, type: string}]")
}

// toolScript returns a script that calls a tool with each of the arguments, expects the text after them in its result, and ends.
func toolScript(tool string, argumentsAndTexts ...string) string {
	script := "rules:\n"
	for i := 0; i < len(argumentsAndTexts); i += 2 {
		text := ""
		if i > 0 {
			text = ", contains: '" + argumentsAndTexts[i-1] + "'"
		}
		script += "- {turn: " + string(rune('1'+i/2)) + text + ", call: [{tool: " + tool + ", arguments: " + argumentsAndTexts[i] + "}]}\n"
	}
	last := len(argumentsAndTexts)
	return script + "- {turn: " + string(rune('1'+last/2)) + ", contains: '" + argumentsAndTexts[last-1] + "', call: [{tool: submit_result, arguments: {r: done}}]}\n"
}

const (
	pairTool   = "{component_type: ServerTool, name: pair, description: Adds, inputs: [{title: a, type: integer, minimum: 2}, {title: b, type: integer, default: 3, enum: [3, 4]}], outputs: [{title: sum, type: integer}, {title: diff}]}"
	remoteTool = "{component_type: RemoteTool, name: form, url: 'HOST/form', http_method: POST, data: '{{a}} and {{b}}', inputs: [{title: a, type: string, maxLength: 3}, {title: b, type: string, default: tea}], outputs: [{title: r, type: string}]}"
	clientTool = "{component_type: ClientTool, name: sky, inputs: [{title: a, type: string, enum: [x, y]}, {title: b, type: object, properties: {k: {type: integer}}, default: {k: 1}}], outputs: [{title: r}]}"
)

// toolCases check that defaults replace missing arguments, and that arguments that do not match a tool's inputs are rejected.
var toolCases = map[string]nodeCase{
	"a function": {shortCase: shortCase{doc: toolAgent(pairTool), params: `{}`, want: `{"r":"done"}`,
		script: toolScript("pair", "{a: 5}", `"sum":8`, "{a: 5, b: 4}", `"sum":9`, "{a: 1}", "is less than the minimum of 2", "{a: 5, b: 5}", "is not one of [3, 4]", "{}", "is a required property", "{a: 5, c: 1}", "was unexpected")}},
	"an HTTP request": {shortCase: shortCase{doc: toolAgent(remoteTool), params: `{}`, want: `{"r":"done"}`,
		script: toolScript("form", "{a: hot}", "hot and tea", "{a: hot, b: '{{a}}'}", "hot and {{a}}", "{a: long}", "is too long", "{b: x}", "is a required property")}},
	"a client-side tool": {shortCase: shortCase{doc: toolAgent(clientTool), params: `{}`, want: `{"r":"done"}`,
		script: toolScript("sky", "{a: x}", `"a":"x","b":{"k":1}`, "{a: z}", "is not one of", "{a: y, b: {k: 2}}", `"b":{"k":2}`)}, results: map[string]string{"sky": "arguments"}},
	"a node with a function":                        {shortCase: shortCase{doc: flowOf("[{title: a, type: number}]", "n: {component_type: ToolNode, tool: "+pairTool+", inputs: [{title: a, type: number}, {title: b, type: integer}]}", "n", "[{title: sum, type: integer}]"), params: `{"a":5.0}`, want: `{"sum":8}`}},
	"a node with a function, invalid value":         {shortCase: shortCase{doc: flowOf("[{title: a, type: integer}]", "n: {component_type: ToolNode, tool: "+pairTool+"}", "n", "[{title: sum, type: integer}]"), params: `{"a":1}`, fails: `node "n" at step 2 (flow.json:18): the values for the tool "pair" do not match its inputs: $.a: 1 is less than the minimum of 2; fix the node that supplies the values, or the inputs that the tool declares`}},
	"a node with a client-side tool, invalid value": {shortCase: shortCase{doc: flowOf("[{title: a, type: string}]", "n: {component_type: ToolNode, tool: {component_type: ClientTool, name: sky, inputs: [{title: a, type: string, maxLength: 2}], outputs: [{title: r}]}}", "n", "[{title: r}]"), params: `{"a":"long"}`, fails: `the values for the tool "sky" do not match its inputs: $.a: `}},
	"a node with an HTTP request, invalid value":    {shortCase: shortCase{doc: flowOf("[{title: a, type: string}]", "n: {component_type: ToolNode, tool: "+remoteTool+"}", "n", "[{title: r}]"), params: `{"a":"longer than it may be"}`, fails: `the values for the tool "form" do not match its inputs: $.a: `}},
	"a node with a client-side tool": {shortCase: shortCase{doc: flowOf("[{title: a, type: string}]", "n: {component_type: ToolNode, tool: "+clientTool+"}", "n", "[{title: r}]"), params: `{"a":"x"}`, want: `{"r":{"a":"x","b":{"k":1}}}`},
		results: map[string]string{"sky": "arguments"}},
}

func TestAgentSpecTools(t *testing.T) {
	t.Parallel()
	for name, c := range toolCases {
		t.Run(name, func(t *testing.T) { c.play(t) })
	}
}
