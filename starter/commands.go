package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"weft/specadapter/source"
)

// command is a row of the table of commands.
type command struct {
	// name is "" for the run of a flow, which is what flags without a command mean.
	name string
	// args and does are for the help.
	args, does string
	// least and most bound the number of arguments; most -1 is any number.
	least, most int
	// flags are those that the command understands.
	flags []string
	run   func(a *app, ctx context.Context, args []string) error
}

// Sets of flags.
var (
	readFlags   = []string{"dialect", "profile", "config"}
	remoteFlags = []string{"config"}
	startFlags  = append(slices.Clone(readFlags), "flow", "input", "script", "model", "id", "detach", "task-queue", "max-steps", "output")
	followFlags = append(slices.Clone(remoteFlags), "output")
)

// commands returns the table of all commands.
func commands() []command {
	return []command{
		{"", "-flow FILE [-input TEXT|@FILE|-]", "start a run and follow it to its result", 0, 0, startFlags, (*app).start},
		{"validate", "FILE...", "say what is wrong with flows", 1, -1, readFlags, (*app).validate},
		{"graph", "FILE", "draw a flow as a Mermaid flowchart", 1, 1, readFlags, (*app).graph},
		{"follow", "ID", "follow a run to its result", 1, 1, followFlags, (*app).follow},
		{"status", "ID", "show where a run stands", 1, 1, followFlags, (*app).status},
		{"result", "ID", "print the result of a run that has ended", 1, 1, followFlags, (*app).result},
		{"cancel", "ID", "cancel a run and all that it started", 1, 1, remoteFlags, (*app).cancel},
		{"version", "", "print the version", 0, 0, nil, (*app).version},
	}
}

// parse reads flags and arguments in any order. No command without an error means help.
func (a *app) parse(args []string) (*command, []string, error) {
	given, rest, err := a.flags.parse(args)
	if err != nil {
		return nil, nil, err
	}
	if a.flags.help || len(args) == 0 || len(rest) > 0 && rest[0] == "help" {
		return nil, nil, nil
	}
	table, name := commands(), ""
	if len(rest) > 0 {
		name, rest = rest[0], rest[1:]
	}
	var names []string
	for i := range table {
		if table[i].name == name {
			return &table[i], rest, table[i].check(given, rest)
		}
		names = append(names, table[i].name)
	}
	if near := source.NewSuggester(names[1:]).Nearest(name); near != "" {
		return nil, nil, bad("there is no command %q; did you mean %s?", name, near)
	}
	return nil, nil, bad("there is no command %q; to run a flow, write -flow %s; commands: %s", name, name, strings.Join(names[1:], ", "))
}

// check refuses flags and arguments that a command does not take.
func (c *command) check(given, args []string) error {
	label := "a run"
	if c.name != "" {
		label = c.name
	}
	for _, f := range given {
		if !slices.Contains(c.flags, f) {
			return bad("-%s means nothing for %s; leave it out", f, label)
		}
	}
	usage := strings.TrimSpace("starter " + strings.TrimSpace(c.name+" "+c.args))
	switch {
	case len(args) < c.least:
		return bad("%s wants an argument; usage: %s", label, usage)
	case c.most >= 0 && len(args) > c.most:
		return bad("%s does not take %q; usage: %s", label, args[c.most], usage)
	}
	return nil
}

// usage prints the help.
func (a *app) usage() {
	fmt.Fprintln(a.stdout, "usage:")
	for _, c := range commands() {
		left := strings.TrimSpace("starter " + strings.TrimSpace(c.name+" "+c.args))
		fmt.Fprintf(a.stdout, "  %-42s %s\n", left, c.does)
	}
	fmt.Fprintln(a.stdout, "\nflags, before or after the arguments:")
	a.flags.describe(a.stdout)
	fmt.Fprintln(a.stdout, "\nexit codes: 0 completed, 1 failed, 2 bad input, 3 no Temporal, 130 detached by Ctrl-C")
}
