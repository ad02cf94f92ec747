// Command starter checks flows, starts their runs and follows them.
//
// It compiles a flow itself, so that invalid input is rejected without a server, and sends the
// plan to the workers that poll the task queue. It calls no model and runs no node. Only the
// result goes to standard output; everything else goes to standard error.
//
// Start at [commands], the table of all commands. This package defines their flags and exit codes; the subpackages
// implement them: runs queries Temporal and workers, history reads histories, report prints.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"go.temporal.io/api/serviceerror"

	"weft/activities/mask"
	"weft/specadapter/source"
	"weft/starter/dev"
	"weft/starter/follow"
	"weft/starter/plaintext"
	"weft/starter/runs"
	"weft/starter/usage"
	"weft/worker/config"
)

// Exit codes.
const (
	exitOK = 0
	// exitFailed: the run failed, or has no result yet.
	exitFailed = 1
	// exitBadInput: a flag, a file, a document or an id is invalid.
	exitBadInput = 2
	// exitNoTemporal: there is no connection to Temporal, or it was lost.
	exitNoTemporal = 3
	// exitCancelled: the run was cancelled or terminated.
	exitCancelled = 4
	// exitDefect: starter panicked; a report has been printed.
	exitDefect = 70
	// exitDetached: Ctrl-C; a run that was started continues.
	exitDetached = 130
)

func main() {
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, env: config.OS, quit: os.Exit, stage: &stage{}}
	defer a.handlePanic()
	a.handleInterrupts()
	os.Exit(a.run(context.Background(), os.Args[1:]))
}

type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            config.Env
	flags          flags
	// args are the arguments of the command line, for panic reports.
	args []string
	// dev is the session that -dev has joined, or nil.
	dev *dev.Dev
	// cfg are the settings, nil until they are read.
	cfg *config.Config
	// warnings are the warnings about the settings that were printed.
	warnings []string
	// connections are closed when the command has run.
	connections []*runs.Connection
	// mask masks the secrets of the settings, once they are read.
	mask *mask.Mask
	// secrets are the inline secrets of the flow's document.
	secrets []source.InlineSecret
	// stage determines the effect of an interrupt, nil if interrupts are not handled.
	stage *stage
	// quit exits the process.
	quit func(code int)
}

type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

func (a *app) run(ctx context.Context, args []string) int {
	a.args = args
	out := &checked{Writer: a.stdout, terminal: terminal(a.stdout)}
	a.stdout = out
	code := a.command(ctx, args)
	if code == exitOK && out.err != nil {
		a.say("starter: write the output: %v", out.err)
		return exitFailed
	}
	return code
}

// checked records the first error of its writer, and masks the secrets of the settings. To a terminal it writes no
// control characters, which text from models, tools and flows may contain.
type checked struct {
	io.Writer
	err      error
	mask     *mask.Mask
	terminal bool
	// partial is an incomplete UTF-8 sequence at the end of the last write.
	partial []byte
}

func (c *checked) Write(p []byte) (int, error) { return c.to(c.mask.Writer(c.Writer), p) }

func (c *checked) to(w io.Writer, p []byte) (int, error) {
	text := p
	if c.terminal {
		text = append(c.partial, p...)
		end := len(text)
		for i := max(0, end-utf8.UTFMax); i < end; i++ {
			if utf8.RuneStart(text[i]) && !utf8.FullRune(text[i:]) {
				end = i
			}
		}
		text, c.partial = []byte(plaintext.Lines(string(text[:end]))), bytes.Clone(text[end:])
	}
	if _, err := w.Write(text); err != nil {
		c.err = cmp.Or(c.err, err)
		return 0, err
	}
	return len(p), nil
}

func (a *app) writeUnmasked(p []byte) error {
	out, ok := a.stdout.(*checked)
	if !ok {
		_, err := a.stdout.Write(p)
		return err
	}
	_, err := out.to(out.Writer, p)
	return err
}

func (a *app) command(ctx context.Context, args []string) int {
	if len(args) == 0 {
		args = []string{"help"}
	}
	return a.exit(a.commandLine(a.do).Run(ctx, append([]string{"starter", canonicalName(args[0])}, args[1:]...)))
}

// canonicalName returns the command for a first argument: --version is version, and a missing or extra plural s is ignored.
func canonicalName(word string) string {
	if strings.TrimLeft(word, "-") == "version" {
		return "version"
	}
	exists := func(name string) bool {
		return groups[name] != "" || slices.ContainsFunc(commands(), func(c command) bool { return c.name == name })
	}
	for _, name := range []string{word, word + "s", strings.TrimSuffix(word, "s")} {
		if exists(name) {
			return name
		}
	}
	return word
}

func (a *app) do(ctx context.Context, cmd *command, args []string) error {
	// run reads its input first; a graph of a file needs no server.
	a.flags.dev = a.flags.dev || cmd.name == "dev"
	if a.flags.dev && cmd.name != "run" && (cmd.name != "graph" || a.flags.id != "") {
		if err := a.joinDev(ctx); err != nil {
			return err
		}
	}
	defer func() {
		if a.dev != nil {
			a.dev.Close()
		}
		for _, c := range a.connections {
			c.Client.Close()
		}
	}()
	return cmd.run(a, ctx, args)
}

func (a *app) exit(err error) int {
	if err == nil {
		return exitOK
	}
	if code, ok := errors.AsType[exitCode](err); ok {
		return int(code)
	}
	if errors.Is(err, dev.ErrInterrupted) {
		a.sayInterrupted()
		return exitDetached
	}
	for _, line := range strings.Split(err.Error(), "\n") {
		a.say("starter: %s", line)
	}
	switch {
	case runs.Is[*config.Unreachable](err), runs.Is[*follow.LostContactError](err):
		return exitNoTemporal
	case runs.Is[usage.Error](err), runs.Is[config.Problems](err), runs.Is[*serviceerror.NotFound](err):
		return exitBadInput
	}
	return exitFailed
}

// say prints a line to standard error, with the secrets of the settings masked.
func (a *app) say(format string, args ...any) {
	fmt.Fprintf(a.mask.Writer(a.stderr), format+"\n", args...)
}

func (a *app) settings() config.Options {
	o := config.Options{File: a.flags.config, Env: a.env, Flags: map[string]string{}}
	if a.flags.taskQueue != "" {
		o.Flags["task_queue"] = a.flags.taskQueue
	}
	return o
}

func (a *app) load() (*config.Config, error) {
	if a.cfg != nil {
		return a.cfg, nil
	}
	cfg, err := config.Load(a.settings())
	if err != nil {
		return nil, err
	}
	a.mask = cfg.Mask()
	if out, ok := a.stdout.(*checked); ok {
		out.mask = a.mask
	}
	for _, w := range cfg.Warnings {
		if !slices.Contains(a.warnings, w) {
			a.say("warning: %s", w)
		}
	}
	a.cfg, a.warnings = cfg, cfg.Warnings
	return cfg, nil
}
