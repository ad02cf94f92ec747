package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"weft/activities/contract"
	"weft/starter/author"
	"weft/starter/doctor"
	"weft/starter/input"
	"weft/starter/plaintext"
	"weft/starter/runs"
	"weft/starter/serve"
	"weft/starter/serve/backend"
	"weft/starter/usage"
	"weft/worker/config"
	"weft/workflows/plan"

	"go.temporal.io/sdk/client"
)

func (a *app) serve(ctx context.Context, _ []string) error { return a.serveWith(ctx, nil) }

func (a *app) doctor(ctx context.Context, _ []string) error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	checks := doctor.Examine(ctx, cfg, func(ctx context.Context) (*runs.Connection, error) { return a.connect(ctx, cfg) })
	missing := 0
	for _, c := range checks {
		if c.State == doctor.Missing {
			missing++
		}
	}
	emit(a, map[string]any{"checks": checks, "missing": missing}, checks, func() {
		for _, c := range checks {
			fmt.Fprintf(a.stdout, "%-8s %-22s %s\n", c.State, plaintext.Line(c.Name, 100), plaintext.Line(c.Text, 1000))
			if c.Remedy != "" {
				fmt.Fprintf(a.stdout, "%-8s %-22s %s\n", "", "", plaintext.Line(c.Remedy, 1000))
			}
		}
	})
	if missing > 0 {
		return exitCode(exitFailed)
	}
	return nil
}

func (a *app) connection(ctx context.Context, args []string) error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	offer, err := doctor.Offer(ctx, cfg, args[0])
	if err != nil {
		return err
	}
	a.show(offer, func() {
		row := func(kind, name, more, text string) {
			fmt.Fprintf(a.stdout, "%-9s %-32s %s\n", kind, plaintext.Line(name, 2000), plaintext.Line(strings.TrimSpace(more+" "+text), 200))
		}
		for _, t := range offer.Tools {
			row("tool", t.Name, "", t.Description)
		}
		for _, p := range offer.Prompts {
			var args []string
			for _, arg := range p.Arguments {
				args = append(args, arg.Name)
			}
			row("prompt", p.Name, "("+strings.Join(args, ", ")+")", cmp.Or(p.Description, p.Title))
		}
		for _, r := range offer.Resources {
			row("resource", r.URI, r.MIMEType, cmp.Or(r.Description, r.Title, r.Name))
		}
		for _, r := range offer.Templates {
			row("template", r.URITemplate, r.MIMEType, cmp.Or(r.Description, r.Title, r.Name))
		}
	})
	return nil
}

// author serves the HTTP API and its page, and reruns the flows of a folder at each save.
func (a *app) author(ctx context.Context, args []string) error {
	dir := argument(args, 0, ".")
	a.flags.agents = cmp.Or(a.flags.agents, dir)
	return a.serveWith(ctx, &author.Author{Dir: dir, Say: a.say, Load: func(file string) (*input.Document, error) { return a.examine(file, false) }})
}

// serveWith serves HTTP, and watches the author's folder if author is not nil.
func (a *app) serveWith(ctx context.Context, author *author.Author) error {
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
	if len(tokens)+len(cfg.Issuers) == 0 && !config.Loopback(cfg.Serve.Listen) {
		return usage.Errorf("refusing to listen on %s without tokens: anyone who can reach it could use it; set %s to NAME:TOKEN, configure issuers, or listen on 127.0.0.1", cfg.Serve.Listen, cfg.Serve.TokensEnv)
	}
	temporal, err := a.connect(ctx, cfg)
	if err != nil {
		return err
	}
	quiet := *a // a panic in one request must not exit the process
	quiet.quit = nil
	ctx, stop := a.interruptible(ctx)
	defer stop()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Serve.Listen)
	if err != nil {
		return usage.Errorf("listen on %s: %v; use another address with -listen", cfg.Serve.Listen, err)
	}
	if author != nil {
		if err := author.Open(); err != nil {
			return errors.Join(err, l.Close())
		}
	}
	fmt.Fprintf(a.stdout, "http://%s\n", l.Addr())
	a.say("serving runs of task queue %s, namespace %s at %s; %s; stop with Ctrl-C", cfg.TaskQueue, temporal.Namespace, temporal.Address, accessText(cfg, len(tokens)))
	temporal.HandlePanic = quiet.handlePanic
	o := serve.Options{
		Runs: &backend.Backend{Connection: temporal, Queue: cfg.TaskQueue, Worded: a.localFailure}, Flows: cfg.Flows, Reading: cfg.Reading, NewID: runs.NewID, Settings: cfg.Serve, Tokens: tokens, Issuers: cfg.Issuers,
		OnError: plaintext.If(a.flags.dev, contract.OnErrorFail), Mask: cfg.Mask(), Log: func(format string, args ...any) { a.say("serve: "+format, args...) },
	}
	if author == nil {
		return serve.New(o).Serve(ctx, l)
	}
	author.Connection, o.Saves = temporal, author.Listen
	author.Start = func(ctx context.Context, flow *plan.Flow, in *contract.RunInput) (*runs.Run, error) {
		return a.launch(ctx, temporal, client.StartWorkflowOptions{ID: runs.NewID(flow.Name), TaskQueue: cfg.TaskQueue}, flow, in)
	}
	watched := make(chan error, 1)
	go func() {
		defer stop() // if watching ends, so does serving
		watched <- author.Watch(ctx)
	}()
	a.say("dev: watching %s; open http://%s/ in a browser", author.Dir, l.Addr())
	err = serve.New(o).Serve(ctx, l)
	stop()
	return errors.Join(err, <-watched)
}

func accessText(cfg *config.Config, tokens int) string {
	text := cmp.Or(plaintext.If(tokens+len(cfg.Issuers) > 0, "for %d tokens and %d issuers", tokens, len(cfg.Issuers)), "for programs on this machine only, without tokens")
	if cfg.Flows.Dir == "" {
		return text + "; flows and agents by name are disabled"
	}
	return text + "; flows and agents of " + cfg.Flows.Dir + plaintext.If(cfg.Serve.EditAgents, ", editable by clients")
}

func (a *app) serveSettings(cfg *config.Config) error {
	cfg.Serve.Listen, cfg.Flows.Dir = cmp.Or(a.flags.listen, cfg.Serve.Listen), cmp.Or(a.flags.agents, cfg.Flows.Dir)
	if _, _, err := net.SplitHostPort(cfg.Serve.Listen); err != nil {
		return usage.Errorf("-listen is %q, expected HOST:PORT, for example 127.0.0.1:8765", cfg.Serve.Listen)
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
	// The registries are next to agents/; if that folder is named, use its parent.
	path, err := filepath.Abs(cfg.Flows.Dir)
	if err == nil && filepath.Base(path) == "agents" {
		cfg.Flows.Dir = filepath.Dir(path)
	}
	return err
}
