package contract

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAddFallbacks(t *testing.T) {
	var u Usage
	u.AddFallbacks("c/z-2026", []Fallback{{Model: "a/x", Class: ClassRateLimited, To: "b/y"}, {Model: "b/y", Class: ClassUnavailable}})
	before := u
	u.AddFallbacks("b/y", []Fallback{{Model: "a/x", Class: ClassRateLimited, Text: "another text"}})
	u.Add(Usage{Fallbacks: []FallbackCount{{From: "a/x", To: "b/y", Class: ClassQuotaExceeded, Times: 2}}})
	want := []FallbackCount{
		{From: "a/x", To: "b/y", Class: ClassQuotaExceeded, Times: 2}, {From: "a/x", To: "b/y", Class: ClassRateLimited, Times: 2},
		{From: "b/y", To: "c/z-2026", Class: ClassUnavailable, Times: 1},
	}
	if diff := cmp.Diff(want, u.Fallbacks); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	if n := before.Fallbacks[0].Times; n != 1 {
		t.Errorf("the earlier copy changed to %d", n)
	}
	less := []FallbackCount{{From: "a/x", To: "b/y", Class: ClassQuotaExceeded, Times: 2}, {From: "a/x", To: "b/y", Class: ClassRateLimited, Times: 1}}
	if diff := cmp.Diff(less, u.Less(before).Fallbacks); diff != "" {
		t.Errorf("Less() mismatch (-want +got):\n%s", diff)
	}
	if left := u.Less(u).Fallbacks; left != nil {
		t.Errorf("Less() of itself = %v", left)
	}
}

func TestFallbackKindsAreBounded(t *testing.T) {
	var u Usage
	for i := range 100 {
		u.AddFallbacks("b/y", []Fallback{{Model: fmt.Sprintf("a/%03d", 99-i), Class: ClassTimeout}})
	}
	last := u.Fallbacks[len(u.Fallbacks)-1]
	if len(u.Fallbacks) != maxFallbackKinds+1 || last != (FallbackCount{Times: 100 - maxFallbackKinds}) {
		t.Errorf("%d kinds, the last %+v", len(u.Fallbacks), last)
	}
	// A kind that is already counted separately remains so.
	u.AddFallbacks("b/y", []Fallback{{Model: "a/099", Class: ClassTimeout}})
	if got := u.Fallbacks[maxFallbackKinds-1]; got != (FallbackCount{From: "a/099", To: "b/y", Class: ClassTimeout, Times: 2}) {
		t.Errorf("counted as %+v", got)
	}
}
