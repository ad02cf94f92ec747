package main

import (
	"context"
	"fmt"
	"strings"

	"weft/specadapter/source"
)

// page is what the help of one command says beyond its row.
type page struct {
	// about are lines of text.
	about string
	// examples are command lines, each behind a line that begins with # and says what it does.
	examples string
}

// pages are the help of each command, by its label.
var pages = map[string]page{
	"run": {
		about: `The flow is compiled here: everything that is wrong with it, with the input or with
the script is said at once, and no server is needed for that. Then the plan is handed
to the workers of the task queue. Progress goes to standard error, the result alone
to standard output. On a terminal progress is a table that is drawn again and again,
without colours if NO_COLOR is set; with TERM=dumb, and everywhere else, it is a line
per event.

Ctrl-C detaches: the run goes on.

-input is text. -input-json is JSON: a flow that declares inputs takes an object, any
other flow the string as its text, or other JSON in its compact form. -param KEY=TEXT,
-param KEY:=JSON and -params @FILE give single inputs that the flow declares. -state
gives values that the nodes share from the start.

-dev needs no Temporal of one's own. Where one answers on this machine, as make dev
leaves it, it is used, and a worker is started if none polls. Else weft-devserver is
run, with a worker: it is beside starter or in PATH, or is built where starter is in a
checkout. Both live for as long as any command with -dev uses them. The data stay in
$XDG_STATE_HOME/weft (~/.local/state/weft). When the last such command ends, also by
Ctrl-C, open runs are paused; starter -dev follow ID goes on with one.

-output json prints one object at the end: the result, or status, class, node, at,
text and remedy of the failure. -output jsonl prints an object per event before it;
events have the field "event", the last object has "status".`,
		examples: `# start a run, with the input from a file
starter -flow triage.json -input @ticket.txt
# typed input, and a value for the nodes
starter -flow triage.json -input-json @ticket.json -state @customer.json
# without a model: the answers come from a script
starter -flow triage.json -input hello -model script -script triage.script
# without a Temporal of one's own
starter -dev -flow triage.json -input hello
# for a program: the id alone, then the result as JSON
starter -flow triage.json -input hello -id ticket-17 -detach
starter result ticket-17 -output json`,
	},
	"validate": {
		about: `Every diagnostic of every file is printed, as file:line:column. The exit code is 2 if
one of them is an error. - is standard input. Of a folder and all below it, files that
end in .json, .yaml or .yml are read; those that no dialect recognises are named and
skipped, hidden ones left out. No server is needed.

-output json prints one object: "files", each with its diagnostics, and how many are
"wrong". -output sarif prints SARIF 2.1.0, which editors and code hosts read.`,
		examples: `# check two flows as authors write them
starter validate flows/triage.json flows/refund.json
# check all flows of a folder, for a code host
starter validate flows -output sarif > flows.sarif
# hold a flow to its dialect's specification
starter validate -profile strict triage.json`,
	},
	"graph": {
		about: `The drawing goes to standard output: as Mermaid, which many Markdown viewers show, or
with -svg as a picture. With -id it is the flow of a run, and each node says how far
the run has come with it: running, waiting, done, failed, stopped, not reached. Of a
branch under way, its first node is the one that runs. A worker answers; where none
does, the history of a run that has ended.`,
		examples: `# draw a flow
starter graph triage.json
# as a picture
starter graph triage.json -svg > triage.svg
# how far has a run come?
starter graph -id triage-k3v9x0aa -svg > run.svg`,
	},
	"list": {
		about: `The columns are the run's id, the flow's name, the status, the start and how long the
run took so far. Sub-agents' runs are not listed. The flow's name is there for runs
that have the search attribute FlowName or the memo "flow": starter sets both, and a
worker does for runs that bring a document. -status waiting finds runs that wait for
somebody, which needs the search attribute FlowStatus. Without search attributes all
else works.`,
		examples: `# open runs
starter list
# what failed of one flow
starter list -name Shorten -status failed
# the last 200 runs, whatever became of them, for a program
starter list -all -limit 200 -output jsonl`,
	},
	"follow": {
		about: `Everything that the run has done so far is shown, then what it does, then its result,
as if the run had been started here. Ctrl-C detaches.`,
		examples: `# go on with a run that was paused with its embedded server
starter -dev follow triage-k3v9x0aa
# see how a run goes on
starter follow triage-k3v9x0aa
# as objects
starter follow triage-k3v9x0aa -output jsonl`,
	},
	"status": {
		about: `A worker answers. Where none does, the status of a run that has ended is read from its
history instead.`,
		examples: `# where does it stand?
starter status triage-k3v9x0aa
# what does it wait for?
starter status triage-k3v9x0aa -output json`,
	},
	"transcript": {
		about: `The messages are read from the histories of the run, of its branches and of its
sub-agents; no worker is needed. A thread is one execution of a node, node#step;
those of a sub-agent stand behind its place. Without a thread all are printed.`,
		examples: `# everything
starter transcript triage-k3v9x0aa
# what one node said, for a program
starter transcript triage-k3v9x0aa classify#1 -output jsonl`,
	},
	"state": {
		about:    "A worker answers, with a JSON object.",
		examples: "# what did the nodes note?\nstarter state triage-k3v9x0aa",
	},
	"result": {
		about: `A run that is still open has none: exit code 1. The result of one that failed is the
failure: exit code 1, and 4 if it was cancelled or terminated.`,
		examples: `# the text, or the JSON that the flow asks for
starter result triage-k3v9x0aa
# with usage, exit nodes and the flow's hash
starter result triage-k3v9x0aa -output json`,
	},
	"cancel": {
		about:    "Calls under way are stopped, branches and sub-agents hear of it, what was done stays.",
		examples: "# end a run in good order\nstarter cancel triage-k3v9x0aa",
	},
	"terminate": {
		about: `Nothing of the run runs any more, not even what would clean up. Use it where cancel
does not help.`,
		examples: "# end a run whose workers are gone for good\nstarter terminate triage-k3v9x0aa -reason \"the flow was withdrawn\"",
	},
	"completion": {
		about: "The script completes commands, flags and the values of -output.",
		examples: `# bash, in ~/.bashrc
source <(starter completion bash)
# zsh, in ~/.zshrc behind compinit
source <(starter completion zsh)
# fish
starter completion fish > ~/.config/fish/completions/starter.fish`,
	},
	"version": {about: "The version and the revision that the build knows.", examples: "# which build is this?\nstarter version"},
	"help":    {about: "The help of the run of a flow, which has no name, is that of run.", examples: "# all about the run of a flow\nstarter help run"},
}

