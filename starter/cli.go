package main

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"

	docs "github.com/urfave/cli-docs/v3"
	"github.com/urfave/cli/v3"

	"weft/starter/runs"
	"weft/starter/usage"
	"weft/worker/build"
	"weft/worker/commandline"
)

// commandLine builds the command line from the table of commands; do runs the selected command.
//
// Every flag is declared at the root, so that it can also precede the command; [command.check]
// rejects flags that the command does not support.
func (a *app) commandLine(do func(context.Context, *command, []string) error) *cli.Command {
	root := a.plain("starter", "start, follow and answer runs of agent flows")
	root.UsageText = "starter -flow FILE [flags]\nstarter COMMAND [arguments] [flags]"
	root.Description = "Flags can come before or after arguments, as -x or --x. Show the flags and examples of\n" +
		"a command with: starter help COMMAND\n\n" + exitCodes
	root.Flags = a.flags.declare()
	root.CustomRootCommandHelpTemplate = rootHelp
	root.DefaultCommand = "run"
	root.HideHelpCommand = true
	root.EnableShellCompletion = true
	root.ConfigureShellCompletionCommand = a.completion
	root.ExitErrHandler = func(context.Context, *cli.Command, error) {} // app.exit handles errors
	for _, c := range commands() {
		parent, name := root, c.name
		if group, member, ok := strings.Cut(c.name, " "); ok {
			parent, name = a.group(root, group, c.category), member
		}
		cmd := a.plain(name, c.summary)
		cmd.Category = c.category
		cmd.UsageText = c.usage()
		cmd.Description = helpText(c.name)
		cmd.ShellComplete = a.suggest(&c)
		for _, f := range root.Flags {
			if slices.Contains(c.flags, f.Names()[0]) {
				cmd.Flags = append(cmd.Flags, f)
			}
		}
		cmd.Action = func(ctx context.Context, cmd *cli.Command) error {
			for _, f := range root.Flags {
				if f.IsSet() {
					a.flags.setNames = append(a.flags.setNames, f.Names()[0])
				}
			}
			args := cmd.Args().Slice()
			if c.name == "run" && len(args) > 0 {
				return usage.Error{Text: commandline.UnknownCommand(root, args[0])}
			}
			if err := c.check(&a.flags, args); err != nil {
				return err
			}
			return do(ctx, &c, args)
		}
		if c.name == "run" {
			// Report an unknown command rather than the flags after it.
			cmd.StopOnNthArg = new(int)
			*cmd.StopOnNthArg = 1
			root.ShellComplete = cmd.ShellComplete
		}
		parent.Commands = append(parent.Commands, cmd)
	}
	return root
}

func (a *app) plain(name, usage string) *cli.Command {
	return &cli.Command{Name: name, Usage: usage, Writer: a.stdout, ErrWriter: a.stderr,
		DisableSliceFlagSeparator: true, OnUsageError: usageError, CommandNotFound: commandline.ShowHelp}
}

func (a *app) group(root *cli.Command, name, category string) *cli.Command {
	if cmd := root.Command(name); cmd != nil {
		return cmd
	}
	cmd := a.plain(name, groups[name])
	cmd.Category = category
	cmd.UsageText = "starter " + name + " COMMAND [arguments] [flags]"
	cmd.Description = helpText(name)
	cmd.Action = func(_ context.Context, cmd *cli.Command) error {
		if first := cmd.Args().First(); first != "" {
			return usage.Error{Text: commandline.UnknownCommand(cmd, first)}
		}
		return cli.ShowSubcommandHelp(cmd)
	}
	root.Commands = append(root.Commands, cmd)
	return cmd
}

func (a *app) completion(cmd *cli.Command) {
	cmd.Hidden, cmd.Category, cmd.Usage, cmd.OnUsageError = false, "Other", "print a completion script for bash, zsh, fish or pwsh", usageError
	cmd.Action = func(_ context.Context, cmd *cli.Command) error {
		return usage.Errorf("missing shell; usage: starter completion bash|zsh|fish|pwsh")
	}
}

func usageError(_ context.Context, cmd *cli.Command, err error, _ bool) error {
	return usage.Error{Text: commandline.Error(cmd, err)}
}

