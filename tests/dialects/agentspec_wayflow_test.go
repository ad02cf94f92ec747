package dialects

import (
	"encoding/json"
	"testing"

	"weft/activities/contract"
	"weft/tests/harness"
)

// TestWayFlowMessages runs message nodes as WayFlow exports them.
func TestWayFlowMessages(t *testing.T) {
	t.Parallel()
	const doc = `{"agentspec_version": "25.4.1", "component_type": "Flow", "name": "wf", "start_node": {"$component_ref": "s"},
"nodes": [{"$component_ref": "s"}, {"$component_ref": "ask"}, {"$component_ref": "say"}, {"$component_ref": "e"}],
"control_flow_connections": [
 {"component_type": "ControlFlowEdge", "name": "a", "from_node": {"$component_ref": "s"}, "to_node": {"$component_ref": "ask"}},
 {"component_type": "ControlFlowEdge", "name": "b", "from_node": {"$component_ref": "ask"}, "to_node": {"$component_ref": "say"}},
 {"component_type": "ControlFlowEdge", "name": "c", "from_node": {"$component_ref": "say"}, "to_node": {"$component_ref": "e"}}],
"data_flow_connections": [
 {"component_type": "DataFlowEdge", "name": "d", "source_node": {"$component_ref": "ask"}, "source_output": "user_provided_input", "destination_node": {"$component_ref": "say"}, "destination_input": "feedback"},
 {"component_type": "DataFlowEdge", "name": "f", "source_node": {"$component_ref": "say"}, "source_output": "output_message", "destination_node": {"$component_ref": "e"}, "destination_input": "output_message"}],
"$referenced_components": {
 "s": {"component_type": "StartNode", "name": "s"},
 "ask": {"component_type": "PluginInputMessageNode", "name": "ask", "message_template": "What do you say?", "outputs": [{"title": "user_provided_input", "type": "string"}],
  "input_mapping": {}, "output_mapping": {}, "rephrase": false, "llm_config": null, "component_plugin_name": "NodesPlugin", "component_plugin_version": "25.4.0"},
 "say": {"component_type": "PluginOutputMessageNode", "name": "say", "message": "You said: {{ feedback }}", "message_type": "AGENT", "inputs": [{"title": "feedback", "type": "string"}],
  "outputs": [{"title": "output_message", "type": "string"}], "expose_message_as_output": true, "rephrase": false, "component_plugin_name": "NodesPlugin", "component_plugin_version": "25.4.0"},
 "e": {"component_type": "EndNode", "name": "e", "outputs": [{"title": "output_message", "type": "string"}]}}}`
	p := harness.TestRun{Document: doc, Answers: []string{"hello"}}.Execute(t)
	if p.Err != nil || string(p.Result.ResultData) != `{"output_message":"You said: hello"}` {
		t.Errorf("result = %+v, %v", p.Result, p.Err)
	}
}

// TestWayFlowAgent runs an agent as WayFlow exports it, including a prompt template that is not used.
func TestWayFlowAgent(t *testing.T) {
	t.Parallel()
	const doc = `{"agentspec_version": "25.4.1", "component_type": "ExtendedAgent", "name": "a", "system_prompt": "Help.", "human_in_the_loop": false,
"llm_config": {"component_type": "VllmConfig", "name": "m", "model_id": "m", "url": "http://x"}, "tools": [], "toolboxes": [], "context_providers": null,
"can_finish_conversation": false, "max_iterations": 10, "initial_message": "Hi!", "caller_input_mode": "always", "agents": [], "flows": [],
"agent_template": {"$component_ref": "t"}, "component_plugin_name": "AgentPlugin", "component_plugin_version": "25.4.0",
"$referenced_components": {"t": {"component_type": "PluginPromptTemplate", "name": "t", "messages": [], "component_plugin_name": "PromptTemplatePlugin", "component_plugin_version": "25.4.0",
 "post_rendering_transforms": [{"component_type": "PluginRemoveEmptyNonUserMessageTransform", "name": "r", "component_plugin_name": "MessagesTransformPlugin", "component_plugin_version": "25.4.0"}]}}}`
	p := harness.TestRun{Document: doc, Input: "Hello", Script: `rules: [{say: "How are you?"}]`}.Execute(t)
	if p.Err != nil || *p.Result.ResultText != "How are you?" {
		t.Errorf("result = %+v, %v", p.Result, p.Err)
	}
}

