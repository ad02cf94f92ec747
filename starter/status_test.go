package main

import (
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// A status begins with what the flow's document says of itself.
func TestStatusSaysWhichFlow(t *testing.T) {
	long := strings.Repeat("x", 2500)
	for name, tc := range map[string]struct {
		flow *plan.Flow
		want string
	}{
		"all of it":         {&plan.Flow{Name: "tutor", Revision: "1.2", Description: "Marks\nhomework."}, "flow      tutor 1.2: Marks homework.\n"},
		"a name alone":      {&plan.Flow{Name: "tutor"}, "flow      tutor\n"},
		"long":              {&plan.Flow{Name: "tutor", Description: long}, "flow      tutor: " + long[:300] + "…\n"},
		"not yet known":     {nil, ""},
		"what screens obey": {&plan.Flow{Name: "t\x1b[2J", Revision: "\r1"}, "flow      t[2J 1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout strings.Builder
			(&app{stdout: &stdout}).print("r", &contract.Status{Status: "running", Flow: contract.LabelOf(tc.flow)})
			_, rest, _ := strings.Cut(stdout.String(), "status    running\n")
			got, _, _ := strings.Cut(rest, "usage")
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	if got := contract.LabelOf(&plan.Flow{Description: strings.Repeat("x", 1<<20)}).Description; len(got) > 1000 {
		t.Errorf("a query would give a description of %d bytes", len(got))
	}
}
