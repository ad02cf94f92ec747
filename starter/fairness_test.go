package main

import (
	"testing"

	"go.temporal.io/sdk/temporal"
)

// TestInheritedPriority checks that a fork keeps the run's priority, fairness key and weight unless flags override them, and that another key drops the weight.
func TestInheritedPriority(t *testing.T) {
	old := temporal.Priority{PriorityKey: 2, FairnessKey: "acme", FairnessWeight: 3}
	tests := map[string]struct {
		flags priorityFlags
		want  temporal.Priority
	}{
		"no flags":             {priorityFlags{}, old},
		"another priority":     {priorityFlags{priority: 5}, temporal.Priority{PriorityKey: 5, FairnessKey: "acme", FairnessWeight: 3}},
		"another fairness key": {priorityFlags{fairnessKey: "other"}, temporal.Priority{PriorityKey: 2, FairnessKey: "other"}},
		"another weight":       {priorityFlags{fairnessKey: "acme", fairnessWeight: 0.5}, temporal.Priority{PriorityKey: 2, FairnessKey: "acme", FairnessWeight: 0.5}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.flags.inheritedPriority(old); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}
