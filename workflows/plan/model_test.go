package plan

import "testing"

// TestUsesRunModel checks that a flow does not use the run's model if all of its parts specify their own.
func TestUsesRunModel(t *testing.T) {
	withModel, withoutModel := &Agent{Model: "openai/x"}, &Agent{}
	tests := map[string]struct {
		flow Flow
		want bool
	}{
		"no model calls":            {Flow{Nodes: []Node{{ID: "a"}}}, false},
		"node with a model":         {Flow{Nodes: []Node{{Agent: withModel}}}, false},
		"node without a model":      {Flow{Nodes: []Node{{Agent: withModel}, {Agent: withoutModel}}}, true},
		"member with a model":       {Flow{Nodes: []Node{{Agent: &Agent{Model: "x/y", Members: []Member{{Agent: *withModel}}}}}}, false},
		"member without a model":    {Flow{Nodes: []Node{{Agent: &Agent{Model: "x/y", Members: []Member{{Agent: *withoutModel}}}}}}, true},
		"question":                  {Flow{Nodes: []Node{{Agent: withModel}}, Edges: []Edge{{Question: "is it?"}}}, true},
		"filtered state tool":       {Flow{Nodes: []Node{{Agent: &Agent{Model: "x/y", Builtins: []string{BuiltinSetStateFiltered}}}}}, true},
		"sub-agent without a model": {Flow{Nodes: []Node{{Agent: withModel}}, Agents: []Flow{{Nodes: []Node{{Agent: withoutModel}}}}}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.flow.UsesRunModel(); got != tc.want {
				t.Errorf("UsesRunModel() = %v", got)
			}
		})
	}
}
