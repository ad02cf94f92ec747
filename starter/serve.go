package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"weft/starter/input"
	"weft/starter/plaintext"
	"weft/starter/runs"
	"weft/starter/serve"
	"weft/starter/serve/backend"
	"weft/starter/usage"
	"weft/worker/config"
)

func (a *app) serve(ctx context.Context, _ []string) error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	if err := a.serveSettings(cfg); err != nil {
		return err
	}
	tokens, err := cfg.Tokens()
	if err != nil {
		return err
	}
	if len(tokens) == 0 && !config.Loopback(cfg.Serve.Listen) {
		return usage.Errorf("refusing to listen on %s without tokens: anyone who can reach it could use it; set %s to NAME:TOKEN, or listen on 127.0.0.1", cfg.Serve.Listen, cfg.Serve.TokensEnv)
	}
	temporal, err := a.connect(ctx, cfg)
	if err != nil {
		return err
	}
	quiet := *a // a defect in one request must not end those of others
	quiet.quit = nil
	ctx, stop := a.interruptible(ctx)
	defer stop()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Serve.Listen)
	if err != nil {
		return usage.Errorf("listen on %s: %v; use another address with -listen", cfg.Serve.Listen, err)
	}
	fmt.Fprintf(a.stdout, "http://%s\n", l.Addr())
	a.say("serving runs of task queue %s, namespace %s at %s; %s; stop with Ctrl-C", cfg.TaskQueue, temporal.Namespace, temporal.Address, accessText(cfg, len(tokens)))
	temporal.Caught = quiet.caught
	server := serve.New(serve.Options{
		Runs: &backend.Backend{Connection: temporal, Queue: cfg.TaskQueue}, Flows: cfg.Flows, Reading: cfg.Reading, NewID: runs.NewID, Settings: cfg.Serve, Tokens: tokens,
		Mask: cfg.Mask(), Log: func(format string, args ...any) { a.say("serve: "+format, args...) },
	})
	return server.Serve(ctx, l)
}

func accessText(cfg *config.Config, tokens int) string {
	text := cmp.Or(plaintext.If(tokens > 0, "for %d tokens", tokens), "for programs of this machine only, without tokens")
	switch {
	case cfg.Flows.Dir == "":
		text += "; flows and agents by name are off"
	case cfg.Serve.EditAgents:
		text += "; flows and agents of " + cfg.Flows.Dir + ", editable by clients"
	default:
		text += "; flows and agents of " + cfg.Flows.Dir
	}
	return text
}

func (a *app) serveSettings(cfg *config.Config) error {
	if a.flags.listen != "" {
		cfg.Serve.Listen = a.flags.listen
	}
	if a.flags.agents != "" {
		cfg.Flows.Dir = a.flags.agents
	}
	if _, _, err := net.SplitHostPort(cfg.Serve.Listen); err != nil {
		return usage.Errorf("-listen is %q, want HOST:PORT, for example 127.0.0.1:8765", cfg.Serve.Listen)
	}
	if cfg.Flows.Dir == "" {
		return nil
	}
	info, err := os.Stat(cfg.Flows.Dir)
	switch {
	case err != nil:
		return usage.Errorf("the folder of flows and agents: %v", input.Cause(err))
	case !info.IsDir():
		return usage.Errorf("the folder of flows and agents: %s is not a folder", cfg.Flows.Dir)
	}
	// Registries lie beside agents/; who names that folder means the one around it.
	whole, err := filepath.Abs(cfg.Flows.Dir)
	if err == nil && filepath.Base(whole) == "agents" {
		cfg.Flows.Dir = filepath.Dir(whole)
	}
	return err
}
