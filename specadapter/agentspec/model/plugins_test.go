package model_test

import "weft/specadapter/agentspec/catalog"

// wayflow are rows for components of a plugin that documents in the wild use, and for one
// of a made-up plugin. What the rows do not say is not looked at.
var wayflow = []catalog.Type{
	{Name: "ExtendedAgent", Like: "Agent", Open: true, Fields: []catalog.FieldSpec{
		{Name: "agent_template", Kind: catalog.One, Of: "PluginPromptTemplate"},
		{Name: "flows", Kind: catalog.Many, Of: "Flow"},
		{Name: "agents", Kind: catalog.Many, Of: "AgenticComponent"},
	}},
	{Name: "ExtendedFlow", Like: "Flow", Open: true},
	pluginNode("ExtendedMapNode", catalog.FieldSpec{Name: "flow", Kind: catalog.One, Of: "Flow", Required: true}),
	pluginNode("ExtendedToolNode", catalog.FieldSpec{Name: "tool", Kind: catalog.One, Of: "Tool", Required: true}),
	pluginNode("PluginCatchExceptionNode", catalog.FieldSpec{Name: "flow", Kind: catalog.One, Of: "Flow", Required: true}),
	pluginNode("PluginDatastoreCreateNode", pluginStore),
	pluginNode("PluginDatastoreDeleteNode", pluginStore),
	pluginNode("PluginDatastoreListNode", pluginStore),
	pluginNode("PluginDatastoreQueryNode", pluginStore),
	pluginNode("PluginDatastoreUpdateNode", pluginStore),
	pluginNode("PluginInputMessageNode", catalog.FieldSpec{Name: "llm_config", Kind: catalog.One, Of: "LlmConfig"}),
	pluginNode("PluginOutputMessageNode", catalog.FieldSpec{Name: "llm_config", Kind: catalog.One, Of: "LlmConfig"}),
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

var pluginStore = catalog.FieldSpec{Name: "datastore", Kind: catalog.One, Of: "Datastore", Required: true}

func pluginNode(name string, fields ...catalog.FieldSpec) catalog.Type {
	return catalog.Type{Name: name, Is: []string{"Node", "ComponentWithIO"}, IO: true, Open: true, Fields: fields}
}
