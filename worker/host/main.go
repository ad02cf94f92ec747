package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v3"

	"weft/activities/tool"
	"weft/worker/build"
	"weft/worker/commandline"
	"weft/worker/config"
)

// Exit codes, the same as the starter's.
const (
	exitFailed     = 1
	exitBadInput   = 2
	exitNoTemporal = 3
)

// Main is the worker command with the arguments, environment and settings of bin/worker, and with
// functions as additional tools: the complete main of a custom worker. It does not return; the process
// exits with the command's exit code.
func Main(functions ...tool.Function) {
	// The signals are handled here so that running activities can complete.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := Command(ctx, os.Args[1:], os.Stdout, os.Stderr, functions...)
	stop()
	os.Exit(code)
}

// Command is [Main] for programs that handle signals themselves: the worker stops when ctx is
// done. It returns the exit code: 0, 1 for a failure, 2 for invalid arguments, settings or
// functions, 3 if Temporal cannot be reached. Errors are written to stderr.
func Command(ctx context.Context, args []string, stdout, stderr io.Writer, functions ...tool.Function) int {
	p := &program{stdout: stdout, stderr: stderr, functions: functions}
	err := p.commandLine().Run(ctx, append([]string{"worker"}, args...))
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "worker: %v\n", err)
	switch {
	case is[*config.Unreachable](err):
		return exitNoTemporal
	case is[config.Problems](err):
		return exitBadInput
	}
	return exitFailed
}

// is reports whether an error is or wraps one of type T.
func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

type program struct {
	stdout, stderr io.Writer
	functions      []tool.Function
	// file, queue and model are the values of the flags that all commands accept.
	file, queue, model string
}

func (p *program) commandLine() *cli.Command {
	root := p.command("worker", "run flows on the Temporal server at TEMPORAL_ADDRESS (default 127.0.0.1:7233)", "", p.configured(p.work))
	root.UsageText = "worker [flags]\nworker COMMAND [flags]"
	root.EnableShellCompletion, root.HideHelpCommand = true, true
	root.ConfigureShellCompletionCommand = func(c *cli.Command) { c.Hidden, c.OnUsageError = false, usageError }
	root.ExitErrHandler = func(context.Context, *cli.Command, error) {} // Command handles errors
	root.Flags = []cli.Flag{
		&cli.StringFlag{Name: "config", Usage: "settings `FILE` (default: WEFT_CONFIG, or weft.yaml if it exists)", Destination: &p.file, TakesFile: true},
		&cli.StringFlag{Name: "task-queue", Usage: "task `QUEUE` to poll (default: weft)", Destination: &p.queue},
		&cli.StringFlag{Name: "model", Usage: "`PROVIDER/MODEL` for flows that specify none", Destination: &p.model},
	}
	store := p.command("store", "manage the payload store", "", nil)
	store.Commands = []*cli.Command{p.sweepCommand()}
	root.Commands = []*cli.Command{p.configCommand(), store, p.codecCommand(), p.healthCommand(), p.setupCommand(), p.deploymentCommand(), p.loginCommand(),
		p.command("version", "print the version", "", p.version)}
	for _, c := range append(store.Commands, root.Commands...) {
		c.Flags = append(c.Flags, root.Flags...)
	}
	return root
}

// command returns a command without arguments. If do is nil, it prints the command's help.
func (p *program) command(name, usageLine, about string, do func(context.Context) error, flags ...cli.Flag) *cli.Command {
	return &cli.Command{Name: name, Usage: usageLine, Description: about, Flags: flags, Writer: p.stdout, ErrWriter: p.stderr,
		OnUsageError: usageError, CommandNotFound: commandline.ShowHelp,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			switch {
			case cmd.Args().Present() && len(cmd.VisibleCommands()) > 0:
				return config.Problems{commandline.UnknownCommand(cmd, cmd.Args().First())}
			case cmd.Args().Present():
				return config.Problems{fmt.Sprintf("unexpected argument %q; see %s -help", cmd.Args().First(), cmd.FullName())}
			case do == nil:
				return cli.ShowSubcommandHelp(cmd)
			}
			return do(ctx)
		}}
}

func usageError(_ context.Context, cmd *cli.Command, err error, _ bool) error {
	return config.Problems{commandline.Error(cmd, err)}
}

func (p *program) options() config.Options {
	o := config.Options{File: p.file, Flags: map[string]string{}}
	for key, value := range map[string]string{"task_queue": p.queue, "model": p.model} {
		if value != "" {
			o.Flags[key] = value
		}
	}
	return o
}

// configured wraps a command: it loads the settings first.
func (p *program) configured(do func(context.Context, *config.Config) error) func(context.Context) error {
	return func(ctx context.Context) error {
		cfg, err := config.Load(p.options())
		if err != nil {
			return err
		}
		return do(ctx, cfg)
	}
}

func (p *program) configCommand() *cli.Command {
	var reference bool
	return p.command("config", "print the effective settings", "Prints each setting with its origin, secrets masked, and everything that would prevent a worker\nfrom starting with them.",
		func(ctx context.Context) error {
			if reference {
				fmt.Fprint(p.stdout, config.Reference())
				return nil
			}
			return p.configured(p.show)(ctx)
		}, &cli.BoolFlag{Name: "reference", Usage: "print the Markdown table of all settings", Destination: &reference, HideDefault: true})
}

// show prints the effective settings. Its error lists everything that would prevent a worker from starting
// with them.
func (p *program) show(ctx context.Context, cfg *config.Config) error {
	list, err := cfg.Shown()
	if err != nil {
		return err
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintf(p.stderr, "worker: warning: %s\n", w)
	}
	config.Print(p.stdout, list)
	return check(ctx, cfg, p.functions)
}

func (p *program) work(ctx context.Context, cfg *config.Config) error {
	stderr := cfg.Mask().Writer(p.stderr)
	if err := check(ctx, cfg, p.functions); err != nil {
		return err
	}
	w, err := openMonitoring(ctx, cfg, stderr)
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
	h, err := New(ctx, temporal.Client, cfg, p.functions...)
	if err != nil {
		return err
	}
	w.printf("%s%s%s", h.Describe(temporal.Address, temporal.Namespace, cfg), w.describe(cfg.Worker), h.Attributes(ctx, temporal.Namespace))
	if err := h.Run(ctx); err != nil {
		return err
	}
	w.printf("worker: stopped\n")
	return nil
}

func (p *program) version(context.Context) error {
	_, err := fmt.Fprintln(p.stdout, build.String())
	return err
}
