package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/urfave/cli/v3"

	"weft/worker/config"
	"weft/worker/health"
)

func (p *program) healthCommand() *cli.Command {
	var live bool
	return p.command("health", "check whether a running worker is ready",
		"Checks whether the worker that runs on this machine with these settings (worker.health_listen) is\nready, and prints its report. The exit code is 0 if it is and 1 if not.",
		p.configured(func(ctx context.Context, cfg *config.Config) error { return p.queryHealth(ctx, cfg, live) }),
		&cli.BoolFlag{Name: "live", Usage: "check whether it is alive instead", Destination: &live, HideDefault: true})
}

// queryHealth queries the worker with these settings, for a container's health check.
func (p *program) queryHealth(ctx context.Context, cfg *config.Config, live bool) error {
	if cfg.Worker.HealthListen == "" {
		return config.Problems{"the worker has no health endpoint; set worker.health_listen (WEFT_WORKER_HEALTH_LISTEN)"}
	}
	path := health.PathReady
	if live {
		path = health.PathLive
	}
	report, err := health.Query(ctx, cfg.Worker.HealthListen, path)
	if err != nil {
		return fmt.Errorf("no worker responds at %s: %w", cfg.Worker.HealthListen, err)
	}
	raw, err := json.Marshal(report)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "%s\n", raw)
	if report.OK {
		return nil
	}
	for _, c := range report.Checks {
		if !c.OK {
			return fmt.Errorf("not ready: %s: %s", c.Name, c.Text)
		}
	}
	return errors.New("not ready")
}
