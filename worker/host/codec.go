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
		"Encodes and decodes payloads with the keys of codec.keys_env, for Temporal's Web UI, its CLI\n(--codec-endpoint) and clients in other languages: POST /encode and /decode. Payloads in the store\nare fetched. Whoever may use it can read everything.",
		func(ctx context.Context) error { return p.serveCodec(ctx, listen) },
		&cli.StringFlag{Name: "listen", Usage: "`HOST:PORT` to listen on (default: codec.listen, 127.0.0.1:8766)", Destination: &listen})
}

// serveCodec encodes and decodes payloads over HTTP until ctx is done.
func (p *program) serveCodec(ctx context.Context, listen string) error {
	cfg, err := p.load()
	if err != nil {
		return err
	}
	if listen != "" {
		cfg.Codec.Listen = listen
	}
	own, door, err := codecDoor(cfg)
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Codec.Listen)
	if err != nil {
		return config.Problems{fmt.Sprintf("listen at %s: %v; choose another address with -listen", cfg.Codec.Listen, err)}
	}
	fmt.Fprintf(p.stdout, "http://%s\n", l.Addr())
	fmt.Fprintf(p.stderr, "worker: codec at %s for %s; Ctrl-C ends it\n", l.Addr(), whoDecodes(len(door.Tokens)))
	return codec.Serve(ctx, l, own.Handler(door))
}

// codecDoor opens codec and store, and checks who may come in.
func codecDoor(cfg *config.Config) (own *codec.Codec, door codec.Door, err error) {
	if _, _, err := net.SplitHostPort(cfg.Codec.Listen); err != nil {
		return nil, door, config.Problems{fmt.Sprintf("codec.listen is %q, want HOST:PORT, for example 127.0.0.1:8766", cfg.Codec.Listen)}
	}
	if own, err = cfg.OpenCodec(); err != nil {
		return nil, door, err
	}
	tokens, err := cfg.CodecTokens()
	if err != nil {
		return nil, door, err
	}
	if len(tokens) == 0 && !config.Loopback(cfg.Codec.Listen) {
		return nil, door, config.Problems{fmt.Sprintf("the codec would listen at %s without tokens, so that everybody who reaches it could read all payloads; set %s to NAME:TOKEN, or listen at 127.0.0.1", cfg.Codec.Listen, cfg.Codec.TokensEnv)}
	}
	payloads, err := cfg.OpenStore()
	if err != nil {
		return nil, door, err
	}
	door = codec.Door{Origins: cfg.Codec.Origins, Fetch: payloads.Fetch}
	for _, t := range tokens {
		door.Tokens = append(door.Tokens, t.Value)
	}
	return own, door, nil
}

func whoDecodes(tokens int) string {
	if tokens > 0 {
		return fmt.Sprintf("%d tokens", tokens)
	}
	return "programs of this machine, without tokens"
}
