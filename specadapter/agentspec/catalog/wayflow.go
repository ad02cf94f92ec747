package catalog

// mapped are fields of WayFlow's nodes that rename inputs and outputs; empty objects rename none.
var mapped = eachNamed(FieldSpec{Kind: Object}, "input_mapping", "output_mapping")

// WayFlow are components of WayFlow's plugins that its exports hold. Those that extend a type of the language run as it does.
var WayFlow = []Type{
	{Name: "PluginOutputMessageNode", Like: "OutputMessageNode", Fields: append(mapped[:len(mapped):len(mapped)],
		FieldSpec{Name: "message", Kind: Text, Required: true, Template: true, Legacy: []string{"message_template"}},
		FieldSpec{Name: "message_type", Kind: Text},
		FieldSpec{Name: "rephrase", Kind: Flag, Default: "false"},
		FieldSpec{Name: "llm_config", Kind: One, Of: "LlmConfig"},
		FieldSpec{Name: "expose_message_as_output", Kind: Flag, Default: "true"})},
	{Name: "PluginInputMessageNode", Like: "InputMessageNode", Fields: append(mapped[:len(mapped):len(mapped)],
		FieldSpec{Name: "message", Kind: Text, Template: true, Legacy: []string{"message_template"}},
		FieldSpec{Name: "rephrase", Kind: Flag, Default: "false"},
		FieldSpec{Name: "llm_config", Kind: One, Of: "LlmConfig"})},
	{Name: "ExtendedToolNode", Like: "ToolNode", Fields: append(mapped[:len(mapped):len(mapped)],
		FieldSpec{Name: "raise_exceptions", Kind: Flag, Default: "false"})},
	{Name: "ExtendedAgent", Like: "Agent", Open: true, Fields: []FieldSpec{
		{Name: "max_iterations", Kind: Whole},
		{Name: "agents", Kind: Many, Of: "AgenticComponent"},
		{Name: "flows", Kind: Many, Of: "AgenticComponent"},
		{Name: "initial_message", Kind: Text},
		{Name: "can_finish_conversation", Kind: Flag, Default: "false"},
	}},
	// What an ExtendedAgent's template consists of: Weft writes prompts by itself.
	{Name: "PluginPromptTemplate", Open: true},
	{Name: "PluginRemoveEmptyNonUserMessageTransform", Open: true},
	{Name: "PluginCoalesceSystemMessagesTransform", Open: true},
	{Name: "PluginLlamaMergeToolRequestAndCallsTransform", Open: true},
	{Name: "PluginJsonToolOutputParser", Open: true},
}

// Acts is the type whose part a component plays in a run: its own, or the one that it extends.
func (t *Type) Acts() string {
	if t.Like != "" {
		return t.Like
	}
	return t.Name
}
