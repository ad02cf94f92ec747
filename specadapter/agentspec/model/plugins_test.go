package model_test

import (
	"slices"

	"weft/specadapter/agentspec/catalog"
)

// wayflow are the types of WayFlow's plugins, of plugin components that cannot be run, and of a made-up plugin. The
// fields of the latter two are not checked.
var wayflow = slices.Concat(catalog.WayFlow, []catalog.Type{
	{Name: "PluginToolFromToolBox", Is: []string{"Tool"}, IO: true, Open: true},
	{Name: "AgentSpecReadFileTool", Is: []string{"Tool"}, IO: true, Open: true},
	{Name: "MyCustomComponent", Open: true},
	{Name: "MyMatchNode", Is: []string{"Node", "ComponentWithIO"}, IO: true, Open: true},
})
