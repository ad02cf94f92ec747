package main

import (
	"strings"
	"testing"

	"go.temporal.io/sdk/temporal"
)

// TestTenantOfAToken holds names of tokens to what Temporal takes, and keeps them apart.
func TestTenantOfAToken(t *testing.T) {
	if got := tenantOf("crm"); got != "crm" {
		t.Errorf("crm becomes %q", got)
	}
	long := strings.Repeat("ü", 49)
	one, other := tenantOf(long+"1"), tenantOf(long+"2")
	if len(one) > maxTenant || one == other || !strings.HasPrefix(one, "üü") {
		t.Errorf("long names become %q and %q", one, other)
	}
}

// TestAForkIsWhoseTheRunWas keeps a run's shares where the flags say nothing else.
func TestAForkIsWhoseTheRunWas(t *testing.T) {
	old := temporal.Priority{PriorityKey: 2, FairnessKey: "acme", FairnessWeight: 3}
	tests := map[string]struct {
		flags tenantFlags
		want  temporal.Priority
	}{
		"nothing is said":  {tenantFlags{}, old},
		"another priority": {tenantFlags{priority: 5}, temporal.Priority{PriorityKey: 5, FairnessKey: "acme", FairnessWeight: 3}},
		"another tenant":   {tenantFlags{tenant: "other"}, temporal.Priority{PriorityKey: 2, FairnessKey: "other"}},
		"with its weight":  {tenantFlags{tenant: "acme", weight: 0.5}, temporal.Priority{PriorityKey: 2, FairnessKey: "acme", FairnessWeight: 0.5}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.flags.sharesAfter(old); got != tc.want {
				t.Errorf("the fork has %+v, want %+v", got, tc.want)
			}
		})
	}
}
