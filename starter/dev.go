package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

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
		if name, _, _ := strings.Cut(pair, "="); o.over[name] == "" {
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

// joinDev makes sure that an embedded server with a worker runs, and lets this command use
// it. The server ends by itself when the last command that uses it has left, however that
// ends: each holds a shared lock on one file for as long as it lives.
func (a *app) joinDev(ctx context.Context) (leave func(), err error) {
	nothing := func() {}
	dir, err := a.stateDir()
	if err != nil {
		return nothing, err
	}
	path, err := findDevServer(a.env)
	if err != nil {
		return nothing, err
	}
	held, err := shareLock(ctx, filepath.Join(dir, "users"))
	if err != nil {
		return nothing, err
	}
	leave = func() { held.Close() }
	address, err := a.devAddress(ctx, dir, path)
	if err != nil {
		leave()
		return nothing, err
	}
	a.env = overlay{a.env, map[string]string{"TEMPORAL_ADDRESS": address, "TEMPORAL_NAMESPACE": "default", "TEMPORAL_API_KEY": "",
		"WEFT_STORE_DIR": readReady(filepath.Join(dir, "ready.json")).Store,
		"TEMPORAL_TLS":   "false", "TEMPORAL_PROFILE": "", "TEMPORAL_CONFIG_FILE": filepath.Join(dir, "no-temporal.toml")}}
	return leave, nil
}

// stateDir is where the embedded server keeps its data.
func (a *app) stateDir() (string, error) {
	base, _ := a.env.LookupEnv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) {
		// The specification of these folders says that a relative one counts as none.
		home, _ := a.env.LookupEnv("HOME")
		if home == "" {
			return "", bad("-dev keeps its data in XDG_STATE_HOME or in HOME; set one of them")
		}
		base = filepath.Join(home, ".local", "state")
	}
	dir := filepath.Join(base, "weft")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the folder for -dev: %w", err)
	}
	return dir, nil
}

// findDevServer looks beside this program and then in PATH.
func findDevServer(env config.Env) (string, error) {
	if self, err := os.Executable(); err == nil {
		path := filepath.Join(filepath.Dir(self), devServer)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path, nil
		}
	}
	dirs, _ := env.LookupEnv("PATH")
	for _, dir := range filepath.SplitList(dirs) {
		path := filepath.Join(dir, devServer)
		if info, err := os.Stat(path); err == nil && filepath.IsAbs(dir) && info.Mode()&0o111 != 0 && !info.IsDir() {
			return path, nil
		}
	}
	return "", bad("-dev runs %s, which is neither beside starter nor in PATH; build it with: make build", devServer)
}

// devAddress is where the embedded server is; it is started if it is not there.
func (a *app) devAddress(ctx context.Context, dir, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, devPatience)
	defer cancel()
	ready := filepath.Join(dir, "ready.json")
	// Two commands may get here at once: one starts the server, the other finds it then.
	starting, err := ownLock(ctx, filepath.Join(dir, "starting"))
	if err != nil {
		return "", err
	}
	defer starting.Close()
	switch address, err := runningDev(ctx, dir, ready); {
	case err != nil:
		return "", err
	case address != "":
		a.say("dev: using the embedded Temporal at %s", address)
		return address, nil
	}
	if err := os.Remove(ready); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("prepare the embedded Temporal: %w", err)
	}
	log := filepath.Join(dir, "devserver.log")
	ended, err := a.startDev(dir, path, ready, log)
	if err != nil {
		return "", err
	}
	for {
		if address := answering(ready); address != "" {
			a.say("dev: started an embedded Temporal at %s with a worker; data and log in %s", address, dir)
			return address, nil
		}
		select {
		case <-ended:
			return "", fmt.Errorf("the embedded Temporal ended before it was ready: %s; all of it is in %s", lastLine(log), log)
		case <-ctx.Done():
			return "", fmt.Errorf("the embedded Temporal did not answer within %v; its log is %s", devPatience, log)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// runningDev is the address of a server that runs, or "" where none does. The file alone
// does not tell: a server that was killed leaves it.
func runningDev(ctx context.Context, dir, ready string) (string, error) {
	free, err := lock(filepath.Join(dir, "temporal.db.lock"), true)
	if err == nil {
		free.Close()
		return "", nil
	}
	for errors.Is(err, errLocked) {
		if address := answering(ready); address != "" {
			return address, nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("another weft-devserver has the data in %s but does not answer; stop it", dir)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return "", err
}

// startDev starts the server in a session of its own, so that Ctrl-C does not reach it.
func (a *app) startDev(dir, path, ready, log string) (ended chan struct{}, err error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("write the log of the embedded Temporal: %w", err)
	}
	defer out.Close()
	args := []string{"-db", filepath.Join(dir, "temporal.db"), "-port", "0", "-ui-port", "-1", "-ready-file", ready, "-users", filepath.Join(dir, "users")}
	if a.flags.config != "" {
		args = append(args, "-config", a.flags.config)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = a.env.Environ()
	if a.flags.taskQueue != "" {
		cmd.Env = append(cmd.Env, "WEFT_TASK_QUEUE="+a.flags.taskQueue)
	}
	cmd.Stdout, cmd.Stderr = out, out
	aside(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the embedded Temporal: %w", err)
	}
	ended = make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	return ended, nil
}

// readyDev is what the embedded server says of itself: where it is, and where its worker
// keeps large payloads.
type readyDev struct {
	Address string `json:"address"`
	Store   string `json:"store"`
}

// readReady reads a ready file; one that is not there or cannot be read says nothing.
func readReady(file string) (ready readyDev) {
	raw, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(raw, &ready) != nil {
		return readyDev{}
	}
	return ready
}

// answering is the address in a ready file, if something listens there.
func answering(file string) string {
	ready := readReady(file)
	if ready.Address == "" {
		return ""
	}
	c, err := net.DialTimeout("tcp", ready.Address, time.Second)
	if err != nil {
		return ""
	}
	c.Close()
	return ready.Address
}

// lastLine is the end of a log, for a message.
func lastLine(file string) string {
	raw, err := os.ReadFile(file)
	if err != nil {
		return "it left no log"
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return clean(lines[len(lines)-1], 500)
}

// detachedText says what becomes of a run that is not followed any more, and how to go on.
func (a *app) detachedText(id string) string {
	if a.flags.dev {
		return "detached; the embedded Temporal ends with the last command that uses it: then the run is paused; go on with: starter -dev follow " + quoted(id)
	}
	return "detached; the run goes on; follow it with: starter follow " + quoted(id)
}

// errLocked is what a lock says that another process has.
var errLocked = errors.New("locked by another process")

// await tries to lock until it can.
func await(ctx context.Context, lock func() (*os.File, error)) (*os.File, error) {
	for {
		f, err := lock()
		if !errors.Is(err, errLocked) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// shareLock waits while a server that is about to end has the file.
func shareLock(ctx context.Context, file string) (*os.File, error) {
	return await(ctx, func() (*os.File, error) { return lock(file, false) })
}

func ownLock(ctx context.Context, file string) (*os.File, error) {
	return await(ctx, func() (*os.File, error) { return lock(file, true) })
}
