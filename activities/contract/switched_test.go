package contract

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSwitchesAreCountedByTheirWay(t *testing.T) {
	var u Usage
	u.Switch("c/z-2026", []Switch{{Model: "a/x", Class: ClassRateLimited, To: "b/y"}, {Model: "b/y", Class: ClassUnavailable}})
	before := u
	u.Switch("b/y", []Switch{{Model: "a/x", Class: ClassRateLimited, Text: "another text"}})
	u.Add(Usage{Switched: []Switched{{From: "a/x", To: "b/y", Class: ClassQuotaExceeded, Times: 2}}})
	want := []Switched{
		{From: "a/x", To: "b/y", Class: ClassQuotaExceeded, Times: 2}, {From: "a/x", To: "b/y", Class: ClassRateLimited, Times: 2},
		{From: "b/y", To: "c/z-2026", Class: ClassUnavailable, Times: 1},
	}
	if diff := cmp.Diff(want, u.Switched); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	if n := before.Switched[0].Times; n != 1 {
		t.Errorf("what was counted before says %d now", n)
	}
	less := []Switched{{From: "a/x", To: "b/y", Class: ClassQuotaExceeded, Times: 2}, {From: "a/x", To: "b/y", Class: ClassRateLimited, Times: 1}}
	if diff := cmp.Diff(less, u.Less(before).Switched); diff != "" {
		t.Errorf("since then (-want +got):\n%s", diff)
	}
	if left := u.Less(u).Switched; left != nil {
		t.Errorf("nothing is left but %v", left)
	}
}

func TestSwitchesOfManyModelsAreBounded(t *testing.T) {
	var u Usage
	for i := range 100 {
		u.Switch("b/y", []Switch{{Model: fmt.Sprintf("a/%03d", 99-i), Class: ClassTimeout}})
	}
	last := u.Switched[len(u.Switched)-1]
	if len(u.Switched) != maxSwitched+1 || last != (Switched{Times: 100 - maxSwitched}) {
		t.Errorf("%d ways, the last %+v", len(u.Switched), last)
	}
	// One that is told apart stays so.
	u.Switch("b/y", []Switch{{Model: "a/099", Class: ClassTimeout}})
	if got := u.Switched[maxSwitched-1]; got != (Switched{From: "a/099", To: "b/y", Class: ClassTimeout, Times: 2}) {
		t.Errorf("counted as %+v", got)
	}
}
