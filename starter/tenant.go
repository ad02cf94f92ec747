package main

import (
	"flag"
	"strings"

	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
)

// Bounds of Temporal's priorities.
const (
	lowestPriority = 5
	maxTenant      = 64
	leastWeight    = 0.001
	mostWeight     = 1000
)

// tenantFlags say whose a run is among those that share a task queue, and how it stands to the
// others. Temporal hands them on to all that the run starts: calls, branches, sub-agents and the runs that
// continue it; a fork has those of its run.
type tenantFlags struct {
	priority int
	tenant   string
	weight   float64
}

// set adds the flags to those of all commands.
func (f *tenantFlags) set(fs *flag.FlagSet) {
	fs.IntVar(&f.priority, "priority", 0, "`1..5`: 1 goes first where workers are short (default: 3)")
	fs.StringVar(&f.tenant, "tenant", "", "`NAME` of whose the run is: tenants take turns where workers are short")
	fs.Float64Var(&f.weight, "weight", 0, "`SHARE` of the tenant beside those of others, from 0.001 to 1000 (default: 1)")
}

// check refuses values that Temporal does not take.
func (f *tenantFlags) check(given func(string) bool) error {
	switch {
	case given("priority") && (f.priority < 1 || f.priority > lowestPriority):
		return bad("-priority is %d, want 1 to %d; 1 goes first", f.priority, lowestPriority)
	case given("tenant") && (f.tenant == "" || len(f.tenant) > maxTenant || strings.ContainsFunc(f.tenant, func(r rune) bool { return r < ' ' || r > '~' })):
		return bad("-tenant is %.100q, want printable ASCII, from 1 to %d bytes", f.tenant, maxTenant)
	case given("weight") && (!(f.weight >= leastWeight) || f.weight > mostWeight):
		return bad("-weight is %v, want %v to %v", f.weight, leastWeight, mostWeight)
	}
	return nil
}

// whole refuses a share of nobody's.
func (f *tenantFlags) whole() error {
	if f.weight != 0 && f.tenant == "" {
		return bad("-weight is a tenant's share; write -tenant NAME too, or leave it out")
	}
	return nil
}

// shares is the flags in Temporal's words.
func (f *tenantFlags) shares() temporal.Priority {
	return temporal.Priority{PriorityKey: f.priority, FairnessKey: f.tenant, FairnessWeight: float32(f.weight)}
}

// sharesAfter is what a run gets that goes on from another: what the flags do not say is as it was
// there. Another tenant has a weight of its own.
func (f *tenantFlags) sharesAfter(old temporal.Priority) temporal.Priority {
	out := old
	if f.priority != 0 {
		out.PriorityKey = f.priority
	}
	if f.tenant != "" {
		out.FairnessKey, out.FairnessWeight = f.tenant, float32(f.weight)
	}
	return out
}

// tenantOf is the tenant that a client of the door is: the name of its token, which nobody else
// can claim. Temporal takes 64 bytes.
func tenantOf(name string) string {
	if len(name) <= maxTenant {
		return name
	}
	return cutAt(name, maxTenant-17) + "-" + contract.SHA([]byte(name))[:16]
}

// cutAt shortens a text to a number of bytes, on a character's border.
func cutAt(s string, most int) string { return strings.ToValidUTF8(s[:most], "") }
