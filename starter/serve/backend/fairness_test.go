package backend

import (
	"strings"
	"testing"

	"weft/starter/runs"
)

// TestFairnessKey shortens names of tokens to what Temporal takes, and keeps them apart.
func TestFairnessKey(t *testing.T) {
	if got := fairnessKey("crm"); got != "crm" {
		t.Errorf("crm becomes %q", got)
	}
	long := strings.Repeat("ü", 49)
	one, other := fairnessKey(long+"1"), fairnessKey(long+"2")
	if len(one) > runs.MaxFairnessKey || one == other || !strings.HasPrefix(one, "üü") {
		t.Errorf("long names become %q and %q", one, other)
	}
}
