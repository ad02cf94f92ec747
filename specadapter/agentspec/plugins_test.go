package agentspec_test

import "weft/specadapter/agentspec"

// wayflow are rows for components of a plugin that documents in the wild use, and for one
// of a made-up plugin. What the rows do not say is not looked at.
var wayflow = []agentspec.Type{
	{Name: "ExtendedAgent", Like: "Agent", Open: true, Fields: []agentspec.FieldSpec{
		{Name: "agent_template", Kind: agentspec.One, Of: "PluginPromptTemplate"},
		{Name: "flows", Kind: agentspec.Many, Of: "Flow"},
		{Name: "agents", Kind: agentspec.Many, Of: "AgenticComponent"},
	}},
	{Name: "ExtendedFlow", Like: "Flow", Open: true},
	pluginNode("ExtendedMapNode", agentspec.FieldSpec{Name: "flow", Kind: agentspec.One, Of: "Flow", Required: true}),
	pluginNode("ExtendedToolNode", agentspec.FieldSpec{Name: "tool", Kind: agentspec.One, Of: "Tool", Required: true}),
	pluginNode("PluginCatchExceptionNode", agentspec.FieldSpec{Name: "flow", Kind: agentspec.One, Of: "Flow", Required: true}),
	pluginNode("PluginDatastoreCreateNode", pluginStore),
	pluginNode("PluginDatastoreDeleteNode", pluginStore),
	pluginNode("PluginDatastoreListNode", pluginStore),
	pluginNode("PluginDatastoreQueryNode", pluginStore),
	pluginNode("PluginDatastoreUpdateNode", pluginStore),
	pluginNode("PluginInputMessageNode", agentspec.FieldSpec{Name: "llm_config", Kind: agentspec.One, Of: "LlmConfig"}),
	pluginNode("PluginOutputMessageNode", agentspec.FieldSpec{Name: "llm_config", Kind: agentspec.One, Of: "LlmConfig"}),
	pluginNode("PluginReadVariableNode"),
	pluginNode("PluginRegexNode"),
	pluginNode("PluginVariableNode"),
	pluginNode("PluginWriteVariableNode"),
	{Name: "PluginInMemoryDatastore", Is: []string{"Datastore"}, Open: true},
	{Name: "PluginOracleDatabaseDatastore", Is: []string{"Datastore"}, Open: true},
	{Name: "PluginMCPTool", Like: "MCPTool", Open: true},
	{Name: "PluginMCPToolBox", Like: "MCPToolBox", Open: true},
	{Name: "PluginSSETransport", Like: "SSETransport", Open: true},
	{Name: "PluginToolFromToolBox", Is: []string{"Tool"}, IO: true, Open: true},
	{Name: "AgentSpecReadFileTool", Is: []string{"Tool"}, IO: true, Open: true},
	{Name: "PluginPromptTemplate", IO: true, Open: true},
	{Name: "MyCustomComponent", Open: true},
}

var pluginStore = agentspec.FieldSpec{Name: "datastore", Kind: agentspec.One, Of: "Datastore", Required: true}

func pluginNode(name string, fields ...agentspec.FieldSpec) agentspec.Type {
	return agentspec.Type{Name: name, Is: []string{"Node", "ComponentWithIO"}, IO: true, Open: true, Fields: fields}
}
