package plan

import "testing"

// TestCallsTools checks that tools are found in every part of a flow, and that built-in tools do not count.
func TestCallsTools(t *testing.T) {
	agent := func(a Agent) []Node { return []Node{{ID: "a", Kind: KindAgent, Agent: &a}} }
	tools := []Tool{{Name: "search", Connection: "c"}}
	for name, tc := range map[string]struct {
		flow Flow
		want bool
	}{
		"agent":                 {Flow{Nodes: agent(Agent{Builtins: []string{BuiltinGetState}})}, false},
		"agent with a tool":     {Flow{Nodes: agent(Agent{Tools: tools}), Connections: []Connection{{ID: "c", Kind: ConnectionClient}}}, true},
		"toolbox":               {Flow{Nodes: agent(Agent{Toolboxes: &Toolboxes{}})}, true},
		"member with a tool":    {Flow{Nodes: agent(Agent{Members: []Member{{ID: "m", Agent: Agent{Tools: tools}}}})}, true},
		"tool node":             {Flow{Nodes: []Node{{ID: "t", Kind: KindTool, Tool: &tools[0]}}}, true},
		"sub-agent with a tool": {Flow{Nodes: agent(Agent{}), Agents: []Flow{{Nodes: agent(Agent{Tools: tools})}}}, true},
	} {
		if got := tc.flow.CallsTools(); got != tc.want {
			t.Errorf("%s: CallsTools() = %v", name, got)
		}
	}
}
