package dialects

import (
	"encoding/json"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

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
		t.Errorf("%+v, %v", p.Result, p.Err)
	}
}

// TestWayFlowAgent runs an agent as WayFlow exports it, with the template that it does not need.
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
		t.Errorf("%+v, %v", p.Result, p.Err)
	}
}

// wayFlow is a flow of nodes in a row, from its inputs to its outputs, with what it needs in components.
func wayFlow(kind, inputs, outputs string, nodes []string, data, components string) string {
	doc := "agentspec_version: 25.4.2\ncomponent_type: " + kind + "\nname: wf\nstart_node: {$component_ref: s}\n" +
		"inputs: " + inputs + "\noutputs: " + outputs + "\nnodes: [{$component_ref: s}, {$component_ref: e}"
	edges, before := "", "s"
	branch := "next"
	for _, n := range append(nodes, "e") {
		n, leave, ok := strings.Cut(n, "@") // NODE@BRANCH is left by that branch
		if n != "e" {
			doc += ", {$component_ref: " + n + "}"
		}
		edges += "\n  - {component_type: ControlFlowEdge, name: to-" + n + ", from_branch: " + branch + ", from_node: {$component_ref: " + before + "}, to_node: {$component_ref: " + n + "}}"
		if before, branch = n, "next"; ok {
			branch = leave
		}
	}
	doc += "]\ncontrol_flow_connections:" + edges + "\ndata_flow_connections:"
	for line := range strings.Lines(data) {
		f := strings.Fields(line) // FROM.OUTPUT TO.INPUT
		from, output, _ := strings.Cut(f[0], ".")
		to, input, _ := strings.Cut(f[1], ".")
		doc += "\n  - {component_type: DataFlowEdge, name: d, source_node: {$component_ref: " + from + "}, source_output: " + output +
			", destination_node: {$component_ref: " + to + "}, destination_input: " + input + "}"
	}
	return doc + "\n$referenced_components:\n  s: {component_type: StartNode, name: s, inputs: " + inputs + "}\n  e: {component_type: EndNode, name: e, outputs: " + outputs + "}\n" + components
}

