package host

import (
	"context"
	"fmt"
	"io"
	"net"

	"weft/worker/codec"
	"weft/worker/config"
)

// serveCodec encodes and decodes payloads over HTTP until ctx is done. args are those behind
// "codec".
func serveCodec(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fs := newCommand("worker codec", "[-listen HOST:PORT] [-config FILE]",
		"Encodes and decodes payloads with the keys of codec.keys_env, for Temporal's Web UI (codec server),\n"+
			"its command line (--codec-endpoint) and clients in other languages: POST /encode and /decode.\n"+
			"What lies in the store is fetched. Whoever may use it reads everything.", stderr)
	listen := fs.String("listen", "", "`host:port` to listen at (default: codec.listen, 127.0.0.1:8766)")
	cfg, err := fs.load(args)
	if err != nil {
		return err
	}
	if *listen != "" {
		cfg.Codec.Listen = *listen
	}
	own, door, err := codecDoor(cfg)
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Codec.Listen)
	if err != nil {
		return config.Problems{fmt.Sprintf("listen at %s: %v; choose another address with -listen", cfg.Codec.Listen, err)}
	}
	fmt.Fprintf(stdout, "http://%s\n", l.Addr())
	fmt.Fprintf(stderr, "worker: codec at %s for %s; Ctrl-C ends it\n", l.Addr(), whoDecodes(len(door.Tokens)))
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
