package main

import (
	"strings"
	"testing"

	"weft/activities/contract"
)

// What a fork took from a run, the run has done, although its history has nothing of a node that
// asks nobody.
func TestWhatWasTakenWasDone(t *testing.T) {
	rows := func() []versusRow {
		return []versusRow{
			{Execution: "start#1", Sides: [2]*versusSide{nil, {Recorded: true}}},
			{Execution: "a#2", Sides: [2]*versusSide{{Text: "hello"}, {Recorded: true}}},
			{Execution: "b#3", Sides: [2]*versusSide{nil, {Text: "anew"}}},
		}
	}
	v := &versus{Runs: [2]string{"old", "new"}, Nodes: rows()}
	v.complete([2]string{"", "old"})
	text := sideBySide(v)
	if strings.Count(text, "did not run") != 1 || !strings.Contains(text, "b#3\n  old  did not run\n") || !strings.Contains(text, "start#1\n  old       0 +     0 tokens") {
		t.Errorf("the table is\n%s", text)
	}
	v = &versus{Runs: [2]string{"another", "new"}, Nodes: rows()}
	v.complete([2]string{"", "old"})
	if text := sideBySide(v); strings.Count(text, "did not run") != 2 {
		t.Errorf("beside a run that it does not come from:\n%s", text)
	}
}

// A run that takes turns is begun anew, or not forked at all.
func TestForksOfRunsThatTakeTurns(t *testing.T) {
	tests := map[string]struct {
		step, past, set int
		want            string
	}{
		"from its beginning":   {step: 1},
		"from a later turn":    {step: 2, want: `takes turns, and what its sessions know cannot be taken into another run at scout#2; fork it at scout#1`},
		"behind another node":  {step: 1, past: 1, want: "takes turns"},
		"with values of state": {step: 1, set: 1, want: "leave it out"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := wholeTurn("r", contract.Execution{Node: "scout", Step: tc.step}, tc.past, tc.set)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("the error is %v, want %q", err, tc.want)
			}
		})
	}
}
