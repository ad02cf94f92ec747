package plan

import "testing"

// TestCallsTools checks flows with tools in every place, of every kind of connection.
func TestCallsTools(t *testing.T) {
	agent := func(a Agent) []Node { return []Node{{ID: "a", Kind: KindAgent, Agent: &a}} }
	tools := []Tool{{Name: "search", Connection: "c"}}
	for name, tc := range map[string]struct {
		flow Flow
		want bool
	}{
		"an agent alone":        {Flow{Nodes: agent(Agent{Builtins: []string{BuiltinGetState}})}, false},
		"an agent with a tool":  {Flow{Nodes: agent(Agent{Tools: tools}), Connections: []Connection{{ID: "c", Kind: ConnectionClient}}}, true},
		"a toolbox":             {Flow{Nodes: agent(Agent{Toolboxes: &Toolboxes{}})}, true},
		"a member with a tool":  {Flow{Nodes: agent(Agent{Members: []Member{{ID: "m", Agent: Agent{Tools: tools}}}})}, true},
		"a tool's node":         {Flow{Nodes: []Node{{ID: "t", Kind: KindTool, Tool: &tools[0]}}}, true},
		"a flow beside, a tool": {Flow{Nodes: agent(Agent{}), Agents: []Flow{{Nodes: agent(Agent{Tools: tools})}}}, true},
	} {
		if got := tc.flow.CallsTools(); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
