package main

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every flag of every command is read with one dash or two, before the command, behind it
// and behind its arguments, with = or without.
func TestFlagsStandAnywhere(t *testing.T) {
	values := map[string]string{"status": "running", "on-error": "fail", "output": "json", "limit": "7", "max-steps": "7", "budget": "calls=7",
		"priority": "1", "tenant": "acme", "weight": "2", "jitter": "1s", "catchup": "1m"}
	kinds := map[string]string{}
	(&flags{}).set().VisitAll(func(v *flag.Flag) { kinds[v.Name], _ = flag.UnquoteUsage(v) })
	for _, c := range commands() {
		var words []string
		if c.name != "" {
			words = append(words, c.name)
		}
		for range c.least {
			words = append(words, "argument")
		}
		for _, name := range c.flags {
			value := values[name]
			if value == "" {
				value = "value"
			}
			forms := [][]string{{"-" + name, value}, {"--" + name, value}, {"-" + name + "=" + value}, {"--" + name + "=" + value}}
			if kinds[name] == "" {
				forms = [][]string{{"-" + name}, {"--" + name}, {"-" + name + "=true"}}
			}
			var want *flags
			for _, form := range forms {
				for at := range len(words) + 1 {
					args := slices.Insert(slices.Clone(words), at, form...)
					a := &app{}
					got, rest, err := a.parse(args)
					if err != nil || got.name != c.name || len(rest) != c.least {
						t.Fatalf("starter %s: %v, arguments %q", strings.Join(args, " "), err, rest)
					}
					slices.Sort(a.flags.given)
					if want == nil {
						want = &a.flags
					}
					if diff := cmp.Diff(*want, a.flags, cmp.AllowUnexported(flags{}, answerFlags{}, scheduleFlags{}, tenantFlags{})); diff != "" {
						t.Errorf("starter %s (-want +got):\n%s", strings.Join(args, " "), diff)
					}
				}
			}
		}
	}
}

// Every command that reads a flow lets it be said how.
func TestReadersTakeDialectAndProfile(t *testing.T) {
	for _, c := range commands() {
		if c.name == "" || c.name == "validate" || c.name == "graph" {
			for _, f := range readFlags {
				if !slices.Contains(c.flags, f) {
					t.Errorf("%s does not take -%s", c.label(), f)
				}
			}
		}
	}
}