// suggest prints completions, one per line, for the library's completion scripts; without any, the shell completes file names.
func (a *app) suggest(c *command) cli.ShellCompleteFunc {
	return func(_ context.Context, cmd *cli.Command) {
		last := ""
		if n := len(a.args); n > 1 {
			last = a.args[n-2] // the last argument is the flag that requests completion
		}
		name := strings.TrimLeft(last, "-")
		dashes := last[:len(last)-len(name)]
		if dashes == "" {
			if c.name == "help" {
				cmd = cmd.Root()
			}
			for _, member := range cmd.VisibleCommands() {
				fmt.Fprintf(a.stdout, "%s:%s\n", member.Name, member.Usage)
			}
			return
		}
		for _, f := range cmd.Root().Flags {
			doc, ok := f.(cli.DocGenerationFlag)
			switch {
			case !ok || !slices.Contains(c.flags, f.Names()[0]):
			case f.Names()[0] == name && doc.TakesValue():
				values := choices[name]
				if name == "output" {
					values = c.outputs()
				}
				for _, v := range values {
					fmt.Fprintln(a.stdout, v)
				}
				return
			default:
				fmt.Fprintf(a.stdout, "%s%s:%s\n", dashes, f.Names()[0], strings.ReplaceAll(doc.GetUsage(), "`", ""))
			}
		}
	}
}

const rootHelp = `{{template "helpNameTemplate" .}}

Usage:
   {{wrap .UsageText 3}}

{{.Description}}

Commands:{{template "visibleCommandCategoryTemplate" .}}
`

//go:embed help/*.txt
var helpTexts embed.FS

func helpText(name string) string {
	text, _ := helpTexts.ReadFile("help/" + strings.ReplaceAll(name, " ", "-") + ".txt")
	return strings.TrimSuffix(string(text), "\n")
}

const exitCodes = `Exit codes: 0 completed, 1 failed, 2 bad input, 3 no connection to Temporal,
            4 cancelled or terminated, 70 internal error, 130 interrupted by Ctrl-C`

func (a *app) help(_ context.Context, args []string) error {
	if root := a.commandLine(nil); len(args) > 0 && args[0] != "completion" && root.Command(args[0]) == nil {
		return usage.Error{Text: commandline.UnknownCommand(root, args[0])}
	}
	// With the caller's context, the library would use its command as the parent of this command line.
	return a.commandLine(nil).Run(context.Background(), slices.Concat([]string{"starter"}, args, []string{"-help"}))
}

func (a *app) man(context.Context, []string) error {
	root := a.commandLine(nil)
	root.Flags = nil // each command lists its own
	text, err := docs.ToManWithSection(root, 1)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(a.stdout, text)
	return err
}

func (a *app) version(context.Context, []string) error {
	fmt.Fprintln(a.stdout, build.String())
	return nil
}

type command struct {
	// name is one word, or two for a command of a group.
	name string
	// category is the heading under which the help lists the command.
	category string
	// args and summary are shown in the help.
	args, summary string
	// minArgs and maxArgs limit the number of arguments; maxArgs -1 means no limit.
	minArgs, maxArgs int
	// flags are the names of the flags that the command supports.
	flags []string
	run   func(a *app, ctx context.Context, args []string) error
}

// Sets of flags.
var (
	readFlags   = []string{"dialect", "profile", "components", "component", "config"}
	inputFlags  = []string{"flow", "input", "input-json", "image", "document", "audio", "param", "params", "scope", "state", "script", "model"}
	limitFlags  = []string{"on-error", "max-steps", "budget", "allow-commands", "task-queue", "priority", "fairness-key", "fairness-weight"}
	remoteFlags = []string{"config", "dev"}
	outputFlags = []string{"config", "dev", "output"}
	answerSet   = []string{"config", "dev", "output", "by", "signal"}
	startFlags  = slices.Concat(readFlags, inputFlags, limitFlags, []string{"id", "detach", "session", "output", "dev"})
	createFlags = slices.Concat(readFlags, inputFlags, limitFlags, []string{"cron", "every", "timezone", "overlap", "output", "dev"})
	forkFlags   = with(readFlags, "from", "set", "override", "flow", "script", "model", "id", "detach", "task-queue", "max-steps", "priority", "fairness-key", "fairness-weight", "output", "dev")
)

