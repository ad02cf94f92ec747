package host

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"weft/activities/tool"
	"weft/worker/build"
	"weft/worker/config"
)

// Exit codes, the same as the starter's.
const (
	exitFailed     = 1
	exitBadInput   = 2
	exitNoTemporal = 3
)

// Main is the worker command, with the arguments, the environment and the settings of
// bin/worker, and with functions as tools besides: the whole main of a worker of one's own.
// It does not return; the process ends with the command's exit code.
func Main(functions ...tool.Function) {
	// The signals are caught here so that running activities can end.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := Command(ctx, os.Args[1:], os.Stdout, os.Stderr, functions...)
	stop()
	os.Exit(code)
}

// Command is [Main] for programs that catch signals themselves: the worker stops when ctx is
// done. It returns the exit code: 0, 1 for a failure, 2 for wrong arguments, settings or
// functions, 3 where there is no Temporal. What is wrong is written to stderr.
func Command(ctx context.Context, args []string, stdout, stderr io.Writer, functions ...tool.Function) int {
	err := command(ctx, args, stdout, stderr, functions)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintf(stderr, "worker: %v\n", err)
	var none *config.Unreachable
	var problems config.Problems
	switch {
	case errors.As(err, &none):
		return exitNoTemporal
	case errors.As(err, &problems):
		return exitBadInput
	}
	return exitFailed
}

// command does what the arguments ask for.
func command(ctx context.Context, args []string, stdout, stderr io.Writer, functions []tool.Function) error {
	if len(args) > 0 {
		switch args[0] {
		case "store":
			return sweep(ctx, args[1:], stdout, stderr)
		case "codec":
			return serveCodec(ctx, args[1:], stdout, stderr)
		case "health":
			return ask(ctx, args[1:], stdout, stderr)
		case "setup":
			return setup(ctx, args[1:], stdout, stderr)
		case "deployment":
			return deployment(ctx, args[1:], stdout, stderr)
		case "version":
			return version(args[1:], stdout)
		}
	}
	o, err := parse(args, stderr)
	switch {
	case err != nil:
		return err
	case o.reference:
		fmt.Fprint(stdout, config.Reference())
		return nil
	case o.show:
		return show(ctx, o.Options, stdout, stderr, functions)
	}
	return work(ctx, o.Options, stderr, functions)
}

// flags are the flags, and whether the settings are shown instead of used.
type flags struct {
	config.Options
	show, reference bool
}

func parse(args []string, stderr io.Writer) (flags, error) {
	var o flags
	name := "worker"
	if o.show = len(args) > 0 && args[0] == "config"; o.show {
		name, args = "worker config", args[1:]
	}
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.StringVar(&o.File, "config", "", "settings `file` (default: WEFT_CONFIG, else weft.yaml if there is one)")
	queue := fs.String("task-queue", "", "task queue to poll (default: weft)")
	model := fs.String("model", "", "`provider/model` of flows that name none")
	if o.show {
		fs.BoolVar(&o.reference, "reference", false, "with config: print the Markdown table of all settings")
	}
	fs.Usage = func() {
		fmt.Fprintln(stderr, "usage: worker [flags]\n       worker config [-reference] [flags]\n       worker store sweep -older-than AGE [-config FILE]\n       worker codec [-listen HOST:PORT] [-config FILE]\n       worker health [-live] [-config FILE]\n       worker setup [-retention AGE] [-wait TIME] [-config FILE]\n       worker deployment [-current] [-wait TIME] [-config FILE]\n       worker version\n\n"+
			"Runs flows for the Temporal that TEMPORAL_ADDRESS names (default 127.0.0.1:7233).\n"+
			"config prints every setting in force and where it comes from, secrets masked, and what is wrong.\n"+
			"store sweep removes old payloads from the store.\n"+
			"codec decodes payloads for the Web UI and for clients in other languages.\n"+
			"health asks a running worker whether it can work.\n"+
			"setup makes namespace and search attributes on a Temporal of one's own.\n"+
			"deployment lists the versions of workers and makes this one current.\n\nFlags:")
		fs.PrintDefaults()
	}
	if err := readFlags(fs, args, stderr); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, config.Problems{fmt.Sprintf("%q is no flag; worker takes no other argument than config, store, codec, health, setup, deployment or version, first", fs.Arg(0))}
	}
	o.Flags = map[string]string{}
	for key, value := range map[string]string{"task_queue": *queue, "model": *model} {
		if value != "" {
			o.Flags[key] = value
		}
	}
	return o, nil
}

