// Command weft-devserver runs a Temporal server, its Web UI and a Weft worker in one
// process, for development and tests.
//
// It stores everything in one SQLite file, which survives a kill of the process, and
// listens only on 127.0.0.1, because the server has no authentication. It is not for
// production. It is a separate module, because the server requires some 450 modules that the
// engine does not need. The modules with which a server starts workers in clouds and archives to
// Google Cloud Storage are replaced with the stubs in autoscaling and gcs: a development server
// never uses them, and omitting them saves a quarter of the packages to build.
//
// Start at [serve]; the server is in server.go, the demo in demo.go.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/server/common/primitives"
	"google.golang.org/grpc"

	"weft/worker/config"
	"weft/worker/host"
)

type options struct {
	db           string
	port, uiPort int
	server       bool
	worker       bool
	readyFile    string
	users        string
	config       config.Options
	demo         demo
	// stderr masks secrets once the settings have been read.
	stderr io.Writer
}

// masked makes all further output to o.stderr mask the secrets of the settings.
func (o *options) masked(cfg *config.Config) { o.stderr = cfg.Mask().Writer(o.stderr) }

func (o *options) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(o.stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "weft-devserver: %v\n", err)
		os.Exit(2)
	}
	if os.Getenv("GOGC") == "" {
		// Trade memory for CPU time: up to 500 MiB under load instead of 300, for a tenth less CPU time.
		debug.SetGCPercent(300)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, o); err != nil {
		var code exitCode
		if errors.As(err, &code) {
			os.Exit(int(code))
		}
		fmt.Fprintf(o.stderr, "weft-devserver: %v\n", err)
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{stderr: os.Stderr, config: config.Options{Author: true, RuntimeSecrets: &config.RuntimeSecrets{}}}
	fs := flag.NewFlagSet("weft-devserver", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&o.db, "db", filepath.Join(".dev", "temporal.db"), "database `file`, created if it does not exist; :memory: stores nothing")
	fs.IntVar(&o.port, "port", 7233, "port of the Temporal server on 127.0.0.1; 0 chooses a free one")
	fs.IntVar(&o.uiPort, "ui-port", 8233, "port of the Web UI; 0 disables the Web UI, -1 chooses a free one")
	fs.BoolVar(&o.server, "server", true, "run a Temporal server; without one, the worker uses the Temporal of TEMPORAL_ADDRESS and related variables")
	fs.BoolVar(&o.worker, "worker", true, "run a worker in this process")
	fs.StringVar(&o.readyFile, "ready-file", "", "`file` to write the ready line's JSON to")
	fs.StringVar(&o.users, "users", "", "stop when no process holds a shared lock on this `file`, as starter -dev does")
	fs.StringVar(&o.config.File, "config", "", "the worker's settings `file`, see bin/worker -help")
	anyCommand := fs.Bool("allow-commands", false, "let flows start any commands; starter -dev asks for each instead")
	fs.StringVar(&o.demo.flow, "demo", "", "run this flow `file` once with bin/starter, show the run, and stop")
	fs.StringVar(&o.demo.input, "demo-input", "", "`file` with the demo's input text")
	fs.StringVar(&o.demo.script, "demo-script", "", "`file` with scripted answers, used if the environment provides no model")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(stderr, "usage: weft-devserver [flags]\n\nFlags:")
			fs.SetOutput(stderr)
			fs.PrintDefaults()
		}
		return nil, err
	}
	if !o.server && (!o.worker || o.demo.flow != "") {
		return nil, errors.New("-server=false runs only the worker; it cannot be combined with -worker=false or -demo")
	}
	if *anyCommand {
		o.config.Flags = map[string]string{"allow_commands": "*", "allow_env": "*", "allow_dirs": "/"}
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q; weft-devserver takes only flags", fs.Arg(0))
	}
	return o, nil
}