func with(set []string, more ...string) []string { return slices.Concat(set, more) }

// commands returns the table of all commands. The folder help has their help texts.
func commands() []command {
	return []command{
		{"run", "Runs", "-flow FILE [-input TEXT|@FILE|-]", "start a run and follow it to its result; the default command", 0, 0, startFlags, (*app).start},
		{"list", "Runs", "", "list runs, or the requests that open runs wait for", 0, 0, with(outputFlags, "all", "limit", "name", "status", "waiting"), (*app).list},
		{"follow", "Runs", "ID", "follow a run to its result", 1, 1, outputFlags, onRun((*app).follow)},
		{"status", "Runs", "ID", "show the status of a run", 1, 1, outputFlags, onRun((*app).status)},
		{"result", "Runs", "ID", "print the result of a closed run", 1, 1, outputFlags, onRun((*app).result)},
		{"state", "Runs", "ID", "print the shared state of a run", 1, 1, remoteFlags, onRun((*app).state)},
		{"transcript", "Runs", "ID [THREAD]", "print the messages of a run", 1, 2, outputFlags, onRun((*app).transcript)},
		{"trace", "Runs", "ID [-format agentspec]", "export the spans and events of a run", 1, 1, with(remoteFlags, "format", "content"), onRun((*app).trace)},
		{"why", "Runs", "ID [NODE]", "explain why nodes ran, did not run, or wait", 1, 2, outputFlags, onRun((*app).why)},
		{"fork", "Runs", "ID -from NODE", "start a run that continues from a node of another run", 1, 1, forkFlags, (*app).fork},
		{"compare", "Runs", "ID ID", "compare two runs: outputs, tokens, time", 2, 2, outputFlags, (*app).compare},
		{"cancel", "Runs", "ID", "cancel a run and everything that it started", 1, 1, remoteFlags, onOpenRun((*app).cancel)},
		{"terminate", "Runs", "ID", "terminate a run at once", 1, 1, with(remoteFlags, "reason"), onOpenRun((*app).terminate)},
		{"requests", "Requests", "ID", "list the open requests of a run, with the commands that answer", 1, 1, outputFlags, onRun((*app).requests)},
		{"confirm", "Requests", "ID [REQUEST] -yes|-no", "approve or reject a tool call", 1, 2, with(answerSet, "yes", "no", "reason", "arguments", "remember"), (*app).confirm},
		{"tool-result", "Requests", "ID [REQUEST] -result JSON|@FILE|-", "send the result or the error of a tool that a client runs", 1, 2, with(answerSet, "result", "error"), (*app).toolResult},
		{"retry", "Requests", "ID [REQUEST]", "retry a call after its cause is fixed", 1, 2, with(answerSet, "give-up", "reason"), (*app).retry},
		{"message", "Requests", "ID [TEXT|@FILE|-]", "answer a question of a run, or send a message to an agent", 1, 2, with(answerSet, "node", "request", "key"), (*app).message},
		{"audit", "Requests", "ID", "print the requests of a run and who answered them", 1, 1, outputFlags, onRun((*app).audit)},
		{"resume", "Sessions", "ID [-prompt TEXT|@FILE|-]", "send a prompt to a session and wait for the result", 1, 1, with(outputFlags, "prompt", "param", "params", "image", "document", "audio", "key", "by", "detach"), (*app).resume},
		{"stop", "Sessions", "ID", "close a session and cancel its running turn", 1, 1, with(outputFlags, "reason", "by"), onOpenRun((*app).stop)},
		{"init", "Flows", "DIALECT [FOLDER]", "create a first flow, with its script, recording and settings", 0, 2, nil, (*app).init},
		{"validate", "Flows", "FILE|FOLDER...", "check flows and print their diagnostics", 1, -1, with(readFlags, "output"), (*app).validate},
		{"agents", "Flows", "FOLDER", "list the agents of a folder, with schemas and diagnostics", 1, 1, []string{"profile", "config", "output"}, (*app).agents},
		{"graph", "Flows", "FILE|-id ID", "draw a flow, or the progress of a run", 0, 1, with(readFlags, "svg", "id", "dev"), (*app).graph},
		{"impact", "Flows", "-flow FILE", "show what an edited flow would change for open runs", 0, 0, with(readFlags, "flow", "name", "output", "dev"), (*app).impact},
		{"schema", "Flows", "KIND", "print the JSON Schema of a kind of file, for editors", 1, 1, nil, (*app).schema},
		{"lsp", "Flows", "", "run a language server for editors, over standard input and output", 0, 0, []string{"dialect", "profile", "config"}, (*app).lsp},
		{"record", "Flows", "ID", "record a closed run as a test", 1, 1, remoteFlags, onRun((*app).record)},
		{"test", "Flows", "FILE...", "replay recorded runs offline and report the first difference", 1, -1, with(readFlags, "flow", "output"), (*app).test},
		{"schedule create", "Services", "NAME -flow FILE -cron EXPRESSION|-every INTERVAL", "create a schedule that starts runs of a flow", 1, 1, createFlags, (*app).createSchedule},
		{"serve", "Services", "", "serve the HTTP API", 0, 0, with(remoteFlags, "listen", "agents", "task-queue"), (*app).serve},
		{"dev", "Services", "[FOLDER]", "watch a folder, run its flows again at each save, and serve a page", 0, 1, with(readFlags, "listen", "agents", "task-queue", "dev"), (*app).author},
		{"doctor", "Other", "", "check this machine for everything that runs need, and print how to fix problems", 0, 0, outputFlags, (*app).doctor},
		{"connection", "Other", "CONNECTION", "list the tools, prompts and resources of a connection in the settings", 1, 1, outputFlags, (*app).connection},
		{"man", "Other", "", "print the manual page", 0, 0, nil, (*app).man},
		{"version", "Other", "", "print the version", 0, 0, nil, (*app).version},
		{"help", "Other", "[COMMAND]", "list the commands, or show the help of one", 0, 2, nil, (*app).help},
	}
}

