package plan

import "testing"

// A flow whose parts all name their models wants no other one.
func TestUsesRunModel(t *testing.T) {
	named, open := &Agent{Model: "openai/x"}, &Agent{}
	tests := map[string]struct {
		flow Flow
		want bool
	}{
		"nothing asks":       {Flow{Nodes: []Node{{ID: "a"}}}, false},
		"a model is named":   {Flow{Nodes: []Node{{Agent: named}}}, false},
		"a node names none":  {Flow{Nodes: []Node{{Agent: named}, {Agent: open}}}, true},
		"a member names one": {Flow{Nodes: []Node{{Agent: &Agent{Model: "x/y", Members: []Member{{Agent: *named}}}}}}, false},
		"a member does not":  {Flow{Nodes: []Node{{Agent: &Agent{Model: "x/y", Members: []Member{{Agent: *open}}}}}}, true},
		"a question":         {Flow{Nodes: []Node{{Agent: named}}, Edges: []Edge{{Question: "is it?"}}}, true},
		"long values":        {Flow{Nodes: []Node{{Agent: &Agent{Model: "x/y", Builtins: []string{BuiltinSetStateFiltered}}}}}, true},
		"a flow below":       {Flow{Nodes: []Node{{Agent: named}}, Agents: []Flow{{Nodes: []Node{{Agent: open}}}}}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.flow.UsesRunModel(); got != tc.want {
				t.Errorf("UsesRunModel = %v", got)
			}
		})
	}
}
