package contract

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFold carries executions whose arrivals know the same: what they know stands there once.
func TestFold(t *testing.T) {
	known := func(text string) View {
		return View{State: []StateEntry{{Key: "k", Value: json.RawMessage(`"` + text + `"`), By: Stamp{Exec: "START"}}}}
	}
	long, other := strings.Repeat("v", 1000), strings.Repeat("w", 1000)
	of := func(views ...View) CarriedExecution {
		x := CarriedExecution{Node: "a", Arrivals: []CarriedArrival{}}
		for i, v := range views {
			x.Arrivals = append(x.Arrivals, CarriedArrival{Edge: i, View: v})
		}
		return x
	}
	tests := map[string]struct {
		carry func() Carry
		most  int // bytes of the carry
	}{
		"nothing":          {func() Carry { return Carry{} }, 500},
		"nothing is known": {func() Carry { return Carry{Pending: []CarriedExecution{of(View{}, View{}), of()}} }, 900},
		"a fork": {func() Carry {
			return Carry{Pending: []CarriedExecution{of(known(long)), of(known(long)), of(known(long))}}
		}, 2000},
		"in all lists": {func() Carry {
			return Carry{Live: []CarriedExecution{of(known(long))}, Pending: []CarriedExecution{of(known(long))}, Armed: []CarriedExecution{of(known(long))}}
		}, 2000},
		"a join": {func() Carry {
			return Carry{Armed: []CarriedExecution{of(known(long), known(long), known(other), known(other))}}
		}, 3500},
		"all others":                {func() Carry { return Carry{Armed: []CarriedExecution{of(known(long), known(other), known(long))}} }, 4500},
		"one who knows nothing yet": {func() Carry { return Carry{Armed: []CarriedExecution{of(known(long), View{}, View{}, known(long))}} }, 3500},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := tc.carry()
			c.Fold()
			raw, err := json.Marshal(c)
			if err != nil || len(raw) > tc.most {
				t.Fatalf("%d bytes, want at most %d: %v", len(raw), tc.most, err)
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
