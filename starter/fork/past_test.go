package fork

import (
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/starter/runs"
)

// A run that takes turns is begun anew, or not forked at all.
func TestForksOfRunsThatTakeTurns(t *testing.T) {
	tests := map[string]struct {
		step, past, set int
		want            string
	}{
		"from its beginning":   {step: 1},
		"from a later turn":    {step: 2, want: `is a session, whose sub-sessions cannot be copied to another run at scout#2; fork it at scout#1`},
		"behind another node":  {step: 1, past: 1, want: "is a session"},
		"with values of state": {step: 1, set: 1, want: "remove it"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := (&forking{run: &runs.Run{ID: "r"}}).wholeTurn(contract.Execution{Node: "scout", Step: tc.step}, tc.past, tc.set)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("the error is %v, want %q", err, tc.want)
			}
		})
	}
}
