package contract

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFold carries executions whose arrivals know the same: what they know stands there once.
func TestFold(t *testing.T) {
	long, other := strings.Repeat("v", 1000), strings.Repeat("w", 1000)
	// entry is one that START wrote, or a node.
	entry := func(key, text, exec string) StateEntry {
		return StateEntry{Key: key, Value: json.RawMessage(`"` + text + `"`), By: Stamp{Exec: exec}}
	}
	k, m := entry("k", long, "START"), entry("m", long, "START")
	of := func(states ...[]StateEntry) CarriedExecution {
		x := CarriedExecution{Node: "a", Arrivals: []CarriedArrival{}}
		for i, s := range states {
			x.Arrivals = append(x.Arrivals, CarriedArrival{Edge: i, View: View{State: s, Outputs: []NodeOutput{{Node: fmt.Sprint("n", i)}}}})
		}
		return x
	}
	if n := reflect.TypeFor[StateEntry]().NumField(); n != 5 {
		t.Errorf("an entry has %d fields: are they compared?", n)
	}
	type states = [][]StateEntry
	one := func(all states) Carry { return Carry{Armed: []CarriedExecution{of(all...)}} }
	tests := map[string]struct {
		carry func() Carry
		most  int // long values of the carry
	}{
		"nothing":          {func() Carry { return Carry{} }, 0},
		"nothing is known": {func() Carry { return Carry{Pending: []CarriedExecution{of(nil, nil), of()}} }, 0},
		"a fork": {func() Carry {
			return Carry{Pending: []CarriedExecution{of([]StateEntry{k, m}), of([]StateEntry{k, m}), of([]StateEntry{k, m})}}
		}, 2},
		"in all lists": {func() Carry {
			return Carry{Live: []CarriedExecution{of([]StateEntry{k})}, Pending: []CarriedExecution{of([]StateEntry{k})}, Armed: []CarriedExecution{of([]StateEntry{k})}}
		}, 1},
		"a key more":                {func() Carry { return one(states{{k}, {k, m}, {k, m}}) }, 2},
		"a key more before":         {func() Carry { return one(states{{m}, {k, m}}) }, 2},
		"a key more between":        {func() Carry { return one(states{{k, m}, {k, entry("l", other, "a"), m}}) }, 3},
		"a key less":                {func() Carry { return one(states{{k, m}, {k}, {k}}) }, 3},
		"another key":               {func() Carry { return one(states{{k}, {m}}) }, 2},
		"another value":             {func() Carry { return one(states{{k, m}, {entry("k", other, "a"), m}, {k, m}}) }, 4},
		"the same of another":       {func() Carry { return one(states{{k, m}, {entry("k", long, "a"), m}}) }, 3},
		"one who knows nothing yet": {func() Carry { return one(states{{k}, nil, nil, {k}}) }, 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := tc.carry()
			c.Fold()
			raw, err := json.Marshal(c)
			if got := strings.Count(string(raw), long) + strings.Count(string(raw), other); err != nil || got != tc.most {
				t.Fatalf("%d long values, want %d: %v", got, tc.most, err)
			}
			var again Carry
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
