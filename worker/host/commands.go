package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/urfave/cli/v3"

	"weft/activities/tool"
	"weft/worker/codec"
	"weft/worker/config"
	"weft/worker/health"
)

func (p *program) codecCommand() *cli.Command {
	var listen string
	return p.command("codec", "serve a codec server",
		"Encodes and decodes payloads with the keys of codec.keys_env, for Temporal's Web UI, its CLI\n(--codec-endpoint) and clients in other languages: POST /encode and /decode. Payloads in the store\nare fetched. Anyone with access can read everything.",
		p.configured(func(ctx context.Context, cfg *config.Config) error { return p.serveCodec(ctx, cfg, listen) }),
		&cli.StringFlag{Name: "listen", Usage: "`HOST:PORT` to listen on (default: codec.listen, 127.0.0.1:8766)", Destination: &listen})
}

// serveCodec encodes and decodes payloads over HTTP until ctx is done.
func (p *program) serveCodec(ctx context.Context, cfg *config.Config, listen string) error {
	if listen != "" {
		cfg.Codec.Listen = listen
	}
	own, access, err := codecAccess(cfg)
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Codec.Listen)
	if err != nil {
		return config.Problems{fmt.Sprintf("listen on %s: %v; use another address with -listen", cfg.Codec.Listen, err)}
	}
	fmt.Fprintf(p.stdout, "http://%s\n", l.Addr())
	fmt.Fprintf(p.stderr, "worker: codec at %s for %s; press Ctrl-C to stop\n", l.Addr(), clients(len(access.Tokens)))
	return codec.Serve(ctx, l, own.Handler(access))
}

// codecAccess opens codec and store, and checks who has access.
func codecAccess(cfg *config.Config) (own *codec.Codec, access codec.Access, err error) {
	if _, _, err := net.SplitHostPort(cfg.Codec.Listen); err != nil {
		return nil, access, config.Problems{fmt.Sprintf("codec.listen is %q, expected HOST:PORT, for example 127.0.0.1:8766", cfg.Codec.Listen)}
	}
	if own, err = cfg.OpenCodec(); err != nil {
		return nil, access, err
	}
	tokens, err := cfg.CodecTokens()
	if err != nil {
		return nil, access, err
	}
	if len(tokens) == 0 && !config.Loopback(cfg.Codec.Listen) {
		return nil, access, config.Problems{fmt.Sprintf("refusing to serve the codec on %s without tokens: anyone could read all payloads; set %s to NAME:TOKEN, or listen on 127.0.0.1", cfg.Codec.Listen, cfg.Codec.TokensEnv)}
	}
	payloads, err := cfg.OpenStore()
	if err != nil {
		return nil, access, err
	}
	access = codec.Access{Origins: cfg.Codec.Origins, Fetch: payloads.Fetch}
	for _, t := range tokens {
		access.Tokens = append(access.Tokens, t.Value)
	}
	return own, access, nil
}

func clients(tokens int) string {
	if tokens > 0 {
		return fmt.Sprintf("%d tokens", tokens)
	}
	return "local programs, without tokens"
}

func (p *program) loginCommand() *cli.Command {
	var listen, tenant string
	c := p.command("login", "log in to a connection's server",
		"Prints a URL to open in a browser on this machine, and waits for the login. The token is stored encrypted\nfor all workers; runs that wait for it continue with: starter retry RUN",
		nil, &cli.StringFlag{Name: "listen", Usage: "`HOST:PORT` on this machine that receives the redirect", Value: "127.0.0.1:0", Destination: &listen},
		&cli.StringFlag{Name: "tenant", Usage: "log in for the runs of `TENANT`; default: for those without one", Destination: &tenant})
	c.ArgsUsage, c.UsageText = "CONNECTION", "worker login CONNECTION [flags]"
	c.Action = func(ctx context.Context, cmd *cli.Command) error {
		if cmd.Args().Len() != 1 {
			return config.Problems{"login requires one connection of weft.yaml; see worker login -help"}
		}
		return p.configured(func(ctx context.Context, cfg *config.Config) error {
			return p.login(tool.WithCaller(ctx, tool.Caller{Tenant: tenant}), cfg, cmd.Args().First(), listen)
		})(ctx)
	}
	return c
}

func (p *program) login(ctx context.Context, cfg *config.Config, id, listen string) error {
	tools, err := cfg.OpenTools()
	if err != nil {
		return err
	}
	defer tools.Close()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return config.Problems{fmt.Sprintf("listen on %s: %v; use another address with -listen", listen, err)}
	}
	answers := make(chan url.Values, 1)
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/callback" {
			http.NotFound(w, r)
			return
		}
		select {
		case answers <- r.URL.Query():
		default:
		}
		fmt.Fprintln(w, "The terminal reports whether the login succeeded. You can close this page.")
	})}
	go func() { _ = server.Serve(l) }() // until it is closed
	defer server.Close()
	err = tools.Login(ctx, id, fmt.Sprintf("http://%s/callback", l.Addr()), func(ctx context.Context, page string) (url.Values, error) {
		fmt.Fprintf(p.stdout, "Open this page to log in to %s:\n%s\n", id, page)
		select {
		case got := <-answers:
			return got, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "Logged in to %s.\n", id)
	return nil
}

// minAge is the minimum age of payloads that a sweep removes: younger ones may be in flight.
const minAge = time.Hour

func (p *program) sweepCommand() *cli.Command {
	var age time.Duration
	sweep := func(ctx context.Context, cfg *config.Config) error {
		if age < minAge {
			return config.Problems{fmt.Sprintf("-older-than is %v; it must be at least %v, and longer than the longest run plus the namespace's retention", age, minAge)}
		}
		if cfg.Store.PayloadLimit() == 0 {
			return config.Problems{"no store to sweep; set store.dir (WEFT_STORE_DIR) or store.bucket (WEFT_STORE_BUCKET)"}
		}
		s, err := cfg.OpenStore()
		if err != nil {
			return err
		}
		swept, err := s.Sweep(ctx, age)
		fmt.Fprintf(p.stdout, "%s: removed %d payloads, %d bytes; kept %d payloads, %d bytes\n", s, swept.Removed, swept.Freed, swept.Kept, swept.Held)
		return err
	}
	return p.command("sweep", "remove old payloads from the store",
		"Removes payloads that have not been stored for that long. Run it once a day.\nA run that still needs a removed payload fails.", p.configured(sweep),
		&cli.DurationFlag{Name: "older-than", Usage: "remove payloads of at least this `AGE`, such as 2160h: longer than the longest run plus the namespace's retention",
			Destination: &age, HideDefault: true})
}

func (p *program) healthCommand() *cli.Command {
	var live bool
	query := func(ctx context.Context, cfg *config.Config) error {
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
		if err := json.NewEncoder(p.stdout).Encode(report); err != nil || report.OK {
			return err
		}
		for _, c := range report.Checks {
			if !c.OK {
				return fmt.Errorf("not ready: %s: %s", c.Name, c.Text)
			}
		}
		return errors.New("not ready")
	}
	return p.command("health", "check whether a running worker is ready",
		"Checks whether the worker that runs on this machine with these settings (worker.health_listen) is\nready, and prints its report. The exit code is 0 if it is and 1 if not.",
		p.configured(query), &cli.BoolFlag{Name: "live", Usage: "check whether it is alive instead", Destination: &live, HideDefault: true})
}
