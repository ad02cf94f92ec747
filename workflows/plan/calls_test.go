package plan

import "testing"

// TestCalls checks the maximum number of calls of one execution of a node.
func TestCalls(t *testing.T) {
	tools := []Tool{{Name: "search", As: "search"}}
	tests := map[string]struct {
		node    Node
		calls   int
		bounded bool
	}{
		"prompt":                   {Node{Kind: KindAgent, Agent: &Agent{MaxCalls: 10}}, 1, true},
		"prompt with repairs":      {Node{Kind: KindAgent, Agent: &Agent{MaxCalls: 10, Output: &Output{Repairs: 2}}}, 3, true},
		"tools":                    {Node{Kind: KindAgent, Agent: &Agent{MaxCalls: 10, Tools: tools}}, 21, true},
		"built-in tools":           {Node{Kind: KindAgent, Agent: &Agent{MaxCalls: 3, Builtins: Builtins}}, 7, true},
		"finish tool":              {Node{Kind: KindAgent, Agent: &Agent{MaxCalls: 4, Finish: &Finish{Reminders: 3}}}, 12, true},
		"sessions":                 {Node{Kind: KindAgent, Agent: &Agent{MaxCalls: 3, Builtins: SessionTools}}, 0, false},
		"chat":                     {Node{Kind: KindAgent, Agent: &Agent{MaxCalls: 3, Chat: &Chat{}}}, 0, false},
		"members":                  {Node{Kind: KindAgent, Agent: &Agent{MaxCalls: 3, Members: []Member{{ID: "b"}}}}, 0, false},
		"conversation of the flow": {Node{Kind: KindAgent, Agent: &Agent{MaxCalls: 3, Conversation: ConversationFlow}}, 0, false},
		"summaries":                {Node{Kind: KindAgent, Agent: &Agent{MaxCalls: 3, Context: &Context{}}}, 0, false},
		"tool node":                {Node{Kind: KindTool, Tool: &Tool{Name: "t"}}, 1, true},
		"program":                  {Node{Kind: KindProgram, Program: &Program{}}, 1, true},
		"transformation":           {Node{Kind: KindTransform, Transform: &Transform{}}, 0, true},
		"call of other flows":      {Node{Kind: KindCall, Call: &Call{}}, 0, false},
		"question to the user":     {Node{Kind: KindAsk, Ask: &Ask{}}, 0, false},
	}
	for name, tc := range tests {
		if calls, bounded := tc.node.Calls(); calls != tc.calls || bounded != tc.bounded {
			t.Errorf("%s: %d calls, bounded %t, want %d, %t", name, calls, bounded, tc.calls, tc.bounded)
		}
	}
}
