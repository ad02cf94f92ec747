package host

import (
	"context"
	"fmt"
	"net"

	"github.com/urfave/cli/v3"

	"weft/worker/codec"
	"weft/worker/config"
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
		return nil, access, config.Problems{fmt.Sprintf("codec.listen is %q, want HOST:PORT, for example 127.0.0.1:8766", cfg.Codec.Listen)}
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