// TestWayFlowAgentCalls checks that an agent can call flows and agents: a flow is a tool, whose arguments are validated against the
// flow's inputs and completed with their defaults; an agent is sent messages.
func TestWayFlowAgentCalls(t *testing.T) {
	t.Parallel()
	const doc = `{"agentspec_version": "25.4.1", "component_type": "ExtendedAgent", "name": "boss", "system_prompt": "Help.", "human_in_the_loop": false,
"llm_config": {"$component_ref": "m"}, "outputs": [{"title": "answer", "type": "string"}], "component_plugin_name": "AgentPlugin", "component_plugin_version": "25.4.0",
"agents": [{"component_type": "ExtendedAgent", "name": "expert", "description": "Knows all.", "system_prompt": "Answer.", "human_in_the_loop": false, "llm_config": {"$component_ref": "m"}}],
"flows": [{"component_type": "Flow", "name": "greet somebody", "description": "Greets.", "start_node": {"$component_ref": "s"},
 "nodes": [{"$component_ref": "s"}, {"$component_ref": "t"}, {"$component_ref": "e"}],
 "control_flow_connections": [
  {"component_type": "ControlFlowEdge", "name": "a", "from_node": {"$component_ref": "s"}, "to_node": {"$component_ref": "t"}},
  {"component_type": "ControlFlowEdge", "name": "b", "from_node": {"$component_ref": "t"}, "to_node": {"$component_ref": "e"}}],
 "data_flow_connections": null}],
"$referenced_components": {
 "m": {"component_type": "VllmConfig", "name": "m", "model_id": "m", "url": "http://x"},
 "s": {"component_type": "StartNode", "name": "s", "inputs": [{"title": "who", "type": "string"}, {"title": "times", "type": "integer", "default": 2}]},
 "t": {"component_type": "PluginTemplateNode", "name": "t", "template": "Hello {{who}}, {{times}} times", "component_plugin_name": "NodesPlugin", "component_plugin_version": "25.4.0"},
 "e": {"component_type": "EndNode", "name": "e", "outputs": [{"title": "output", "type": "string"}]}}}`
	p := harness.TestRun{Document: doc, Input: "Go", Script: `rules:
- {node: boss, turn: 1, call: [{tool: greet_somebody, arguments: {times: 3}}]}
- {node: boss, match: "greet_somebody are invalid", call: [{tool: greet_somebody, arguments: {who: Ada}}]}
- {node: boss, match: "Hello Ada, 2 times", call: [{tool: send_message, arguments: {recipient: expert, message: "Why?"}}]}
- {node: boss/expert, match: "Why", say: Because.}
- {node: boss, match: "Because", call: [{tool: submit_result, arguments: {answer: done}}]}
`}.Execute(t)
	if p.Err != nil || string(p.Result.ResultData) != `{"answer":"done"}` {
		t.Errorf("result = %+v, %v", p.Result, p.Err)
	}
}

