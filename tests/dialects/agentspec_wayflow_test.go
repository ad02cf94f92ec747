package dialects

import (
	"testing"

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
