package report

import (
	"testing"

	"weft/activities/contract"
)

// TestUsageText checks that a run's usage includes calls that were paid for but had no result.
func TestUsageText(t *testing.T) {
	for want, u := range map[string]contract.Usage{
		"2 model calls, 10 input and 4 output tokens":                                   {Calls: 2, Input: 10, Output: 4},
		"0 model calls, 300 input and 15 output tokens; the answers of 3 more were cut": {Cut: 3, Input: 300, Output: 15},
		"1 model calls, 100 input (25 % of it from a provider's cache) and 5 output tokens, cost 0.000125 without 1 calls that have no price; 2 more were interrupted": {
			Calls: 1, Input: 100, Cached: 25, Output: 5, Cost: 125, Unpriced: 1, Stopped: 2},
	} {
		if got := usageText(u); got != want {
			t.Errorf("usageText(%+v) = %q, want %q", u, got, want)
		}
	}
}
