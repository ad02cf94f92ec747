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
		"a prompt":                 {Node{Kind: KindAgent, Agent: &Agent{MaxCalls: 10}}, 1, true},
		"a prompt with repairs":    {Node{Kind: KindAgent, Agent: &Agent{MaxCalls: 10, Output: &Output{Repairs: 2}}}, 3, true},
		"tools":                    {Node{Kind: KindAgent, Agent: &Agent{MaxCalls: 10, Tools: tools}}, 21, true},
		"tools of the interpreter": {Node{Kind: KindAgent, Agent: &Agent{MaxCalls: 3, Builtins: Builtins}}, 7, true},
		"a finish tool":            {Node{Kind: KindAgent, Agent: &Agent{MaxCalls: 4, Finish: &Finish{Reminders: 3}}}, 12, true},
		"sessions":                 {Node{Kind: KindAgent, Agent: &Agent{MaxCalls: 3, Builtins: SessionTools}}, 0, false},
		"a chat with a person":     {Node{Kind: KindAgent, Agent: &Agent{MaxCalls: 3, Chat: &Chat{}}}, 0, false},
		"a team":                   {Node{Kind: KindAgent, Agent: &Agent{MaxCalls: 3, Members: []Member{{ID: "b"}}}}, 0, false},
		"the flow's conversation":  {Node{Kind: KindAgent, Agent: &Agent{MaxCalls: 3, Conversation: ConversationFlow}}, 0, false},
		"summaries":                {Node{Kind: KindAgent, Agent: &Agent{MaxCalls: 3, Context: &Context{}}}, 0, false},
		"a tool":                   {Node{Kind: KindTool, Tool: &Tool{Name: "t"}}, 1, true},
		"a program":                {Node{Kind: KindProgram, Program: &Program{}}, 1, true},
		"a transformation":         {Node{Kind: KindTransform, Transform: &Transform{}}, 0, true},
		"other flows":              {Node{Kind: KindCall, Call: &Call{}}, 0, false},
		"a question to a person":   {Node{Kind: KindAsk, Ask: &Ask{}}, 0, false},
	}
	for name, tc := range tests {
		if calls, bounded := tc.node.Calls(); calls != tc.calls || bounded != tc.bounded {
			t.Errorf("%s: %d calls, bounded %t, want %d, %t", name, calls, bounded, tc.calls, tc.bounded)
		}
	}
}
