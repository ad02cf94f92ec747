package main

import (
	"context"
	"embed"
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

//go:embed help/*.txt
var helpTexts embed.FS

// helpText returns the description of a command with examples, "" for an unknown one.
func helpText(name string) string {
	text, _ := helpTexts.ReadFile("help/" + strings.ReplaceAll(name, " ", "-") + ".txt")
	return strings.TrimSuffix(string(text), "\n")
}

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
