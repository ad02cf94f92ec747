// Package dev provides -dev: an embedded Temporal with a worker, or the Temporal that runs on this
// machine already, with a worker if none polls there.
//
// What it starts ends by itself when the last command that uses it has left, however that ends: each
// holds a shared lock on one file for as long as it lives.
package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weft/starter/plaintext"
	"weft/starter/runs"
	"weft/starter/usage"
	"weft/worker/config"
)

const (
	// serverTimeout is how long the embedded server has until it answers.
	serverTimeout = 90 * time.Second
	// dialTimeout is how long a Temporal that runs already has to answer.
	dialTimeout = 3 * time.Second
)

// ErrInterrupted is the error of a build that the user has interrupted.
var ErrInterrupted = errors.New("interrupted")

// Options are what the command passes on.
type Options struct {
	// Settings say where settings come from.
	Settings config.Options
	// Say prints a line for people.
	Say func(format string, args ...any)
	// Connect connects to Temporal until the command ends.
	Connect func(context.Context, *config.Config) (*runs.Connection, error)
	// Interruptible returns a context that Ctrl-C cancels.
	Interruptible func(context.Context) (context.Context, func())
}

// Dev is what a command uses until [Dev.Close].
type Dev struct {
	Options
	// Embedded reports whether the Temporal was started by -dev, Helped whether the worker was.
	Embedded, Helped bool
	// Ready is the ready file of the worker that -dev has started, or "".
	Ready string

	// dir has all data; program is weft-devserver, once it is needed.
	dir, program string
	// locks keep what is used alive.
	locks []*os.File
}

// overlay is an environment in which some variables have other values.
type overlay struct {
	config.Env
	over map[string]string
}

// LookupEnv returns a variable.
func (o overlay) LookupEnv(name string) (string, bool) {
	if v, ok := o.over[name]; ok {
		return v, v != ""
	}
	return o.Env.LookupEnv(name)
}

// Environ returns all variables.
func (o overlay) Environ() []string {
	var out []string
	for _, pair := range o.Env.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if _, over := o.over[name]; !over {
			out = append(out, pair)
		}
	}
	for name, v := range o.over {
		if v != "" {
			out = append(out, name+"="+v)
		}
	}
	return out
}

// Join makes sure that there are a Temporal and a worker, which Settings.Env names then. The result is to be closed, also after an error.
func Join(ctx context.Context, o Options) (*Dev, error) {
	d := &Dev{Options: o}
	var err error
	if d.dir, err = config.StateDir(d.Settings.Env); err != nil {
		return d, usage.Errorf("-dev needs XDG_STATE_HOME or HOME for its data; set one of them")
	}
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return d, fmt.Errorf("create the folder for -dev: %w", err)
	}
	cfg, err := config.Load(d.Settings)
	if err != nil {
		return d, err
	}
	c, err := d.running(ctx, cfg)
	if err != nil {
		return d, err
	}
	if c == nil {
		if c, err = d.embedded(ctx); err != nil {
			return d, err
		}
	}
	return d, d.EnsureWorker(ctx, c, cfg.TaskQueue)
}

// Close lets what was started end.
func (d *Dev) Close() {
	for _, f := range d.locks {
		f.Close()
	}
}

func (d *Dev) running(ctx context.Context, cfg *config.Config) (*runs.Connection, error) {
	address, err := cfg.TemporalAddress()
	if err != nil {
		return nil, err
	}
	if !config.Loopback(address) {
		d.Say("dev: the Temporal at %s is not on this machine; using an embedded one", plaintext.Line(address, 200))
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	c, err := d.Connect(ctx, cfg)
	switch {
	case runs.Is[*config.Unreachable](err):
		return nil, nil
	case err == nil:
		d.Say("dev: using the Temporal at %s, namespace %s", c.Address, c.Namespace)
	}
	return c, err
}

func (d *Dev) embedded(ctx context.Context) (*runs.Connection, error) {
	users, err := Lock(ctx, filepath.Join(d.dir, "users"), false)
	if err != nil {
		return nil, err
	}
	d.locks, d.Embedded = append(d.locks, users), true
	address, err := d.address(ctx)
	if err != nil {
		return nil, err
	}
	d.Settings.Env = overlay{d.Settings.Env, map[string]string{"TEMPORAL_ADDRESS": address, "TEMPORAL_NAMESPACE": "default", "TEMPORAL_API_KEY": "",
		"WEFT_STORE_DIR": readReady(filepath.Join(d.dir, "ready.json")).Store,
		"TEMPORAL_TLS":   "false", "TEMPORAL_PROFILE": "", "TEMPORAL_CONFIG_FILE": filepath.Join(d.dir, "no-temporal.toml")}}
	cfg, err := config.Load(d.Settings)
	if err != nil {
		return nil, err
	}
	return d.Connect(ctx, cfg)
}
