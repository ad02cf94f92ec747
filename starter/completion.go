package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weft/activities/contract"
)

// completion prints a script that completes commands and flags as the table has them.
func (a *app) completion(_ context.Context, args []string) error {
	shells := map[string]func() string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}
	script, ok := shells[args[0]]
	if !ok {
		return bad("there is no completion for %q; want bash, zsh or fish", args[0])
	}
	fmt.Fprint(a.stdout, script())
	return nil
}

// completable is a flag as completion knows it.
type completable struct {
	name, does string
	// kind is "" for a flag without a value.
	kind string
}

// isFile says that the value is a file's name.
func (c completable) isFile() bool { return c.kind == "FILE" || c.kind == "FOLDER" }

// allFlags are all flags in alphabetical order.
func allFlags() []completable {
	var out []completable
	(&flags{}).set().VisitAll(func(v *flag.Flag) {
		if v.Name != "h" {
			kind, does := flag.UnquoteUsage(v)
			out = append(out, completable{v.Name, does, kind})
		}
	})
	return out
}

func names(list []completable, want func(completable) bool) string {
	var out []string
	for _, f := range list {
		if want(f) {
			out = append(out, "-"+f.name)
		}
	}
	return strings.Join(out, " ")
}

// byCommand writes a line for each command: what may be typed behind it.
func byCommand(format string) string {
	var b strings.Builder
	for _, c := range commands() {
		var words []string
		for _, f := range c.flags {
			words = append(words, "-"+f)
		}
		slices.Sort(words)
		switch c.name {
		case "":
			continue
		case "completion":
			words = append(words, "bash", "zsh", "fish")
		case "schedule":
			words = append(words, actionNames()...)
		case "help":
			for _, o := range commands() {
				words = append(words, o.label())
			}
		}
		fmt.Fprintf(&b, format, c.name, strings.Join(words, " "))
	}
	return b.String()
}

// fileCommands are the commands whose arguments are files or folders.
func fileCommands() []string {
	var out []string
	for _, c := range commands() {
		if strings.HasPrefix(c.args, "FILE") || strings.HasPrefix(c.args, "FOLDER") {
			out = append(out, c.name)
		}
	}
	return out
}

func commandNames() string {
	var out []string
	for _, c := range commands()[1:] {
		out = append(out, c.name)
	}
	return strings.Join(out, " ")
}

func startWords() string {
	words := []string{}
	for _, f := range commands()[0].flags {
		words = append(words, "-"+f)
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

func choices(words string) string { return strings.ReplaceAll(words, " ", "|") }

// ownOutputLines sets a shell's variable for each command that has outputs of its own.
func ownOutputLines(variable string) string {
	var b strings.Builder
	for _, label := range slices.Sorted(maps.Keys(ownOutputs)) {
		fmt.Fprintf(&b, "      %s) %s='%s' ;;\n", label, variable, strings.Join(ownOutputs[label], " "))
	}
	return b.String()
}

// fill puts the table into a script.
func fill(script, format string) string {
	all := allFlags()
	return strings.NewReplacer(
		"@COMMANDS@", commandNames(),
		"@FIRST@", commandNames()+" "+startWords(),
		"@START@", startWords(),
		"@OUTPUTS@", strings.Join(outputs, " "),
		"@OWN@", ownOutputLines("words"),
		"@OWNZSH@", ownOutputLines("kinds"),
		"@ONERROR@", contract.OnErrorPark+" "+contract.OnErrorFail,
		"@FILES@", choices(names(all, completable.isFile)),
		"@VALUES@", choices(names(all, func(c completable) bool {
			return c.kind != "" && !c.isFile() && c.name != "output" && c.name != "on-error"
		})),
		"@FILEARGS@", strings.Join(fileCommands(), " "),
		"@CASES@", byCommand(format),
	).Replace(script)
}

//go:embed completion.bash
var bashScript string

func bashCompletion() string { return fill(bashScript, "    %s) words='%s' ;;\n") }

//go:embed completion.zsh
var zshScript string

func zshCompletion() string { return fill(zshScript, "    %s) offers=(%s) ;;\n") }

// fishCompletion is a line for each command and for each flag of each command.
func fishCompletion() string {
	var b strings.Builder
	quote := func(s string) string {
		return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'"
	}
	all := allFlags()
	fmt.Fprintf(&b, "# Completion of starter for fish.\ncomplete -c starter -f\n")
	for _, c := range commands() {
		when := "__fish_seen_subcommand_from " + c.name
		if c.name == "" {
			when = "not __fish_seen_subcommand_from " + commandNames()
		} else {
			fmt.Fprintf(&b, "complete -c starter -n '__fish_use_subcommand' -a %s -d %s\n", c.name, quote(c.does))
		}
		if slices.Contains(fileCommands(), c.name) {
			fmt.Fprintf(&b, "complete -c starter -n '%s' -F\n", when)
		}
		switch c.name {
		case "completion":
			fmt.Fprintf(&b, "complete -c starter -n '%s' -a 'bash zsh fish'\n", when)
		case "schedule":
			fmt.Fprintf(&b, "complete -c starter -n '%s' -a '%s'\n", when, strings.Join(actionNames(), " "))
		case "help":
			fmt.Fprintf(&b, "complete -c starter -n '%s' -a 'run %s'\n", when, commandNames())
		}
		for _, f := range all {
			if !slices.Contains(c.flags, f.name) {
				continue
			}
			value := ""
			switch {
			case f.isFile():
				value = " -r -F"
			case f.name == "output":
				value = " -x -a '" + strings.Join(c.outputs(), " ") + "'"
			case f.name == "on-error":
				value = " -x -a '" + contract.OnErrorPark + " " + contract.OnErrorFail + "'"
			case f.kind != "":
				value = " -x"
			}
			fmt.Fprintf(&b, "complete -c starter -n '%s' -o %s%s -d %s\n", when, f.name, value, quote(f.does))
		}
	}
	return b.String()
}

// actionNames are the words that may stand behind schedule.
func actionNames() []string {
	var out []string
	for _, action := range scheduleActions() {
		out = append(out, action.name)
	}
	return out
}