// serve runs the server and the worker until ctx is done or the demo has ended.
func serve(ctx context.Context, o *options) (err error) {
	if o.config.SealKey, err = sealKey(o.db); err != nil {
		return err
	}
	if !o.server {
		return serveWorker(ctx, o)
	}
	cfg, err := config.Load(o.config)
	if err != nil {
		return err
	}
	o.masked(cfg)
	ctx, free, err := whileUsed(ctx, o.users)
	if err != nil {
		return err
	}
	defer free()
	held, err := o.claim()
	if err != nil {
		return err
	}
	if held != nil {
		defer held.Close()
	}
	if err := o.chooseStore(cfg); err != nil {
		return err
	}
	if err := o.choosePorts(); err != nil {
		return err
	}
	srv, err := startServer(o.db, o.port, o.uiPort, o.logger())
	if err != nil {
		return err
	}
	defer srv.stop()
	if err := addAttributes(ctx, srv.address); err != nil {
		return err
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	working := make(chan error, 1)
	if o.worker {
		if working, err = o.startWorker(inner, srv, cfg); err != nil {
			return err
		}
	}
	if err := o.receiveSecrets(inner); err != nil {
		return err
	}
	if err := o.announce(srv, cfg); err != nil {
		return err
	}
	if o.demo.flow != "" {
		err = o.demo.run(ctx, srv, cfg, o.db)
	} else {
		select {
		case <-ctx.Done():
		case err = <-working:
			return err
		}
	}
	cancel()
	if o.worker {
		return errors.Join(err, <-working)
	}
	return err
}

// claim locks the database. If it is in use, a demo uses another one.
func (o *options) claim() (*os.File, error) {
	held, err := lock(o.db)
	if err == nil || o.demo.flow == "" {
		return held, err
	}
	other := filepath.Join(filepath.Dir(o.db), "demo.db")
	if held, again := lock(other); again == nil {
		fmt.Fprintf(os.Stderr, "database %s is in use; using %s\n", o.db, other)
		o.db = other
		return held, nil
	}
	return nil, err
}

// chooseStore sets the store for large payloads to a directory next to the database, unless the settings
// name a store. A database in memory has no store.
func (o *options) chooseStore(cfg *config.Config) (err error) {
	switch {
	case cfg.Store.Dir != "":
		cfg.Store.Dir, err = filepath.Abs(cfg.Store.Dir)
	case cfg.Store.Bucket != "":
	case o.db != inMemory:
		cfg.Store.Dir, err = filepath.Abs(o.db + ".store")
	}
	if err != nil {
		return fmt.Errorf("find the directory for large payloads: %w", err)
	}
	return nil
}

// choosePorts chooses both ports. If a port is in use, a demo chooses a free one and prints it.
func (o *options) choosePorts() error {
	for _, p := range []struct {
		flag string
		port *int
	}{{"-port", &o.port}, {"-ui-port", &o.uiPort}} {
		want := *p.port
		switch {
		case p.flag == "-ui-port" && want == 0:
			continue
		case p.flag == "-ui-port" && want == -1:
			want = 0
		}
		got, err := choosePort(p.flag, want, o.demo.flow != "")
		if err != nil {
			return err
		}
		if want != 0 && got != want {
			fmt.Fprintf(os.Stderr, "port %d is in use; using %d\n", want, got)
		}
		*p.port = got
	}
	return nil
}

// startWorker starts a worker in this process. The channel receives its error when it ends.
func (o *options) startWorker(ctx context.Context, srv *server, cfg *config.Config) (chan error, error) {
	logger := log.NewStructuredLogger(o.logger())
	payloads, err := cfg.OpenStore()
	if err != nil {
		return nil, err
	}
	encoding, err := cfg.OpenCodec()
	if err != nil {
		return nil, err
	}
	options := client.Options{HostPort: "passthrough:///local", Namespace: namespace, Logger: logger,
		ConnectionOptions: client.ConnectionOptions{GrpcCompression: config.Compression(srv.address), DialOptions: []grpc.DialOption{srv.local.dial(primitives.FrontendService)}}}
	encoding.Apply(&options)
	payloads.Apply(&options)
	c, err := client.DialContext(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("connect the worker: %w", err)
	}
	h, err := host.New(ctx, c, cfg)
	if err != nil {
		c.Close()
		return nil, err
	}
	fmt.Fprint(o.stderr, h.Describe(srv.address, namespace, cfg), h.Attributes(ctx, namespace))
	ended := make(chan error, 1)
	go func() {
		defer c.Close()
		ended <- h.Run(ctx)
	}()
	return ended, nil
}

// ready is the ready line's JSON, for a program that starts this one.
type ready struct {
	Address   string `json:"address"`
	Namespace string `json:"namespace"`
	UI        string `json:"ui,omitempty"`
	DB        string `json:"db,omitempty"`
	// Store is the directory of large payloads, for clients; empty without a directory.
	Store string `json:"store,omitempty"`
}

// announce prints the addresses to stderr, and the ready line to the ready file and, except in a demo, to stdout.
func (o *options) announce(s *server, cfg *config.Config) error {
	raw, err := o.writeReady(ready{Address: s.address, Namespace: namespace, UI: s.ui, DB: o.db, Store: cfg.Store.Dir})
	if err != nil {
		return err
	}
	fmt.Fprintf(o.stderr, "Temporal %s, database %s\n", s.address, o.db)
	if s.ui != "" {
		fmt.Fprintf(o.stderr, "Web UI   %s\n", s.ui)
	}
	if o.demo.flow == "" {
		fmt.Printf("ready %s\n", raw)
	}
	return nil
}

// writeReady encodes the ready line and writes it to the ready file, if one is requested. The file is
// renamed into place, so that readers never see a partial file.
func (o *options) writeReady(r ready) ([]byte, error) {
	raw, err := json.Marshal(r)
	if err == nil && o.readyFile != "" {
		if err = os.WriteFile(o.readyFile+".new", raw, 0o644); err == nil {
			err = os.Rename(o.readyFile+".new", o.readyFile)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("write the ready file: %w", err)
	}
	return raw, nil
}

// receiveSecrets makes a worker that was started by starter -dev accept the secrets in its user's
// documents; a file next to the ready file holds the endpoint. A worker that was started manually accepts
// no secrets.
func (o *options) receiveSecrets(ctx context.Context) error {
	if o.users == "" || o.readyFile == "" || !o.worker || !o.config.Author {
		return nil
	}
	return o.config.RuntimeSecrets.Serve(ctx, o.readyFile+config.SecretsFile)
}