// readFlags reads the flags of a command. The help is printed where it was asked for, and then
// the error is [flag.ErrHelp]; what is wrong is the error alone, to be said once.
func readFlags(fs *flag.FlagSet, args []string, stderr io.Writer) error {
	help := fs.Usage
	fs.Usage = func() {}
	fs.SetOutput(io.Discard)
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fs.SetOutput(stderr)
		help()
		return err
	case err != nil:
		return config.Problems{fmt.Sprintf("%v; see %s -help", err, fs.Name())}
	}
	return nil
}

// show prints the settings in force. Its error is all that would keep a worker from starting with them.
func show(ctx context.Context, o config.Options, stdout, stderr io.Writer, functions []tool.Function) error {
	cfg, err := config.Load(o)
	if err != nil {
		return err
	}
	list, err := cfg.Shown()
	if err != nil {
		return err
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintf(stderr, "worker: warning: %s\n", w)
	}
	config.Print(stdout, list)
	return check(ctx, cfg, functions)
}

// work runs a worker until ctx is done.
func work(ctx context.Context, o config.Options, stderr io.Writer, functions []tool.Function) error {
	cfg, err := config.Load(o)
	if err != nil {
		return err
	}
	stderr = cfg.Mask().Writer(stderr)
	if err := check(ctx, cfg, functions); err != nil {
		return err
	}
	w, err := openWatch(ctx, cfg, stderr)
	if err != nil {
		return err
	}
	defer w.close()
	temporal, err := cfg.Client(ctx, w.logger(), w.client)
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	w.connected(temporal.Client, cfg.TaskQueue)
	defer context.AfterFunc(ctx, func() { w.health.Stopping("the worker is stopping") })()
	h, err := New(ctx, temporal.Client, cfg, functions...)
	if err != nil {
		return err
	}
	w.say("%s%s%s", h.Describe(temporal.Address, temporal.Namespace, cfg), w.describe(cfg.Worker), h.Attributes(ctx, temporal.Namespace))
	if err := h.Run(ctx); err != nil {
		return err
	}
	w.say("worker: stopped\n")
	return nil
}

// version prints what the build knows about itself.
func version(args []string, stdout io.Writer) error {
	if len(args) > 0 {
		return config.Problems{fmt.Sprintf("%q is no flag; worker version takes no argument", args[0])}
	}
	fmt.Fprintln(stdout, build.String())
	return nil
}

// ownCommand is a command of the worker's besides running: its flags, and -config.
type ownCommand struct {
	*flag.FlagSet
	config config.Options
	stderr io.Writer
}

// newCommand makes a command. flags are those of its usage line, about is what it does.
func newCommand(name, flags, about string, stderr io.Writer) *ownCommand {
	c := &ownCommand{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError), stderr: stderr}
	c.StringVar(&c.config.File, "config", "", "settings `file` (default: WEFT_CONFIG, else weft.yaml if there is one)")
	c.Usage = func() {
		fmt.Fprintf(stderr, "usage: %s %s\n\n%s\n\nFlags:\n", name, flags, about)
		c.PrintDefaults()
	}
	return c
}

// load reads the arguments and the settings. Its error is [flag.ErrHelp] where help was asked for.
func (c *ownCommand) load(args []string) (*config.Config, error) {
	if err := readFlags(c.FlagSet, args, c.stderr); err != nil {
		return nil, err
	}
	if c.NArg() > 0 {
		return nil, config.Problems{fmt.Sprintf("%q is no flag; %s takes no other argument", c.Arg(0), c.Name())}
	}
	return config.Load(c.config)
}
