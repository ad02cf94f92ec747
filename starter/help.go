package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	docs "github.com/urfave/cli-docs/v3"
	"github.com/urfave/cli/v3"
)

// The library's templates without what is the same for all commands.
func init() {
	cli.CommandHelpTemplate = commandHelp
	cli.SubcommandHelpTemplate = commandHelp
	cli.RootCommandHelpTemplate = rootHelp
	long := cli.FlagStringer
	cli.FlagStringer = func(f cli.Flag) string {
		name, usage, _ := strings.Cut(long(f), "\t")
		name, _, _ = strings.Cut(name, " [ ")
		return strings.ReplaceAll(name, "--", "-") + "\t" + usage
	}
}

const (
	rootHelp = `{{template "helpNameTemplate" .}}

Usage:
   {{wrap .UsageText 3}}

{{.Description}}

Commands:{{template "visibleCommandCategoryTemplate" .}}
`
	commandHelp = `{{template "helpNameTemplate" .}}

Usage:
   {{template "usageTemplate" .}}{{if .Description}}

{{.Description}}{{end}}{{if .VisibleCommands}}

Commands:{{template "visibleCommandTemplate" .}}{{end}}

Flags:{{template "visibleFlagTemplate" .}}
`
)

// page is what the help of one command says beyond its row.
type page struct {
	// about are lines of text.
	about string
	// examples are command lines, each behind a line that begins with # and says what it does.
	examples string
}

