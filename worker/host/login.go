package host

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/urfave/cli/v3"

	"weft/activities/tool"
	"weft/worker/config"
)

func (p *program) loginCommand() *cli.Command {
	var listen, tenant string
	c := p.command("login", "log in to a connection's server",
		"Prints a URL to open in a browser on this machine, and waits for the login. The token is kept encrypted\nin the store, for all workers; runs that wait for it continue with: starter retry RUN",
		nil, &cli.StringFlag{Name: "listen", Usage: "`HOST:PORT` on this machine that receives the answer", Value: "127.0.0.1:0", Destination: &listen},
		&cli.StringFlag{Name: "tenant", Usage: "log in for the runs of `TENANT`; default: for those without one", Destination: &tenant})
	c.ArgsUsage, c.UsageText = "CONNECTION", "worker login CONNECTION [flags]"
	c.Action = func(ctx context.Context, cmd *cli.Command) error {
		if cmd.Args().Len() != 1 {
			return config.Problems{"login needs one connection of weft.yaml; see worker login -help"}
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
