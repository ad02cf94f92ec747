package main

import (
	"context"
	"fmt"
	"strings"

	"weft/starter/usage"
	"weft/starter/validate"
)

// validate prints the diagnostics of all files. Its exit code is 2 if a flow cannot be run.
func (a *app) validate(_ context.Context, args []string) error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	files, found, err := validate.Files(args)
	if err != nil {
		return err
	}
	report := validate.Report{Files: []validate.File{}}
	for _, name := range files {
		d, unread := a.examine(cfg, name, false)
		f, err := report.Add(name, d, unread, found[name] && a.flags.dialect == "")
		if err != nil {
			return err
		}
		if a.flags.output == outputText {
			line, notes := f.Text()
			for _, n := range notes {
				a.say("%s", n)
			}
			fmt.Fprint(a.stdout, line)
		}
	}
	switch a.flags.output {
	case outputJSON:
		a.object(report)
	case outputSARIF:
		a.object(report.SARIF())
	}
	switch {
	case report.Flows == 0:
		return usage.Errorf("no flows in %s; a flow is a file ending in %s that a dialect recognizes",
			strings.Join(args, ", "), strings.Join(validate.Extensions, ", "))
	case report.Wrong > 0:
		a.say("starter: %d of %d files cannot be run", report.Wrong, report.Flows)
		return exitCode(exitBadInput)
	}
	return nil
}