// TestWayFlowNodes runs nodes of WayFlow's plugins that have no equivalent in Agent Spec.
func TestWayFlowNodes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, doc, params, want string
	}{
		{"a regular expression: first, all, last and no match", `
flow:
  nodes:
    s: {component_type: StartNode, inputs: [{title: text, type: string}]}
    first: {component_type: PluginRegexNode, regex_pattern: '<b>(.*?)</b>', return_first_match_only: true}
    all: {component_type: PluginRegexNode, regex_pattern: '(\w)=(\d)', return_first_match_only: false}
    last: {component_type: PluginRegexNode, regex_pattern: {pattern: 'b.', match: last, flags: 18}}
    none: {component_type: PluginRegexNode, regex_pattern: 'x{5}', outputs: [{title: output, type: string, default: nothing}]}
    e: {component_type: EndNode, outputs: [{title: first, type: string}, {title: all, type: array, items: {}}, {title: last, type: string}, {title: none, type: string}]}
  go: ["s > first > all > last > none > e"]
  data: [s.text > first.text, s.text > all.text, s.text > last.text, s.text > none.text, first.output > e.first, all.output > e.all, last.output > e.last, none.output > e.none]
`, `{"text": "<b>one</b> a=1 c=2 Bo"}`, `{"first":"one","all":[["a","1"],["c","2"]],"last":"Bo","none":"nothing"}`},
		{"a template with mapped inputs and outputs", `
flow:
  nodes:
    s: {component_type: StartNode, inputs: [{title: user, type: string}]}
    t: {component_type: PluginTemplateNode, template: 'Hello {{ who }}!', input_mapping: {who: user}, output_mapping: {output: greeting}}
    e: {component_type: EndNode, outputs: [{title: greeting, type: string}]}
  go: [s > t > e]
  data: [s.user > t.user, t.greeting > e.greeting]
`, `{"user": "Ada"}`, `{"greeting":"Hello Ada!"}`},
		{"variables: insert, merge, overwrite and read", `
flow:
  component_type: ExtendedFlow
  state: [&list {title: list, type: array, items: {type: string}, default: [first]}, {title: n, type: integer}]
  nodes:
    s: {component_type: StartNode, inputs: [{title: a, type: string}, {title: b, type: array, items: {type: string}}]}
    insert: {component_type: PluginWriteVariableNode, operation: insert, variable: *list}
    again: {component_type: PluginVariableNode, write_variables: [*list], read_variables: [], write_operations: {list: insert}}
    merge: {component_type: PluginVariableNode, write_variables: [*list], read_variables: [], write_operations: merge}
    n: {component_type: PluginWriteVariableNode, operation: overwrite, variable: {title: n, type: integer}, inputs: [{title: value, type: integer, default: 7}]}
    read: {component_type: PluginReadVariableNode, variable: *list}
    readn: {component_type: PluginVariableNode, read_variables: [{title: n, type: integer}], write_variables: [], write_operations: {}}
    both: {component_type: PluginVariableNode, read_variables: [*list], write_variables: [*list], write_operations: {list: overwrite}}
    e: {component_type: EndNode, outputs: [{title: list, type: array, items: {type: string}}, {title: n, type: integer}, {title: both, type: array, items: {type: string}}]}
  go: [s > insert > again > merge > n > read > readn > both > e]
  data: [s.a > insert.value, s.a > again.list, s.b > merge.list, read.value > e.list, readn.n > e.n, s.b > both.list, both.list > e.both]
`, `{"a": "x", "b": ["y", "z"]}`, `{"list":["first","x","x","y","z"],"n":7,"both":["y","z"]}`},
		{"a map over objects, unpacked", `
flow:
  nodes:
    s: {component_type: StartNode, inputs: [{title: people, type: array, items: {type: object}}]}
    m: {component_type: ExtendedMapNode, flow: "@inner", unpack_input: {name: .name, city: .home.city}, parallel_execution: true, max_workers: 2,
      inputs: [{title: iterated_input, type: array, items: {}}], outputs: [{title: lines, type: array, items: {type: string}}], output_mapping: {line: lines}}
    e: {component_type: EndNode, outputs: [{title: lines, type: array, items: {type: string}}]}
  go: [s > m > e]
  data: [s.people > m.iterated_input, m.lines > e.lines]
` + innerFlow, `{"people": [{"name": "Ada", "home": {"city": "London"}}, {"name": "Kurt", "home": {"city": "Brno"}}]}`, `{"lines":["Ada of London","Kurt of Brno"]}`},
		{"a map over the members of an object", `
flow:
  nodes:
    s: {component_type: StartNode, inputs: [{title: people, type: object}]}
    m: {component_type: ExtendedMapNode, flow: "@inner", unpack_input: {name: ._key, city: ._value},
      inputs: [{title: iterated_input, type: object}], outputs: [{title: line, type: array, items: {type: string}}]}
    e: {component_type: EndNode, outputs: [{title: line, type: array, items: {type: string}}]}
  go: [s > m > e]
  data: [s.people > m.iterated_input, m.line > e.line]
` + innerFlow, `{"people": {"Ada": "London", "Kurt": "Brno"}}`, `{"line":["Ada of London","Kurt of Brno"]}`},
		{"the default exception branch", `
flow:
  nodes:
    s: {component_type: StartNode}
    c: {component_type: PluginCatchExceptionNode, flow: "@inner", except_on: {timeout: late}, catch_all_exceptions: true}
    e: {component_type: EndNode, outputs: [{title: n, type: integer}, {title: exception_name}]}
  go: [s > c, c.default_exception_branch > e]
  data: [c.n > e.n, c.exception_name > e.exception_name]
` + failingFlow, `{}`, `{"n":0,"exception_name":"invalid_value"}`},
		{"the exception branch of a class", `
flow:
  nodes:
    s: {component_type: StartNode}
    c: {component_type: PluginCatchExceptionNode, flow: "@inner", except_on: {invalid_value: bad}, output_mapping: {exception_payload_name: why}}
    e: {component_type: EndNode, outputs: [{title: n, type: integer}, {title: why}]}
  go: [s > c, c.bad > e]
  data: [c.n > e.n, c.why > e.why]
` + failingFlow, `{}`, `{"n":0,"why":"the input \"value\" has no value"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := harness.TestRun{Document: specDoc(t, tt.doc), SetInput: func(in *contract.RunInput) { in.Params = json.RawMessage(tt.params) }}.Execute(t)
			if p.Err != nil {
				t.Fatal(p.Err, p.Err.Diagnostics)
			}
			if got := string(p.Result.ResultData); got != tt.want {
				t.Errorf("outputs = %s, want %s", got, tt.want)
			}
		})
	}
}

// innerFlow joins two inputs into one line.
const innerFlow = `
inner:
  nodes:
    is: {component_type: StartNode, inputs: [{title: name, type: string}, {title: city, type: string}]}
    it: {component_type: PluginTemplateNode, template: "{{name}} of {{city}}"}
    ie: {component_type: EndNode, outputs: [{title: line, type: string}]}
  go: [is > it > ie]
  data: [is.name > it.name, is.city > it.city, it.output > ie.line]
`

// failingFlow reads a variable that has no value.
const failingFlow = `
inner:
  component_type: ExtendedFlow
  state: [{title: n, type: integer}]
  nodes:
    is: {component_type: StartNode}
    it: {component_type: PluginReadVariableNode, variable: {title: n, type: integer}}
    ie: {component_type: EndNode, outputs: [{title: n, type: integer}]}
  go: [is > it > ie]
  data: [it.value > ie.n]
`