// onRun returns a command that calls do with the run that its first argument names; onOpenRun also requires that it is open.
func onRun(do runCommand) func(*app, context.Context, []string) error {
	return func(a *app, ctx context.Context, args []string) error {
		r, err := a.find(ctx, args[0])
		if err != nil {
			return err
		}
		return do(a, ctx, r, args[1:])
	}
}

func onOpenRun(do runCommand) func(*app, context.Context, []string) error {
	return onRun(func(a *app, ctx context.Context, r *runs.Run, args []string) error {
		if !r.Open() {
			return usage.Errorf("%s", r.Closed(ctx))
		}
		return do(a, ctx, r, args)
	})
}

type runCommand func(a *app, ctx context.Context, r *runs.Run, args []string) error

// groups are the commands that have subcommands, with their short descriptions.
var groups = map[string]string{"schedule": "start runs of a flow on a schedule"}

// argument returns the argument at index i, or fallback if it is missing.
func argument(args []string, i int, fallback string) string {
	if i < len(args) {
		return args[i]
	}
	return fallback
}

func (c *command) usage() string { return strings.TrimSpace("starter " + c.name + " " + c.args) }

func (c *command) outputs() []string {
	if c.name == "validate" {
		return []string{outputText, outputJSON, outputSARIF}
	}
	return []string{outputText, outputJSON, outputLines}
}

func (c *command) check(f *flags, args []string) error {
	for _, name := range f.setNames {
		if !slices.Contains(c.flags, name) {
			return usage.Errorf("%s has no flag -%s; list its flags with: starter %s -help", c.name, name, c.name)
		}
	}
	switch {
	case len(args) < c.minArgs:
		return usage.Errorf("%s: missing argument; usage: %s", c.name, c.usage())
	case c.maxArgs >= 0 && len(args) > c.maxArgs:
		return usage.Errorf("%s: unexpected argument %q; usage: %s", c.name, args[c.maxArgs], c.usage())
	case !slices.Contains(c.outputs(), f.output):
		return usage.Errorf("-output is %q, expected one of %s", f.output, strings.Join(c.outputs(), ", "))
	}
	return nil
}
