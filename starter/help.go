package main

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"

	docs "github.com/urfave/cli-docs/v3"

	"weft/starter/usage"
	"weft/worker/build"
	"weft/worker/commandline"
)

const rootHelp = `{{template "helpNameTemplate" .}}

Usage:
   {{wrap .UsageText 3}}

{{.Description}}

Commands:{{template "visibleCommandCategoryTemplate" .}}
`

//go:embed help/*.txt
var helpTexts embed.FS

// helpText returns the description of a command with examples, "" for an unknown one.
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
