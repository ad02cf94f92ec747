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
	return p.command("health", "ask a running worker whether it is ready",
		"Asks the worker that runs on this machine with these settings (worker.health_listen) whether it\nis ready, and prints its report. The exit code is 0 for yes and 1 for no.",
		func(ctx context.Context) error { return p.askHealth(ctx, live) },
		&cli.BoolFlag{Name: "live", Usage: "ask whether it is alive instead", Destination: &live, HideDefault: true})
}

// askHealth asks the worker of these settings for its health, as a container's health check does.
func (p *program) askHealth(ctx context.Context, live bool) error {
	cfg, err := p.load()
	if err != nil {
		return err
	}
	if cfg.Worker.HealthListen == "" {
		return config.Problems{"there is nothing to ask; set worker.health_listen (WEFT_WORKER_HEALTH_LISTEN)"}
	}
	path := health.PathReady
	if live {
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
	fmt.Fprintf(p.stdout, "%s\n", raw)
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
