package host

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"

	"weft/worker/config"
	"weft/worker/health"
)

// ask asks the worker of these settings how it is, for a container's health check. args are
// those behind "health".
func ask(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o config.Options
	fs := flag.NewFlagSet("worker health", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.File, "config", "", "settings `file` (default: WEFT_CONFIG, else weft.yaml if there is one)")
	live := fs.Bool("live", false, "ask whether it is alive, not whether it is ready")
	fs.Usage = func() {
		fmt.Fprintln(stderr, "usage: worker health [-live] [-config FILE]\n\n"+
			"Asks the worker that runs on this machine with these settings (worker.health_listen) whether it\n"+
			"can work, and prints its report. The exit code is 0 for yes and 1 for no.\n\nFlags:")
		fs.PrintDefaults()
	}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return config.Problems{err.Error()}
	}
	if fs.NArg() > 0 {
		return config.Problems{fmt.Sprintf("%q is no flag; worker health takes no other argument", fs.Arg(0))}
	}
	cfg, err := config.Load(o)
	if err != nil {
		return err
	}
	if cfg.Worker.HealthListen == "" {
		return config.Problems{"there is nothing to ask; set worker.health_listen (WEFT_WORKER_HEALTH_LISTEN)"}
	}
	path := health.PathReady
	if *live {
		path = health.PathLive
	}
	report, err := health.Query(ctx, cfg.Worker.HealthListen, path)
	if err != nil {
		return fmt.Errorf("no worker answers at %s: %w", cfg.Worker.HealthListen, err)
	}
	raw, err := json.Marshal(report)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s\n", raw)
	if report.OK {
		return nil
	}
	for _, c := range report.Checks {
		if !c.OK {
			return fmt.Errorf("not well: %s: %s", c.Name, c.Text)
		}
	}
	return errors.New("not well")
}