// TestWayFlowNodes runs nodes of WayFlow's plugins that no type of the language has.
func TestWayFlowNodes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, doc, params, want string
	}{
		{"the first match of a regular expression, by its group, the default where there is none", wayFlow("Flow", "[{title: text, type: string}]", "[{title: first, type: string}, {title: all, type: array, items: {}}, {title: last, type: string}, {title: none, type: string}]",
			[]string{"first", "all", "last", "none"}, "s.text first.text\ns.text all.text\ns.text last.text\ns.text none.text\nfirst.output e.first\nall.output e.all\nlast.output e.last\nnone.output e.none", `
  first: {component_type: PluginRegexNode, name: first, regex_pattern: '<b>(.*?)</b>', return_first_match_only: true}
  all: {component_type: PluginRegexNode, name: all, regex_pattern: '(\w)=(\d)', return_first_match_only: false}
  last: {component_type: PluginRegexNode, name: last, regex_pattern: {pattern: 'b.', match: last, flags: 18}}
  none: {component_type: PluginRegexNode, name: none, regex_pattern: 'x{5}', outputs: [{title: output, type: string, default: nothing}]}
`), `{"text": "<b>one</b> a=1 c=2 Bo"}`, `{"first":"one","all":[["a","1"],["c","2"]],"last":"Bo","none":"nothing"}`},
		{"a template, with names of its own for what it takes and leaves", wayFlow("Flow", "[{title: user, type: string}]", "[{title: greeting, type: string}]",
			[]string{"t"}, "s.user t.user\nt.greeting e.greeting", `
  t: {component_type: PluginTemplateNode, name: t, template: 'Hello {{ who }}!', input_mapping: {who: user}, output_mapping: {output: greeting}}
`), `{"user": "Ada"}`, `{"greeting":"Hello Ada!"}`},
		{"variables: inserted into, merged with and overwritten, then read", wayFlow("ExtendedFlow", "[{title: a, type: string}, {title: b, type: array, items: {type: string}}]", "[{title: list, type: array, items: {type: string}}, {title: n, type: integer}, {title: both, type: array, items: {type: string}}]",
			[]string{"insert", "again", "merge", "n", "read", "readn", "both"}, "s.a insert.value\ns.a again.list\ns.b merge.list\nread.value e.list\nreadn.n e.n\ns.b both.list\nboth.list e.both", `
  insert: {component_type: PluginWriteVariableNode, name: insert, operation: insert, variable: &list {title: list, type: array, items: {type: string}, default: [first]}}
  again: {component_type: PluginVariableNode, name: again, write_variables: [*list], read_variables: [], write_operations: {list: insert}}
  merge: {component_type: PluginVariableNode, name: merge, write_variables: [*list], read_variables: [], write_operations: merge}
  n: {component_type: PluginWriteVariableNode, name: n, operation: overwrite, variable: {title: n, type: integer}, inputs: [{title: value, type: integer, default: 7}]}
  read: {component_type: PluginReadVariableNode, name: read, variable: *list}
  readn: {component_type: PluginVariableNode, name: readn, read_variables: [{title: n, type: integer}], write_variables: [], write_operations: {}}
  both: {component_type: PluginVariableNode, name: both, read_variables: [*list], write_variables: [*list], write_operations: {list: overwrite}}
`), `{"a": "x", "b": ["y", "z"]}`, `{"list":["first","x","x","y","z"],"n":7,"both":["y","z"]}`},
		{"a map over objects, with members of each", wayFlow("Flow", "[{title: people, type: array, items: {type: object}}]", "[{title: lines, type: array, items: {type: string}}]",
			[]string{"m"}, "s.people m.iterated_input\nm.lines e.lines", `
  m: {component_type: ExtendedMapNode, name: m, flow: {$component_ref: inner}, unpack_input: {name: .name, city: .home.city}, parallel_execution: true, max_workers: 2,
      inputs: [{title: iterated_input, type: array, items: {}}], outputs: [{title: lines, type: array, items: {type: string}}], output_mapping: {line: lines}}
`+innerFlow), `{"people": [{"name": "Ada", "home": {"city": "London"}}, {"name": "Kurt", "home": {"city": "Brno"}}]}`, `{"lines":["Ada of London","Kurt of Brno"]}`},
		{"a map over the members of an object", wayFlow("Flow", "[{title: people, type: object}]", "[{title: line, type: array, items: {type: string}}]",
			[]string{"m"}, "s.people m.iterated_input\nm.line e.line", `
  m: {component_type: ExtendedMapNode, name: m, flow: {$component_ref: inner}, unpack_input: {name: ._key, city: ._value},
      inputs: [{title: iterated_input, type: object}], outputs: [{title: line, type: array, items: {type: string}}]}
`+innerFlow), `{"people": {"Ada": "London", "Kurt": "Brno"}}`, `{"line":["Ada of London","Kurt of Brno"]}`},
		{"what fails goes on by the branch for all failures", wayFlow("Flow", "[]", "[{title: n, type: integer}, {title: exception_name}]",
			[]string{"c@default_exception_branch"}, "c.n e.n\nc.exception_name e.exception_name", `
  c: {component_type: PluginCatchExceptionNode, name: c, flow: {$component_ref: inner}, except_on: {timeout: late}, catch_all_exceptions: true}
`+failingFlow), `{}`, `{"n":0,"exception_name":"invalid_value"}`},
		{"what fails goes on by the branch of its class", wayFlow("Flow", "[]", "[{title: n, type: integer}, {title: why}]",
			[]string{"c@bad"}, "c.n e.n\nc.why e.why", `
  c: {component_type: PluginCatchExceptionNode, name: c, flow: {$component_ref: inner}, except_on: {invalid_value: bad}, output_mapping: {exception_payload_name: why}}
`+failingFlow), `{}`, `{"n":0,"why":"nothing has given the input \"value\" a value"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var doc any
			if err := yaml.Unmarshal([]byte(tt.doc), &doc); err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			p := harness.TestRun{Document: string(raw), SetInput: func(in *contract.RunInput) { in.Params = json.RawMessage(tt.params) }}.Execute(t)
			if p.Err != nil {
				t.Fatal(p.Err, p.Err.Diagnostics)
			}
			if got := string(p.Result.ResultData); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// innerFlow makes one line of two inputs.
const innerFlow = `
  inner:
    component_type: Flow
    name: inner
    start_node: {$component_ref: is}
    inputs: &in [{title: name, type: string}, {title: city, type: string}]
    outputs: &out [{title: line, type: string}]
    nodes: [{$component_ref: is}, {$component_ref: it}, {$component_ref: ie}]
    control_flow_connections:
      - {component_type: ControlFlowEdge, name: i1, from_node: {$component_ref: is}, to_node: {$component_ref: it}}
      - {component_type: ControlFlowEdge, name: i2, from_node: {$component_ref: it}, to_node: {$component_ref: ie}}
    data_flow_connections:
      - {component_type: DataFlowEdge, name: d1, source_node: {$component_ref: is}, source_output: name, destination_node: {$component_ref: it}, destination_input: name}
      - {component_type: DataFlowEdge, name: d2, source_node: {$component_ref: is}, source_output: city, destination_node: {$component_ref: it}, destination_input: city}
      - {component_type: DataFlowEdge, name: d3, source_node: {$component_ref: it}, source_output: output, destination_node: {$component_ref: ie}, destination_input: line}
  is: {component_type: StartNode, name: is, inputs: *in}
  it: {component_type: PluginTemplateNode, name: it, template: "{{name}} of {{city}}"}
  ie: {component_type: EndNode, name: ie, outputs: *out}
`

// failingFlow reads a variable that has no value.
const failingFlow = `
  inner:
    component_type: Flow
    name: inner
    start_node: {$component_ref: is}
    outputs: [{title: n, type: integer}]
    nodes: [{$component_ref: is}, {$component_ref: it}, {$component_ref: ie}]
    control_flow_connections:
      - {component_type: ControlFlowEdge, name: i1, from_node: {$component_ref: is}, to_node: {$component_ref: it}}
      - {component_type: ControlFlowEdge, name: i2, from_node: {$component_ref: it}, to_node: {$component_ref: ie}}
    data_flow_connections:
      - {component_type: DataFlowEdge, name: d1, source_node: {$component_ref: it}, source_output: value, destination_node: {$component_ref: ie}, destination_input: n}
  is: {component_type: StartNode, name: is}
  it: {component_type: PluginReadVariableNode, name: it, variable: {title: n, type: integer}}
  ie: {component_type: EndNode, name: ie, outputs: [{title: n, type: integer}]}
`
