package contract

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFold checks that state shared by the arrivals of executions is stored once in a snapshot.
func TestFold(t *testing.T) {
	long, other := strings.Repeat("v", 1000), strings.Repeat("w", 1000)
	// entry returns a state entry written by START or by a node.
	entry := func(key, text, exec string) StateEntry {
		return StateEntry{Key: key, Value: json.RawMessage(`"` + text + `"`), By: Stamp{Exec: exec}}
	}
	k, m := entry("k", long, "START"), entry("m", long, "START")
	of := func(states ...[]StateEntry) ExecutionState {
		x := ExecutionState{Node: "a", Arrivals: []ArrivalState{}}
		for i, s := range states {
			x.Arrivals = append(x.Arrivals, ArrivalState{Edge: i, View: View{State: s, Outputs: []NodeOutput{{Node: fmt.Sprint("n", i)}}}})
		}
		return x
	}
	if n := reflect.TypeFor[StateEntry]().NumField(); n != 5 {
		t.Errorf("StateEntry has %d fields; check that Fold compares all of them", n)
	}
	type states = [][]StateEntry
	one := func(all states) RunSnapshot { return RunSnapshot{PendingJoins: []ExecutionState{of(all...)}} }
	tests := map[string]struct {
		carry func() RunSnapshot
		most  int // long values in the snapshot
	}{
		"nothing":  {func() RunSnapshot { return RunSnapshot{} }, 0},
		"no state": {func() RunSnapshot { return RunSnapshot{Pending: []ExecutionState{of(nil, nil), of()}} }, 0},
		"a fork": {func() RunSnapshot {
			return RunSnapshot{Pending: []ExecutionState{of([]StateEntry{k, m}), of([]StateEntry{k, m}), of([]StateEntry{k, m})}}
		}, 2},
		"in all lists": {func() RunSnapshot {
			return RunSnapshot{Live: []ExecutionState{of([]StateEntry{k})}, Pending: []ExecutionState{of([]StateEntry{k})}, PendingJoins: []ExecutionState{of([]StateEntry{k})}}
		}, 1},
		"an additional key":          {func() RunSnapshot { return one(states{{k}, {k, m}, {k, m}}) }, 2},
		"an additional key first":    {func() RunSnapshot { return one(states{{m}, {k, m}}) }, 2},
		"an additional key between":  {func() RunSnapshot { return one(states{{k, m}, {k, entry("l", other, "a"), m}}) }, 3},
		"a missing key":              {func() RunSnapshot { return one(states{{k, m}, {k}, {k}}) }, 3},
		"another key":                {func() RunSnapshot { return one(states{{k}, {m}}) }, 2},
		"another value":              {func() RunSnapshot { return one(states{{k, m}, {entry("k", other, "a"), m}, {k, m}}) }, 4},
		"the same from another node": {func() RunSnapshot { return one(states{{k, m}, {entry("k", long, "a"), m}}) }, 3},
		"an arrival without state":   {func() RunSnapshot { return one(states{{k}, nil, nil, {k}}) }, 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := tc.carry()
			c.Fold()
			raw, err := json.Marshal(c)
			if got := strings.Count(string(raw), long) + strings.Count(string(raw), other); err != nil || got != tc.most {
				t.Fatalf("%d long values, want %d: %v", got, tc.most, err)
			}
			var again RunSnapshot
			if err := json.Unmarshal(raw, &again); err != nil {
				t.Fatal(err)
			}
			again.Unfold()
			if diff := cmp.Diff(tc.carry(), again); diff != "" {
				t.Errorf("-before +after:\n%s", diff)
			}
			again.Fold()
			if diff := cmp.Diff(c, again); diff != "" {
				t.Errorf("folded again, -before +after:\n%s", diff)
			}
		})
	}
}
