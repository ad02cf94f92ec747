package backend

import (
	"strings"
	"testing"

	"weft/starter/runs"
)

// TestFairnessKey checks that long names are shortened to Temporal's limit and remain distinct.
func TestFairnessKey(t *testing.T) {
	if got := fairnessKey("crm"); got != "crm" {
		t.Errorf("fairnessKey(crm) = %q", got)
	}
	long := strings.Repeat("ü", 49)
	one, other := fairnessKey(long+"1"), fairnessKey(long+"2")
	if len(one) > runs.MaxFairnessKey || one == other || !strings.HasPrefix(one, "üü") {
		t.Errorf("keys of long names = %q and %q", one, other)
	}
}
