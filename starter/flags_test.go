package main

import (
	"context"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v3"
)

// parse parses a command line and returns the command with its arguments, without running it.
func parse(a *app, args ...string) (got *command, rest []string, err error) {
	a.stdout, a.stderr = io.Discard, io.Discard
	a.args = args
	err = a.commandLine(func(_ context.Context, c *command, args []string) error {
		got, rest = c, args
		return nil
	}).Run(context.Background(), append([]string{"starter"}, args...))
	return got, rest, err
}

// TestFlagForms checks that each flag of each command is accepted with one dash and two, before the
// command, after it and after its arguments, with = and without.
func TestFlagForms(t *testing.T) {
	t.Parallel()
	values := map[string]string{"status": "running", "on-error": "fail", "output": "json", "format": "agentspec", "limit": "7", "max-steps": "7", "budget": "calls=7",
		"priority": "1", "fairness-key": "acme", "fairness-weight": "2", "overlap": "skip"}
	takesValue := map[string]bool{}
	for _, f := range (&flags{}).declare() {
		takesValue[f.Names()[0]] = f.(cli.DocGenerationFlag).TakesValue()
	}
	for _, c := range commands() {
		words := strings.Fields(c.name)
		for range c.minArgs {
			words = append(words, "argument")
		}
		calls := [][]string{words}
		if c.name == "run" {
			calls = append(calls, nil) // run is the default command
		}
		for _, name := range c.flags {
			value := values[name]
			if value == "" {
				value = "value"
			}
			forms := [][]string{{"-" + name, value}, {"--" + name, value}, {"-" + name + "=" + value}, {"--" + name + "=" + value}}
			if !takesValue[name] {
				forms = [][]string{{"-" + name}, {"--" + name}, {"-" + name + "=true"}}
			}
			var want *flags
			for _, line := range calls {
				for _, form := range forms {
					for at := range len(line) + 1 {
						args := slices.Insert(slices.Clone(line), at, form...)
						a := &app{}
						got, rest, err := parse(a, args...)
						if err != nil || got == nil || got.name != c.name || len(rest) != c.minArgs {
							t.Fatalf("starter %s: %v, arguments %q", strings.Join(args, " "), err, rest)
						}
						if want == nil {
							want = &a.flags
						}
						if !reflect.DeepEqual(*want, a.flags) {
							t.Errorf("starter %s (-want +got):\n%s", strings.Join(args, " "),
								cmp.Diff(*want, a.flags, cmp.AllowUnexported(flags{}, scheduleFlags{}, answerFlags{}, priorityFlags{})))
						}
					}
				}
			}
		}
	}
}

// TestDeclaredFlags checks that the flags of all commands are declared, and that each declared flag is used.
func TestDeclaredFlags(t *testing.T) {
	var declared, used []string
	for _, f := range (&flags{}).declare() {
		declared = append(declared, f.Names()[0])
	}
	for _, c := range commands() {
		for _, name := range c.flags {
			if !slices.Contains(declared, name) {
				t.Errorf("%s has the flag -%s, which is not declared", c.name, name)
			}
		}
		used = append(used, c.flags...)
	}
	for _, name := range declared {
		if !slices.Contains(used, name) {
			t.Errorf("no command has the flag -%s", name)
		}
	}
}

// TestReadFlags checks that each command that reads a flow has readFlags.
func TestReadFlags(t *testing.T) {
	for _, c := range commands() {
		if slices.Contains(c.flags, "flow") || c.name == "validate" || c.name == "graph" {
			for _, f := range readFlags {
				if !slices.Contains(c.flags, f) {
					t.Errorf("%s does not have the flag -%s", c.name, f)
				}
			}
		}
	}
}
