// Package dev implements -dev: an embedded Temporal server with a worker, or the Temporal server that already runs on this
// machine, with a worker if none polls there.
//
// The processes that it starts exit when the last command that uses them has exited, even after a crash: each
// command holds a shared lock on one file while it runs.
package dev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"weft/starter/plaintext"
	"weft/starter/runs"
	"weft/starter/usage"
	"weft/worker/config"
)

const (
	// serverTimeout is the start timeout of the embedded server.
	serverTimeout = 90 * time.Second
	// dialTimeout is the timeout for connecting to a running Temporal server.
	dialTimeout = 3 * time.Second
)

// ErrInterrupted is the error of a build that the user interrupted.
var ErrInterrupted = errors.New("interrupted")

// Options are set by the command.
type Options struct {
	// Settings are the sources of settings.
	Settings config.Options
	Say      func(format string, args ...any)
	// Connect connects to Temporal; the command closes the connection.
	Connect func(context.Context, *config.Config) (*runs.Connection, error)
	// Interruptible returns a context that Ctrl-C cancels.
	Interruptible func(context.Context) (context.Context, func())
}

// Dev is a command's use of a server and a worker, until [Dev.Close].
type Dev struct {
	Options
	// Embedded reports whether -dev started the Temporal server, Helped whether it started the worker.
	Embedded, Helped bool
	// Ready is the ready file of the worker that -dev has started, or "".
	Ready string

	// dir is the data folder; program is the path of weft-devserver, set when it is needed.
	dir, program string
	// locks keep the used processes running.
	locks []*os.File
}

type overlay struct {
	config.Env
	over map[string]string
}

func (o overlay) LookupEnv(name string) (string, bool) {
	if v, ok := o.over[name]; ok {
		return v, v != ""
	}
	return o.Env.LookupEnv(name)
}

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

// Join ensures that a Temporal server and a worker are running, and sets Settings.Env to use them. The caller must close the result, also after an error.
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

// Close releases the processes, which exit if no other command uses them.
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

func (d *Dev) serverProgram(ctx context.Context) (string, error) {
	if d.program != "" {
		return d.program, nil
	}
	path, root := findServer(d.Settings.Env)
	var err error
	if path == "" {
		path, err = d.build(ctx, root)
	}
	d.program = path
	return path, err
}

const serverName = "weft-devserver"

// findServer looks for the server in this program's folder, in PATH, and in a checkout. If it is not built there, it returns the checkout as root.
func findServer(env config.Env) (path, root string) {
	self, err := os.Executable()
	if err == nil {
		if path := filepath.Join(filepath.Dir(self), serverName); isProgram(path) {
			return path, ""
		}
	}
	if path := inPath(env, serverName); path != "" {
		return path, ""
	}
	here, _ := os.Getwd()
	if root = checkout(filepath.Dir(self)); root == "" {
		root = checkout(here)
	}
	if path := filepath.Join(root, "bin", serverName); root != "" && isProgram(path) {
		return path, ""
	}
	return "", root
}

func inPath(env config.Env, name string) string {
	dirs, _ := env.LookupEnv("PATH")
	for _, dir := range filepath.SplitList(dirs) {
		if path := filepath.Join(dir, name); filepath.IsAbs(dir) && isProgram(path) {
			return path
		}
	}
	return ""
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}

// checkout returns the root of the project's sources that contain dir, or "".
func checkout(dir string) string {
	for dir != "" {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(mod), "module weft\n") {
			if _, err := os.Stat(filepath.Join(dir, "worker", "devserver", "main.go")); err == nil {
				return dir
			}
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
	return ""
}

const buildDelay = 5 * time.Second

func (d *Dev) build(ctx context.Context, root string) (string, error) {
	compiler := inPath(d.Settings.Env, "go")
	if root == "" || compiler == "" {
		return "", usage.Errorf("-dev needs %s beside starter or in PATH; build it with: make build", serverName)
	}
	path := filepath.Join(root, "bin", serverName)
	d.Say("dev: building %s; the first time this takes some minutes", path)
	// Only this program handles Ctrl-C: if it reached the compiler, the build would fail.
	ctx, stop := d.Interruptible(ctx)
	defer stop()
	// Build to another name first, so that other commands never find an incomplete program.
	unfinished := path + ".unfinished"
	cmd := exec.CommandContext(ctx, compiler, "build", "-buildvcs=false", "-o", unfinished, ".")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = buildDelay
	ownSession(cmd)
	cmd.Dir = filepath.Join(root, "worker", "devserver")
	cmd.Env = d.Settings.Env.Environ()
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return "", ErrInterrupted
	}
	if err != nil {
		text := string(bytes.TrimSpace(out))
		return "", fmt.Errorf("build %s in %s: %w: %s", serverName, cmd.Dir, err, plaintext.Line(text[max(0, len(text)-500):], 500))
	}
	if err := os.Rename(unfinished, path); err != nil {
		return "", fmt.Errorf("build %s: %w", serverName, err)
	}
	return path, nil
}
