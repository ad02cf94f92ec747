package model_test

import (
	"slices"

	"weft/specadapter/agentspec/catalog"
)

// wayflow are the rows of WayFlow's plugins, those of components that nothing runs, and one of a made-up plugin. What the
// last ones do not say is not looked at.
var wayflow = slices.Concat(catalog.WayFlow, []catalog.Type{
	pluginNode("PluginDatastoreCreateNode", pluginStore),
	pluginNode("PluginDatastoreDeleteNode", pluginStore),
	pluginNode("PluginDatastoreListNode", pluginStore),
	pluginNode("PluginDatastoreQueryNode", pluginStore),
	pluginNode("PluginDatastoreUpdateNode", pluginStore),
	{Name: "PluginInMemoryDatastore", Is: []string{"Datastore"}, Open: true},
	{Name: "PluginOracleDatabaseDatastore", Is: []string{"Datastore"}, Open: true},
	{Name: "PluginToolFromToolBox", Is: []string{"Tool"}, IO: true, Open: true},
	{Name: "AgentSpecReadFileTool", Is: []string{"Tool"}, IO: true, Open: true},
	{Name: "MyCustomComponent", Open: true},
	{Name: "MyMatchNode", Is: []string{"Node", "ComponentWithIO"}, IO: true, Open: true},
})

var pluginStore = catalog.FieldSpec{Name: "datastore", Kind: catalog.One, Of: "Datastore", Required: true}

func pluginNode(name string, fields ...catalog.FieldSpec) catalog.Type {
	return catalog.Type{Name: name, Is: []string{"Node", "ComponentWithIO"}, IO: true, Open: true, Fields: fields}
}
