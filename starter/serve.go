package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"weft/starter/serve"
	"weft/worker/config"
)

// serve answers HTTP requests until somebody asks it to end.
func (a *app) serve(ctx context.Context, _ []string) error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	if err := a.door(cfg); err != nil {
		return err
	}
	tokens, err := cfg.Tokens()
	if err != nil {
		return err
	}
	if len(tokens) == 0 && !config.Loopback(cfg.Serve.Listen) {
		return bad("refusing to listen on %s without tokens: anyone who can reach it could use it; set %s to NAME:TOKEN, or listen on 127.0.0.1", cfg.Serve.Listen, cfg.Serve.TokensEnv)
	}
	// Many goroutines speak.
	a.stderr = &whole{w: a.stderr}
	temporal, err := a.connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	ctx, stop := a.listening(ctx)
	defer stop()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Serve.Listen)
	if err != nil {
		return bad("listen on %s: %v; use another address with -listen", cfg.Serve.Listen, err)
	}
	fmt.Fprintf(a.stdout, "http://%s\n", l.Addr())
	a.say("serving runs of task queue %s, namespace %s at %s; %s; stop with Ctrl-C", cfg.TaskQueue, temporal.Namespace, temporal.Address, whoComesIn(cfg, len(tokens)))
	door := serve.New(serve.Options{
		Runs: newRuns(a, cfg, temporal), Flows: cfg.Flows, Reading: cfg.Reading, NewID: newID, Settings: cfg.Serve, Tokens: tokens,
		Mask: cfg.Mask(), Log: func(format string, args ...any) { a.say("serve: "+format, args...) },
	})
	return door.Serve(ctx, l)
}

// whoComesIn says who may use the door and what for.
func whoComesIn(cfg *config.Config, tokens int) string {
	text := "for programs of this machine only, without tokens"
	if tokens > 0 {
		text = fmt.Sprintf("for %d tokens", tokens)
	}
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

// door puts the command's own flags over the settings, and checks both.
func (a *app) door(cfg *config.Config) error {
	if a.flags.listen != "" {
		cfg.Serve.Listen = a.flags.listen
	}
	if a.flags.agents != "" {
		cfg.Flows.Dir = a.flags.agents
	}
	if _, _, err := net.SplitHostPort(cfg.Serve.Listen); err != nil {
		return bad("-listen is %q, want HOST:PORT, for example 127.0.0.1:8765", cfg.Serve.Listen)
	}
	if cfg.Flows.Dir == "" {
		return nil
	}
	info, err := os.Stat(cfg.Flows.Dir)
	switch {
	case err != nil:
		return bad("the folder of flows and agents: %v", cause(err))
	case !info.IsDir():
		return bad("the folder of flows and agents: %s is not a folder", cfg.Flows.Dir)
	}
	// Registries lie beside agents/; who names that folder means the one around it.
	whole, err := filepath.Abs(cfg.Flows.Dir)
	if err == nil && filepath.Base(whole) == "agents" {
		cfg.Flows.Dir = filepath.Dir(whole)
	}
	return err
}

// whole writes what one call gives it in one piece, whoever else writes.
type whole struct {
	mu sync.Mutex
	w  io.Writer
}

// Write writes.
func (w *whole) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(p)
}

// problemOf puts an error of the starter's into the door's words.
func problemOf(err error) error {
	var own *serve.Problem
	var input badInput
	var silent *noAnswer
	switch {
	case err == nil || errors.As(err, &own):
		return err
	case errors.As(err, &silent):
		return serve.NewProblem(serve.NoWorker, "start a worker, and ask again", "%s", strings.TrimSuffix(silent.Error(), "; start one with: bin/worker"))
	case errors.As(err, &input):
		return serve.NewProblem(serve.BadRequest, "", "%s", input.text)
	case away(err):
		return serve.NewProblem(serve.NoTemporal, "ask again later", "Temporal does not answer: %v", err)
	}
	return err
}