// text is the page as the help shows it.
func (p page) text() string {
	if p.examples == "" {
		return p.about
	}
	return p.about + "\n\nExamples:\n   " + strings.ReplaceAll(p.examples, "\n", "\n   ")
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

What the run waits for is shown with the command that answers it; a question can also be
answered on the terminal, by typing a line. What an operator must mend, an
expired key for example, makes the run wait too; -on-error fail fails it instead.

Ctrl-C detaches: the run goes on.

-input is text. -input-json is JSON: a flow that declares inputs takes an object, one in
which typed values flow any JSON, and any other flow the string as its text, or other
JSON in its compact form; content parts, [{"text": ...}, {"image": {"media_type": ...,
"data": BASE64}}], are a text with images, which -image FILE adds to any input. -param KEY=TEXT,
-param KEY:=JSON and -params @FILE give single inputs that the flow declares. -state
gives values that the nodes share from the start.

-dev needs no Temporal of one's own. Where one answers on this machine, as make dev
leaves it, it is used, and a worker is started if none polls. Else weft-devserver is
run, with a worker: it is beside starter or in PATH, or is built where starter is in a
checkout. Both live for as long as any command with -dev uses them. The data stay in
$XDG_STATE_HOME/weft (~/.local/state/weft). When the last such command ends, also by
Ctrl-C, open runs are paused; starter -dev follow ID goes on with one.

The worker of -dev, and that of make dev, start commands that flows name as tool servers
only where you have allowed them: -dev asks on a terminal, and -allow-commands says yes.
What is allowed, arguments included, is a file in commands beside the data; to take it
back remove the file. They let URLs of flows lead to this machine.

A secret that stands in an Open Agent Spec document is an error. With -dev it is a warning:
the worker that -dev has started gets it, keeps it in memory, and nothing else has it.

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
# with a flow that starts its tool servers
starter -dev -allow-commands -flow files.json -input hello
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
	"agents": {
		about: `FOLDER is one with agents/ in it, beside which the registries lie, or agents/ itself.
Each agent is listed with its type, whether it is active, inactive (.disabled) or invalid,
its schemas, and what is wrong with it or worth knowing. -output json prints the object
{agents} with the fields of GET /agents.`,
		examples: `# what may be started
starter agents config
# for a program
starter agents config -output json`,
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
	"record": {
		about: `The file that is printed is a script, with rules for each call of a model by its place, and
beside them, in the field recorded, the plan, what the run was given, what its tools answered,
what people said, and how it ended. Branches, sub-agents and runs that it continued as are in
it. It is read from history alone. Calls that failed and were made again are there with their
last answer. It holds the run's whole content: keep it as you keep that. A session is recorded
when it has ended: see starter stop. Of one that was cancelled or terminated the turns are in it
whose results its history has.

The file is also a script for a new run: starter -flow FLOW -script FILE.`,
		examples: `# keep a run as a test
starter record triage-k3v9x0aa > triage.recording`,
	},
	"test": {
		about: `Each recording is played in this process: the interpreter of this build, the models from
the script, the tools from what they answered. No server, worker, network or model is needed,
and time is virtual: a run that waited for days takes a moment. Reported is the first call
that differs: one that the recording does not have, or is not made, a tool that is asked
something else, a model that is told something else, a question, an answer that nobody gave,
or another end. What a file leaves out of a call (told, arguments) or of expect is not
compared. System prompts are not compared.

With -flow the flow is compiled from a file, instead of the recorded plan. Exit code 1: a
recording differs. -output json prints one object: "files", each with its "divergence", and
how many "failed".`,
		examples: `# does this build do what was recorded?
starter test recordings/*
# does the edited flow?
starter test -flow triage.json triage.recording`,
	},
	"list": {
		about: `The columns are the run's id, the flow's name, the status, the start and how long the
run took so far. Sub-agents' runs are not listed. The flow's name is there for runs
that have the search attribute FlowName or the memo "flow": starter sets both, and a
worker does for runs that bring a document.

-waiting asks all open runs what they wait for, and prints a line for each request, with
the command that answers. A run whose worker does not answer within 5 seconds is named
on standard error; the exit code is 1 then. -status waiting finds runs that wait for
somebody, which needs the search attribute FlowStatus. Without search attributes all
else works.`,
		examples: `# open runs
starter list
# all that waits for somebody
starter list -waiting
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
	"requests": {
		about: `Each request is printed with its kind, since when and until when it waits, the node and
its place, what is asked, and the commands that answer it. Words in capital letters in
them are to be replaced. A worker answers; a run that has ended waits for nothing.

kinds: message asks a person, tool_result asks a client to run a tool, confirm asks
whether a tool may be called, retry asks an operator to mend something.`,
		examples: `# what does it wait for?
starter requests triage-k3v9x0aa
# for a program
starter requests triage-k3v9x0aa -output jsonl`,
	},
	"audit": {
		about: `Of the whole run, its branches and sub-agents: each request with its kind, what was asked,
when and by which node; each answer with the name that its sender gave, the identity of the
client that Temporal recorded, the time, and what it said, those that were refused too; and
messages that nobody had asked for. The hash is the SHA-256 of what was asked: the id ends
with its first digits, so that an answer belongs to one call with one set of arguments. The
hash is computed again from what history holds, and "bound" says that it is the same.

All is read from history; only what an open run waits for itself needs a worker. Temporal
keeps a history for the namespace's retention: what is to be kept longer is to be exported
before with -output json.`,
		examples: `# who said yes?
starter audit triage-k3v9x0aa
# for the records
starter audit triage-k3v9x0aa -output json > audit.json`,
	},
	"confirm": {
		about: `REQUEST is the request's id, or its begin or end, as long as it is of one alone. Without
it the only open one of the kind is meant. -arguments replace those of the call; the
reason of a -no reaches the model. -remember holds for later calls of the tool.
` + aboutAnswers,
		examples: `# yes
starter confirm triage-k3v9x0aa -yes
# no, with a reason for the model
starter confirm triage-k3v9x0aa 9f86d081 -no -reason "the flow was withdrawn"
# yes, with other arguments, for all calls of the tool to come
starter confirm triage-k3v9x0aa 9f86d081 -yes -arguments @payment.json -remember`,
	},
	"tool-result": {
		about: `REQUEST is as for confirm. The result is JSON, as the tool declares it: a text stands in
quotes. The error is a text, and goes to the model.
` + aboutAnswers,
		examples: `# what the tool gave
starter tool-result triage-k3v9x0aa -result {"sent":true}
# from another program
starter tool-result triage-k3v9x0aa 0cc175b9 -result -
# it did not work
starter tool-result triage-k3v9x0aa 0cc175b9 -error refused`,
	},
	"retry": {
		about: `REQUEST is as for confirm; without it all requests of kind retry of the run are meant.
The call is made again. With -give-up the node fails instead.
` + aboutAnswers,
		examples: `# the key was renewed
starter retry triage-k3v9x0aa
# it cannot be mended
starter retry triage-k3v9x0aa 92eb5ffe -give-up -reason withdrawn`,
	},
	"message": {
		about: `The text is an argument, a file's or standard input's; a line end at its end is left
out. It answers the open question that -request names, or else the only one, of -node
if that is given. Where nothing is asked, the next model call of -node gets it, or that
of the first agent that makes one. With -key the run itself decides, and the same key
twice is the same message.
` + aboutAnswers,
		examples: `# answer the question
starter message triage-k3v9x0aa yes
# answer one of several
starter message triage-k3v9x0aa -request 4a8a08f0 yes
# tell an agent something, from a file, so that it is safe to repeat
starter message triage-k3v9x0aa @note.txt -node refund -key mail-4711`,
	},
	"why": {
		about: `Of each node, or of NODE alone: by which edges it was reached, with the recorded answers
to their conditions; which edges out of it were refused; or, where it has not run, which
edges could have led to it and what kept each, back to nodes that ran. A join that ran
names the predecessors that did not run. What waits says for what: a join for the
executions that may still arrive, a request with the commands that answer it, a call with
its attempt, the time of the next one and the last error, a rate limit, a worker. Nodes of sub-agents are told apart by their run. NODE is the node's
id or name, or one of its executions, node#step.

Runs answer themselves, also those that have ended. Where no worker answers it is from
history, which has no trace of nodes that make no calls.

-output json prints an object: "nodes", each with its "state", "executions" and
"refused" edges; "sub_agents" are objects of the same kind.`,
		examples: `# why does it take so long?
starter why triage-k3v9x0aa
# why was nobody refunded?
starter why triage-k3v9x0aa refund
# for a program
starter why triage-k3v9x0aa -output json`,
	},
	"fork": {
		about: `The new run begins as the old one was started, and takes what came before NODE from there:
outputs, state, what was said and how conditions were answered. Nothing of that is run
again. NODE itself and all that it can lead to run anew: with the flow of -flow in place
of the recorded one, with another -model for nodes that name none, with another -script,
or with values of the state changed for NODE by -set KEY=TEXT or -set KEY:=JSON. With
-override OTHER=TEXT or -override OTHER:=JSON a node that ran before, a tool's too, has said
that instead; the way that the run took from there stays. NODE is a node's id or name, or
one of its executions, node#step, where it ran several times. It may be one that failed.

When the new run has ended both are shown side by side, as starter compare shows them.
A worker must be there for the old run too. What cannot be forked is refused: a node of a
sub-agent (fork at the node that called it), a run whose history is not kept, results
that are too large to be carried, and a flow without the nodes and edges of what is
taken over. A run that takes turns is begun anew from its first one, or not at all.`,
		examples: `# the same once more, with another model for the rest
starter fork triage-k3v9x0aa -from refund -model openai/gpt-5
# with an edited prompt
starter fork triage-k3v9x0aa -from refund -flow triage.json
# what if the customer were another?
starter fork triage-k3v9x0aa -from refund -set customer=Kim -set days:=30
# what if the look-up had found something else?
starter fork triage-k3v9x0aa -from refund -override lookup=unpaid`,
	},
	"compare": {
		about: `Of each execution in either run: what it said last, its tokens and its time; then both
runs as a whole. What a fork took from the other run cost it nothing. It is read from
history, so that no worker is needed.`,
		examples: `# a run and its fork
starter compare triage-k3v9x0aa triage-p0q1r2s3
# for a program
starter compare triage-k3v9x0aa triage-p0q1r2s3 -output json`,
	},
	"impact": {
		about: `A run keeps the flow that it was started with; an edited file never touches it. impact says
of each open run of a flow with the edited one's name (-name names another) what the edit
would mean to it, with the nodes that decide and their file and line:
untouched: nothing that the run can still reach is another;
movable: what is another has not begun, so that a run could go on with the new flow from the
next boundary: starter fork ID -from NODE -flow FILE begins one that does;
pinned: a node under way is another, or what the run did has no place in the new flow.`,
		examples: `# may the edited flow be rolled out?
starter impact -flow triage.json
# for a program
starter impact -flow triage.json -output jsonl`,
	},
	"resume": {
		about: `The session's agent gets the prompt as it is, in the same conversation; a prompt that
comes while a turn is under way waits in line. With -image the model is shown a file with
it. The turn's result is printed. With -key the same prompt again is the same turn. With
-detach nothing is waited for.

Without -prompt, on a terminal, it asks for one prompt after the other, a line each, and
shows the answers while they come, calls of tools, and turns that callbacks and other
clients begin meanwhile. A question of the agent's is answered by the next line that is
typed. A turn that fails ends nothing. Ctrl-D leaves; the session stays open.`,
		examples: `# ask on
starter resume report-k3v9x0aa -prompt Shorter
# show something
starter resume report-k3v9x0aa -prompt Compare -image street.jpg
# talk on, on a terminal
starter resume report-k3v9x0aa
# from a file, so that it is safe to repeat
starter resume report-k3v9x0aa -prompt @more.txt -key mail-4711 -output json`,
	},
	"stop": {
		about: `The turn under way is cancelled, sessions below end, and the run ends with its turns.
Any other run is ended with: starter cancel ID`,
		examples: "# end it\nstarter stop report-k3v9x0aa -reason enough",
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
	"schedule": {about: "The other commands of schedules are Temporal's own: temporal schedule list, describe, toggle, trigger,\nbackfill, delete."},
	"schedule create": {
		about: `Creates a Temporal schedule named NAME that starts runs of a flow: -cron (minute, hour, day
of the month, month, day of the week; names, ranges, steps and lists; @daily and the like) in
UTC or -timezone, and -every INTERVAL. The flow is compiled now and stored in the schedule with
the input: editing the file changes nothing until create -replace, which also replaces the
times and leaves a paused schedule paused. The workflow id of a run is NAME and its time.

-overlap decides what happens while a run is open: skip drops the start, buffer_one and
buffer_all wait for the run to close, cancel_other and terminate_other end it, allow_all starts
beside it. Starts missed while Temporal was unavailable are caught up within -catchup.

Use Temporal's CLI for everything else:
   temporal schedule describe --schedule-id NAME
   temporal schedule toggle --schedule-id NAME --pause --reason TEXT   (or --unpause)
   temporal schedule trigger --schedule-id NAME
   temporal schedule delete --schedule-id NAME

-output json prints an object: "when", "next", "runs", "open", counts of starts.`,
		examples: `# every working day at nine
starter schedule create digest -flow digest.json -input go -cron "0 9 * * mon-fri" -timezone Europe/Berlin
# every six hours, and never two at a time
starter schedule create watch -flow watch.json -input @what.txt -every 6h -overlap buffer_one
# update flow and times
starter schedule create digest -flow digest.json -input go -every 1d/9h -replace`,
	},
	"schedule list": {
		about: `Lists name, flow, state, times, the next start and the last run of each schedule that starts
flows.`,
		examples: "# all schedules\nstarter schedule list\n# for a program\nstarter schedule list -output json",
	},
	"serve": {
		about: `The address is printed on standard output. What it answers is described at
/openapi.json there, and in starter/README.md. It keeps nothing, so that several may stand
side by side. Without tokens it serves programs of this machine alone, and listens at no
other address; WEFT_SERVE_TOKENS has tokens. -agents names the folder whose agents/ holds
agents. All else is set in the file of -config, under serve.`,
		examples: `# for programs of this machine
starter serve -agents config
# another port
starter serve -listen 127.0.0.1:9000
# without a Temporal of one's own
starter -dev serve -agents config`,
	},
	"man":     {about: "The page is in section 1.", examples: "# read it\nstarter man | man -l -"},
	"version": {about: "The version and the revision that the build knows.", examples: "# which build is this?\nstarter version"},
	"help":    {about: "The help of the run of a flow, which has no name, is that of run.", examples: "# all about the run of a flow\nstarter help run"},
}

// aboutAnswers is what the pages of all answers say.
const aboutAnswers = `
The answer waits for its receipt, for up to a minute, and says after 3 seconds when no
worker polls. -signal waits for none: a worker takes the answer when there is one, and a
wrong one is shown by starter status. The same answer twice is one; another one to the
same request is refused, with exit code 1. Wrong input has exit code 2, and the request
stays open.`

const exitCodes = `Exit codes: 0 completed, 1 failed, 2 bad input, 3 no Temporal,
            4 cancelled or terminated, 70 a defect of starter, 130 ended by Ctrl-C`

// help prints the help of everything, or of one command.
func (a *app) help(_ context.Context, args []string) error {
	cmd := a.commandLine(nil)
	for i, name := range args {
		if cmd = cmd.Command(name); cmd == nil && name != "completion" {
			return unknownCommand(strings.Join(args[:i+1], " "), topCommands())
		}
	}
	// The library takes a command in the context for the parent of this command line.
	return a.commandLine(nil).Run(context.Background(), slices.Concat([]string{"starter"}, args, []string{"-help"}))
}

// man prints the manual page, in section 1.
func (a *app) man(context.Context, []string) error {
	root := a.commandLine(nil)
	root.Flags = nil // they are those of the commands
	text, err := docs.ToManWithSection(root, 1)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(a.stdout, text)
	return err
}
