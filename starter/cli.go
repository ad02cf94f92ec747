package main

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"

	docs "github.com/urfave/cli-docs/v3"
	"github.com/urfave/cli/v3"

	"weft/starter/usage"
	"weft/worker/build"
	"weft/worker/commandline"
)

// commandLine builds the command line from the table of commands; do runs the command that a
// line names.
//
// Every flag is declared at the root, so that it can stand before the command, too; what a
// command does not take is refused by [command.check].
func (a *app) commandLine(do func(context.Context, *command, []string) error) *cli.Command {
	root := a.plain("starter", "start, follow and answer runs of agent flows")
	root.UsageText = "starter -flow FILE [flags]\nstarter COMMAND [arguments] [flags]"
	root.Description = "Flags can stand before or after arguments, as -x or --x. Show the flags and examples of\n" +
		"a command with: starter help COMMAND\n\n" + exitCodes
	root.Flags = a.flags.declare()
	root.CustomRootCommandHelpTemplate = rootHelp
	root.DefaultCommand = "run"
	root.HideHelpCommand = true
	root.EnableShellCompletion = true
	root.ConfigureShellCompletionCommand = a.completion
	root.ExitErrHandler = func(context.Context, *cli.Command, error) {} // exit does that
	for _, c := range commands() {
		parent, name := root, c.name
		if group, member, ok := strings.Cut(c.name, " "); ok {
			parent, name = a.group(root, group, c.category), member
		}
		cmd := a.plain(name, c.does)
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
			a.flags.note(root.Flags)
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
			// An unknown command, not the flags behind it, is what is wrong.
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
		return usage.Errorf("completion wants a shell; usage: starter completion bash|zsh|fish|pwsh")
	}
}

// note keeps the names of the flags that were given.
func (f *flags) note(all []cli.Flag) {
	for _, v := range all {
		if v.IsSet() {
			f.given = append(f.given, v.Names()[0])
		}
	}
}

func usageError(_ context.Context, cmd *cli.Command, err error, _ bool) error {
	return usage.Error{Text: commandline.Error(cmd, err)}
}

// suggest prints what can follow, an entry a line, for the library's completion scripts; nothing stands for files.
func (a *app) suggest(c *command) cli.ShellCompleteFunc {
	return func(_ context.Context, cmd *cli.Command) {
		last := ""
		if n := len(a.args); n > 1 {
			last = a.args[n-2] // behind it is the flag that asks for completion
		}
		name := strings.TrimLeft(last, "-")
		dashes := last[:len(last)-len(name)]
		if dashes == "" {
			a.suggestWords(c, cmd)
			return
		}
		for _, f := range cmd.Root().Flags {
			doc, ok := f.(cli.DocGenerationFlag)
			switch {
			case !ok || !slices.Contains(c.flags, f.Names()[0]):
			case f.Names()[0] == name && doc.TakesValue():
				for _, v := range values(name, c) {
					fmt.Fprintln(a.stdout, v)
				}
				return
			default:
				fmt.Fprintf(a.stdout, "%s%s:%s\n", dashes, f.Names()[0], strings.ReplaceAll(doc.GetUsage(), "`", ""))
			}
		}
	}
}

func (a *app) suggestWords(c *command, cmd *cli.Command) {
	if c.name == "help" {
		cmd = cmd.Root()
	}
	for _, member := range cmd.VisibleCommands() {
		fmt.Fprintf(a.stdout, "%s:%s\n", member.Name, member.Usage)
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

const exitCodes = `Exit codes: 0 completed, 1 failed, 2 bad input, 3 no Temporal,
            4 cancelled or terminated, 70 a defect of starter, 130 ended by Ctrl-C`

func (a *app) help(_ context.Context, args []string) error {
	if root := a.commandLine(nil); len(args) > 0 && args[0] != "completion" && root.Command(args[0]) == nil {
		return usage.Error{Text: commandline.UnknownCommand(root, args[0])}
	}
	// The library takes a command in the context for the parent of this command line.
	return a.commandLine(nil).Run(context.Background(), slices.Concat([]string{"starter"}, args, []string{"-help"}))
}

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

func (a *app) version(context.Context, []string) error {
	fmt.Fprintln(a.stdout, build.String())
	return nil
}