const exitCodes = `exit codes: 0 completed, 1 failed, 2 bad input, 3 no Temporal,
            4 cancelled or terminated, 70 a defect of starter, 130 detached by Ctrl-C`

// help prints the help of everything, or of one command.
func (a *app) help(_ context.Context, args []string) error {
	if len(args) == 0 {
		a.overview()
		return nil
	}
	var names []string
	for _, c := range commands() {
		if c.label() == args[0] {
			a.page(&c)
			return nil
		}
		names = append(names, c.label())
	}
	if near := source.NewSuggester(names).Nearest(args[0]); near != "" {
		return bad("there is no command %q; did you mean %s?", args[0], near)
	}
	return bad("there is no command %q; commands: %s", args[0], strings.Join(names, ", "))
}

// overview prints all commands and all flags.
func (a *app) overview() {
	fmt.Fprintln(a.stdout, "usage:")
	for _, c := range commands() {
		fmt.Fprintf(a.stdout, "  %-42s %s\n", c.usage(), c.does)
	}
	fmt.Fprintln(a.stdout, "\nflags, before or after the arguments:")
	a.flags.describe(a.stdout, nil)
	fmt.Fprintln(a.stdout, "\nstarter help COMMAND says more, with examples; starter help run is about the run of a flow.")
	fmt.Fprintln(a.stdout, "\n"+exitCodes)
}

// page prints the help of one command.
func (a *app) page(c *command) {
	p := pages[c.label()]
	fmt.Fprintf(a.stdout, "starter %s: %s\n\nusage:\n  %s\n\n%s\n", c.label(), c.does, c.usage(), p.about)
	if len(c.flags) > 0 {
		fmt.Fprintln(a.stdout, "\nflags:")
		a.flags.describe(a.stdout, c.flags)
	}
	fmt.Fprintln(a.stdout, "\nexamples:")
	for _, line := range strings.Split(p.examples, "\n") {
		fmt.Fprintln(a.stdout, "  "+line)
	}
	fmt.Fprintln(a.stdout, "\n"+exitCodes)
}
