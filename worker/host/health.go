package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"weft/worker/config"
	"weft/worker/health"
)

// ask asks the worker of these settings how it is, for a container's health check. args are
// those behind "health".
func ask(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fs := newCommand("worker health", "[-live] [-config FILE]",
		"Asks the worker that runs on this machine with these settings (worker.health_listen) whether it\n"+
			"can work, and prints its report. The exit code is 0 for yes and 1 for no.", stderr)
	live := fs.Bool("live", false, "ask whether it is alive, not whether it is ready")
	cfg, err := fs.load(args)
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
