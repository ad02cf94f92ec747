package model_test

import (
	"slices"

	"weft/specadapter/agentspec/catalog"
)

// wayflow are the rows of WayFlow's plugins, those of components that nothing runs, and one of a made-up plugin. What the
// last ones do not say is not looked at.
var wayflow = slices.Concat(catalog.WayFlow, []catalog.Type{
	{Name: "PluginToolFromToolBox", Is: []string{"Tool"}, IO: true, Open: true},
	{Name: "AgentSpecReadFileTool", Is: []string{"Tool"}, IO: true, Open: true},
	{Name: "MyCustomComponent", Open: true},
	{Name: "MyMatchNode", Is: []string{"Node", "ComponentWithIO"}, IO: true, Open: true},
})
