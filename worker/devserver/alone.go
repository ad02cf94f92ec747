package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"go.temporal.io/sdk/log"

	"weft/worker/config"
	"weft/worker/host"
)

// serveWorker runs only a worker, on a Temporal server that is already running, until ctx is done or no
// process uses the worker any more. While it runs, it locks a file next to its ready file, so that other
// processes can detect it.
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
		// Other users can start runs on a remote server.
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

// usersEvery is the interval at which the users' lock is checked.
const usersEvery = time.Second

// whileUsed returns a context that is cancelled when no process holds a shared lock on a file any
// more, and a function to call last, which unlocks the file. From the cancellation on, the file is locked
// exclusively, so that a new user waits instead of using a stopping server. An empty name disables the check.
func whileUsed(ctx context.Context, file string) (context.Context, func(), error) {
	if file == "" {
		return ctx, func() {}, nil
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("watch the users of the server: %w", err)
	}
	inner, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		ticker := time.NewTicker(usersEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
				return
			}
		}
	}()
	return inner, func() { cancel(); f.Close() }, nil
}
