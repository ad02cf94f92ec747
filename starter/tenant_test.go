package main

import (
	"strings"
	"testing"
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
