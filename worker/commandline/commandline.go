// Package commandline provides the help layout and the usage errors that the commands starter and worker
// share. Importing it sets the templates of the command-line library.
package commandline

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"weft/activities/textutil"
	"weft/specadapter/source"
)

// CommandHelp is the help template of a command.
const CommandHelp = `{{template "helpNameTemplate" .}}

Usage:
   {{template "usageTemplate" .}}{{if .Description}}

{{.Description}}{{end}}{{if .VisibleCommands}}

Commands:{{template "visibleCommandTemplate" .}}{{end}}

Flags:{{template "visibleFlagTemplate" .}}
`

func init() {
	cli.CommandHelpTemplate, cli.SubcommandHelpTemplate, cli.RootCommandHelpTemplate = CommandHelp, CommandHelp, CommandHelp
	long := cli.FlagStringer
	cli.FlagStringer = func(f cli.Flag) string {
		name, usage, _ := strings.Cut(long(f), "\t")
		name, _, _ = strings.Cut(name, " [ ")
		return strings.ReplaceAll(name, "--", "-") + "\t" + usage
	}
}

// maxError limits the length of an error text, which may quote a value.
const maxError = 500

// Error returns the text of a usage error of the library; it suggests a similar flag for an unknown one.
func Error(cmd *cli.Command, err error) string {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		var names []string
		for _, f := range cmd.Flags {
			names = append(names, f.Names()...)
		}
		if near := source.NewSuggester(names).Nearest(name); near != "" {
			return fmt.Sprintf("unknown flag -%s; did you mean -%s?", name, near)
		}
		return fmt.Sprintf("unknown flag -%s; list the flags with: %s -help", name, cmd.FullName())
	}
	if before, number, ok := strings.Cut(text, ": strconv."); ok {
		text = before + number[strings.LastIndex(number, ": "):]
	}
	text = strings.Replace(text, "can't duplicate this flag", "the flag is set twice", 1)
	return textutil.Cut(text, maxError)
}

// UnknownCommand returns the error text for a name that is not a subcommand of cmd.
func UnknownCommand(cmd *cli.Command, name string) string {
	var known []string
	for _, c := range cmd.VisibleCommands() {
		known = append(known, c.Name)
	}
	path := strings.Join(append(cmd.Path()[1:], name), " ")
	if near := source.NewSuggester(known).Nearest(name); near != "" {
		return fmt.Sprintf("unknown command %q; did you mean %s?", path, near)
	}
	return fmt.Sprintf("unknown command %q; list the commands with: %s -help", path, cmd.FullName())
}

// ShowHelp shows the help of a command whose -help flag follows arguments. It is a handler for the
// library's CommandNotFound.
func ShowHelp(ctx context.Context, cmd *cli.Command, _ string) {
	if lineage := cmd.Lineage(); len(lineage) > 1 {
		_ = cli.ShowCommandHelp(ctx, lineage[1], cmd.Name)
		return
	}
	_ = cli.ShowRootCommandHelp(cmd)
}
