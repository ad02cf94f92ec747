package main

import (
	"context"
	"fmt"
	"os"

	"go.temporal.io/sdk/log"

	"weft/worker/config"
	"weft/worker/host"
)

// serveWorker runs only a worker, for a Temporal that is running already, until ctx is done or nobody
// uses it any more. As long as it runs it locks a file beside its ready file, so that others can detect
// it.
func serveWorker(ctx context.Context, o *options) error {
	hostname, _ := os.Hostname()
	o.config.Identity = fmt.Sprintf("%s %d@%s", config.DevIdentity, os.Getpid(), hostname)
	cfg, err := config.Load(o.config)
	if err != nil {
		return err
	}
	address, err := cfg.TemporalAddress()
	if err != nil {
		return err
	}
	if !config.Loopback(address) {
		// Other users can start runs there.
		o.config.Author = false
		if cfg, err = config.Load(o.config); err != nil {
			return err
		}
	}
	o.masked(cfg)
	ctx, free, err := whileUsed(ctx, o.users)
	if err != nil {
		return err
	}
	defer free()
	if o.readyFile != "" {
		held, err := lock(o.readyFile)
		if err != nil {
			return err
		}
		defer held.Close()
	}
	logger := log.NewStructuredLogger(o.logger())
	temporal, err := cfg.Client(ctx, logger)
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	h, err := host.New(ctx, temporal.Client, cfg)
	if err != nil {
		return err
	}
	fmt.Fprint(o.stderr, h.Describe(temporal.Address, temporal.Namespace, cfg))
	if err := o.receiveSecrets(ctx); err != nil {
		return err
	}
	raw, err := o.writeReady(ready{Address: temporal.Address, Namespace: temporal.Namespace})
	if err != nil {
		return err
	}
	fmt.Printf("ready %s\n", raw)
	return h.Run(ctx)
}
