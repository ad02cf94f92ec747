package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weft/starter/plaintext"
	"weft/worker/config"
)

// devServer is the program that -dev runs.
const devServer = "weft-devserver"

// devPatience is how long the embedded server may take until it answers.
const devPatience = 90 * time.Second

// overlay is an environment in which some variables are others.
type overlay struct {
	config.Env
	over map[string]string
}

// LookupEnv gives a variable.
func (o overlay) LookupEnv(name string) (string, bool) {
	if v, ok := o.over[name]; ok {
		return v, v != ""
	}
	return o.Env.LookupEnv(name)
}

// Environ gives all variables.
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

// dev is what a command with -dev uses: an embedded Temporal with a worker, or the Temporal
// that runs on this machine already, with a worker if none polls there.
type dev struct {
	app *app
	// dir is where everything is kept; program is weft-devserver, once it is needed.
	dir, program string
	// held are the locks that keep what is used alive.
	held []*os.File
	// embedded says that the Temporal is ours; helped, that a worker of ours is.
	embedded, helped bool
	// ready is the ready file of the worker that -dev has started, or "".
	ready string
}

// joinDev makes sure that there are a Temporal and a worker, and lets this command use them.
// What was started ends by itself when the last command that uses it has left, however that
// ends: each holds a shared lock on one file for as long as it lives.
func (a *app) joinDev(ctx context.Context) (leave func(), err error) {
	d := &dev{app: a}
	leave = func() {
		for _, f := range d.held {
			f.Close()
		}
	}
	a.reached("what -dev has started ends by itself")
	if d.dir, err = a.stateDir(); err != nil {
		return leave, err
	}
	cfg, err := config.Load(a.settings())
	if err != nil {
		return leave, err
	}
	t, err := d.running(ctx, cfg)
	if err != nil {
		return leave, err
	}
	if t == nil {
		if t, err = d.serve(ctx); err != nil {
			return leave, err
		}
	}
	defer t.Client.Close()
	a.dev = d
	err = d.ensureWorker(ctx, t, cfg.TaskQueue)
	a.reached("")
	return leave, err
}

// dialPatience is how long a Temporal that runs already has to answer.
const dialPatience = 3 * time.Second

// running connects to the Temporal that Temporal's own settings name, if it answers and is
// on this machine. A worker for another one would be a laptop that runs the flows of others.
func (d *dev) running(ctx context.Context, cfg *config.Config) (*config.Temporal, error) {
	address, err := cfg.TemporalAddress()
	if err != nil {
		return nil, err
	}
	if !config.Loopback(address) {
		d.app.say("dev: the Temporal at %s is not on this machine; using an embedded one", plaintext.Line(address, 200))
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, dialPatience)
	defer cancel()
	t, err := d.app.connect(ctx, cfg)
	var none *config.Unreachable
	switch {
	case errors.As(err, &none):
		return nil, nil
	case err == nil:
		d.app.say("dev: using the Temporal at %s, namespace %s", t.Address, t.Namespace)
	}
	return t, err
}

// serve joins the embedded server, which is started if it does not run.
func (d *dev) serve(ctx context.Context) (*config.Temporal, error) {
	a := d.app
	held, err := shareLock(ctx, filepath.Join(d.dir, "users"))
	if err != nil {
		return nil, err
	}
	d.held, d.embedded = append(d.held, held), true
	address, err := d.address(ctx)
	if err != nil {
		return nil, err
	}
	a.env = overlay{a.env, map[string]string{"TEMPORAL_ADDRESS": address, "TEMPORAL_NAMESPACE": "default", "TEMPORAL_API_KEY": "",
		"WEFT_STORE_DIR": readReady(filepath.Join(d.dir, "ready.json")).Store,
		"TEMPORAL_TLS":   "false", "TEMPORAL_PROFILE": "", "TEMPORAL_CONFIG_FILE": filepath.Join(d.dir, "no-temporal.toml")}}
	cfg, err := config.Load(a.settings())
	if err != nil {
		return nil, err
	}
	return a.connect(ctx, cfg)
}

// stateDir is where the embedded server keeps its data.
func (a *app) stateDir() (string, error) {
	dir, err := config.StateDir(a.env)
	if err != nil {
		return "", bad("-dev needs XDG_STATE_HOME or HOME for its data; set one of them")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("create the folder for -dev: %w", err)
	}
	return dir, nil
}

// self is how a command line begins that reaches what this one reaches.
func (a *app) self() string {
	if a.flags.dev {
		return "starter -dev "
	}
	return "starter "
}

// detachedText says what becomes of a run that is not followed any more, and how to go on.
func (a *app) detachedText(id string) string {
	again := a.self() + "follow " + plaintext.ShellQuote(id)
	if a.flags.dev && a.flags.config != "" {
		again = fmt.Sprintf("starter -dev -config %s follow %s", plaintext.ShellQuote(a.flags.config), plaintext.ShellQuote(id))
	}
	switch {
	case a.dev != nil && a.dev.embedded:
		return "detached; the embedded Temporal ends with the last command that uses it: then the run is paused; go on with: " + again
	case a.dev != nil && a.dev.helped:
		return "detached; the worker that -dev started ends with the last command that uses it: then the run is paused; go on with: " + again
	}
	return "detached; the run goes on; follow it with: " + again
}
