package tests

import "testing"

// A flow of many kinds of nodes gives what its parts make: values are cast, answers that are no
// value are asked for again, what fails is caught.
func TestAgentSpecMixed(t *testing.T) {
	p := rehearsal{doc: agentspecMixed, script: agentspecMixedScript}.play(t)
	if p.err != nil {
		t.Fatal(p.err)
	}
	const want = `{"total":9,"length":3,"why":"script: not that (attempt 1)"}`
	if string(p.result.ResultData) != want {
		t.Errorf("outputs %s, want %s", p.result.ResultData, want)
	}
}

// agentspecMixed is a flow with agents in one conversation, a subflow in its place, one for each
// element of a list, and one that fails and is caught.
const agentspecMixed = `{"component_type":"Flow","agentspec_version":"26.1.2","name":"mixed","start_node":{"$component_ref":"start"},
"nodes":[{"$component_ref":"start"},{"$component_ref":"count"},{"$component_ref":"agent"},{"$component_ref":"each"},{"$component_ref":"place"},{"$component_ref":"guard"},{"$component_ref":"route"},{"$component_ref":"note"},{"$component_ref":"end"}],
"control_flow_connections":[
{"component_type":"ControlFlowEdge","name":"1","from_node":{"$component_ref":"start"},"to_node":{"$component_ref":"count"}},
{"component_type":"ControlFlowEdge","name":"2","from_node":{"$component_ref":"count"},"to_node":{"$component_ref":"agent"}},
{"component_type":"ControlFlowEdge","name":"3","from_node":{"$component_ref":"agent"},"to_node":{"$component_ref":"each"}},
{"component_type":"ControlFlowEdge","name":"4","from_node":{"$component_ref":"each"},"to_node":{"$component_ref":"place"}},
{"component_type":"ControlFlowEdge","name":"5","from_node":{"$component_ref":"place"},"to_node":{"$component_ref":"guard"}},
{"component_type":"ControlFlowEdge","name":"6","from_node":{"$component_ref":"guard"},"to_node":{"$component_ref":"end"}},
{"component_type":"ControlFlowEdge","name":"7","from_node":{"$component_ref":"guard"},"from_branch":"caught_exception_branch","to_node":{"$component_ref":"route"}},
{"component_type":"ControlFlowEdge","name":"8","from_node":{"$component_ref":"route"},"from_branch":"more","to_node":{"$component_ref":"note"}},
{"component_type":"ControlFlowEdge","name":"9","from_node":{"$component_ref":"route"},"from_branch":"default","to_node":{"$component_ref":"end"}},
{"component_type":"ControlFlowEdge","name":"10","from_node":{"$component_ref":"note"},"to_node":{"$component_ref":"end"}}],
"data_flow_connections":[
{"component_type":"DataFlowEdge","name":"1","source_node":{"$component_ref":"start"},"source_output":"text","destination_node":{"$component_ref":"count"},"destination_input":"text"},
{"component_type":"DataFlowEdge","name":"2","source_node":{"$component_ref":"count"},"source_output":"n","destination_node":{"$component_ref":"agent"},"destination_input":"n"},
{"component_type":"DataFlowEdge","name":"3","source_node":{"$component_ref":"agent"},"source_output":"words","destination_node":{"$component_ref":"each"},"destination_input":"iterated_word"},
{"component_type":"DataFlowEdge","name":"4","source_node":{"$component_ref":"start"},"source_output":"text","destination_node":{"$component_ref":"place"},"destination_input":"word"},
{"component_type":"DataFlowEdge","name":"5","source_node":{"$component_ref":"each"},"source_output":"collected_length","destination_node":{"$component_ref":"end"},"destination_input":"total"},
{"component_type":"DataFlowEdge","name":"6","source_node":{"$component_ref":"place"},"source_output":"length","destination_node":{"$component_ref":"end"},"destination_input":"length"},
{"component_type":"DataFlowEdge","name":"7","source_node":{"$component_ref":"place"},"source_output":"length","destination_node":{"$component_ref":"route"},"destination_input":"length"},
{"component_type":"DataFlowEdge","name":"8","source_node":{"$component_ref":"start"},"source_output":"text","destination_node":{"$component_ref":"guard"},"destination_input":"text"},
{"component_type":"DataFlowEdge","name":"9","source_node":{"$component_ref":"guard"},"source_output":"caught_exception_info","destination_node":{"$component_ref":"end"},"destination_input":"why"},
{"component_type":"DataFlowEdge","name":"10","source_node":{"$component_ref":"place"},"source_output":"length","destination_node":{"$component_ref":"note"},"destination_input":"length"}],
"$referenced_components":{
"model":{"component_type":"OpenAiConfig","name":"m","model_id":"m"},
"start":{"component_type":"StartNode","name":"start","inputs":[{"title":"text","type":"string","default":"tea"}]},
"count":{"component_type":"LlmNode","name":"count","llm_config":{"$component_ref":"model"},"prompt_template":"How many words: {{text}}","outputs":[{"title":"n","type":"integer"}]},
"agent":{"component_type":"AgentNode","name":"agent","agent":{"component_type":"Agent","name":"a","llm_config":{"$component_ref":"model"},"human_in_the_loop":false,"system_prompt":"List {{n}} words.","inputs":[{"title":"n","type":"integer"}],"outputs":[{"title":"words","type":"array","items":{"type":"string"}}]}},
"each":{"component_type":"ParallelMapNode","name":"each","reducers":{"length":"sum"},"subflow":{"$component_ref":"measure"}},
"place":{"component_type":"FlowNode","name":"place","subflow":{"$component_ref":"measure"}},
"measure":{"component_type":"Flow","name":"measure","start_node":{"$component_ref":"m1"},"nodes":[{"$component_ref":"m1"},{"$component_ref":"m2"},{"$component_ref":"m3"}],
"control_flow_connections":[{"component_type":"ControlFlowEdge","name":"m1","from_node":{"$component_ref":"m1"},"to_node":{"$component_ref":"m2"}},{"component_type":"ControlFlowEdge","name":"m2","from_node":{"$component_ref":"m2"},"to_node":{"$component_ref":"m3"}}]},
"m1":{"component_type":"StartNode","name":"m1","inputs":[{"title":"word","type":"string"}]},
"m2":{"component_type":"LlmNode","name":"m2","llm_config":{"$component_ref":"model"},"prompt_template":"How long is {{word}}?","outputs":[{"title":"length","type":"integer"}]},
"m3":{"component_type":"EndNode","name":"m3","outputs":[{"title":"length","type":"integer"}]},
"guard":{"component_type":"CatchExceptionNode","name":"guard","subflow":{"$component_ref":"risk"}},
"risk":{"component_type":"Flow","name":"risk","start_node":{"$component_ref":"r1"},"nodes":[{"$component_ref":"r1"},{"$component_ref":"r2"},{"$component_ref":"r3"}],
"control_flow_connections":[{"component_type":"ControlFlowEdge","name":"r1","from_node":{"$component_ref":"r1"},"to_node":{"$component_ref":"r2"}},{"component_type":"ControlFlowEdge","name":"r2","from_node":{"$component_ref":"r2"},"to_node":{"$component_ref":"r3"}}]},
"r1":{"component_type":"StartNode","name":"r1","inputs":[{"title":"text","type":"string"}]},
"r2":{"component_type":"LlmNode","name":"r2","llm_config":{"$component_ref":"model"},"prompt_template":"Risk {{text}}"},
"r3":{"component_type":"EndNode","name":"r3"},
"route":{"component_type":"BranchingNode","name":"route","inputs":[{"title":"length","type":"integer"}],"mapping":{"3":"more"}},
"note":{"component_type":"OutputMessageNode","name":"note","message":"{{length}} letters","inputs":[{"title":"length","type":"integer"}]},
"end":{"component_type":"EndNode","name":"end","outputs":[{"title":"total","type":"integer"},{"title":"length","type":"integer"},{"title":"why","anyOf":[{"type":"string"},{"type":"null"}],"default":null}]}}}`

const agentspecMixedScript = `rules:
- {node: count, say: "2"}
- {node: agent, turn: 1, say: I would rather talk}
- {node: agent, turn: 2, call: [{tool: submit_result, arguments: {words: [1, {"a": 2}]}}, {tool: submit_result, arguments: {}}]}
- {match: 'How long is 1\?', say: "{\"length\": 1}"}
- {match: 'How long is \{"a": 2\}\?', say: "8"}
- {match: How long is tea, say: "about three"}
- {node: place/m2, turn: 2, say: "3"}
- {node: r2, fail: {class: refused, text: not that}}`
