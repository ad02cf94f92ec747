package dev

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"weft/starter/plaintext"
	"weft/starter/runs"
	"weft/worker/config"
)

func (d *Dev) address(ctx context.Context) (string, error) {
	dir, building := d.dir, ctx // a build may take longer than a start
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	ready := filepath.Join(dir, "ready.json")
	// Of concurrent commands, one starts the server and the others find it.
	starting, err := Lock(ctx, filepath.Join(dir, "starting"), true)
	if err != nil {
		return "", err
	}
	defer starting.Close()
	switch address, err := runningDev(ctx, dir, ready); {
	case err != nil:
		return "", err
	case address != "":
		d.Say("dev: using the embedded Temporal at %s%s", address, webUI(ready))
		return address, nil
	}
	path, err := d.serverProgram(building)
	if err != nil {
		return "", err
	}
	log := filepath.Join(dir, "devserver.log")
	var address string
	for range 3 {
		address, err = d.start(ctx, path, "the embedded Temporal", ready, log, nil,
			"-db", filepath.Join(dir, "temporal.db"), "-port", "0", "-ui-port", "-1", "-users", filepath.Join(dir, "users"))
		if raw, _ := os.ReadFile(log); err == nil || !bytes.Contains(raw, []byte("address already in use")) {
			break
		}
	}
	if err == nil {
		d.Say("dev: started an embedded Temporal at %s with a worker%s; data and log in %s", address, webUI(ready), dir)
	}
	return address, err
}

// start starts weft-devserver and waits until its ready file has its address or task queue.
func (d *Dev) start(ctx context.Context, path, what, ready, log string, env []string, args ...string) (string, error) {
	if err := os.Remove(ready); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("prepare %s: %w", what, err)
	}
	args = append(args, "-ready-file", ready)
	if d.Settings.File != "" {
		args = append(args, "-config", d.Settings.File)
	}
	if queue := d.Settings.Flags["task_queue"]; queue != "" {
		env = append([]string{"WEFT_TASK_QUEUE=" + queue}, env...)
	}
	ended, err := startDetached(path, args, append(d.Settings.Env.Environ(), env...), log)
	if err != nil {
		return "", fmt.Errorf("start %s: %w", what, err)
	}
	for {
		if address := answering(ready); address != "" {
			return address, nil
		}
		select {
		case <-ended:
			return "", fmt.Errorf("%s exited before it was ready: %s; see %s", what, lastLine(log), log)
		case <-ctx.Done():
			return "", fmt.Errorf("%s did not respond within %v; its log is %s", what, serverTimeout, log)
		case <-time.After(pollInterval):
		}
	}
}

// runningDev returns the address of a running server, or "". A killed server leaves its ready file behind.
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
		if runs.Sleep(ctx, pollInterval) != nil {
			return "", fmt.Errorf("another weft-devserver has locked the data in %s but does not respond; stop it", dir)
		}
	}
	return "", err
}

// startDetached starts a program in a new session, so that Ctrl-C does not reach it.
func startDetached(path string, args, env []string, log string) (ended chan struct{}, err error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(path, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, out, out
	ownSession(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended = make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	return ended, nil
}

type readyDev struct {
	Address string `json:"address"`
	UI      string `json:"ui"`
	Store   string `json:"store"`
}

// webUI returns a text with the address of the Web UI in a ready file.
func webUI(file string) string {
	return plaintext.If(readReady(file).UI != "", ", Web UI %s", readReady(file).UI)
}

// readReady reads a ready file. If it cannot be read, the result is zero.
func readReady(file string) (ready readyDev) {
	raw, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(raw, &ready) != nil {
		return readyDev{}
	}
	return ready
}

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

func lastLine(file string) string {
	raw, err := os.ReadFile(file)
	if err != nil {
		return "no log"
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return plaintext.Line(lines[len(lines)-1], 500)
}

// activePoller is the maximum age of the last poll of a running worker.
const activePoller = 70 * time.Second

func (d *Dev) polled(ctx context.Context, c *runs.Connection, queue string) (bool, error) {
	for try := 1; ; try++ {
		limited, cancel := context.WithTimeout(ctx, runs.CallTimeout)
		all, err := c.Pollers(limited, queue)
		cancel()
		if err != nil {
			return false, fmt.Errorf("ask for the workers of task queue %q at %s: %w", queue, c.Address, err)
		}
		for _, p := range all {
			if time.Since(p.GetLastAccessTime().AsTime()) < activePoller && !strings.HasPrefix(p.GetIdentity(), config.DevIdentity) {
				return true, nil
			}
		}
		if !d.Embedded || try == 10 {
			return false, nil
		}
		if err := runs.Sleep(ctx, 200*time.Millisecond); err != nil {
			return false, err
		}
	}
}

// EnsureWorker starts a worker for a task queue unless one polls it.
func (d *Dev) EnsureWorker(ctx context.Context, t *runs.Connection, queue string) error {
	building := ctx
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	sum := sha256.Sum256([]byte(t.Address + "\x00" + t.Namespace + "\x00" + queue))
	base := filepath.Join(d.dir, "worker-"+hex.EncodeToString(sum[:6]))
	held, err := Lock(ctx, base+".users", false)
	if err != nil {
		return err
	}
	d.locks = append(d.locks, held)
	starting, err := Lock(ctx, base+".starting", true)
	if err != nil {
		return err
	}
	defer starting.Close()
	free, err := lock(base+".json.lock", true)
	switch {
	case errors.Is(err, errLocked):
		d.Helped, d.Ready = true, base+".json"
		return nil
	case err != nil:
		return err
	}
	free.Close()
	if is, err := d.polled(ctx, t, queue); is || err != nil {
		if d.Embedded {
			d.Ready = filepath.Join(d.dir, "ready.json")
		}
		return err
	}
	path, err := d.serverProgram(building)
	if err != nil {
		return err
	}
	log := base + ".log"
	if _, err := d.start(ctx, path, "the worker", base+".json", log, []string{"WEFT_TASK_QUEUE=" + queue}, "-server=false", "-users", base+".users"); err != nil {
		return err
	}
	d.Helped, d.Ready = true, base+".json"
	d.Say("dev: started a worker for task queue %q at %s; its log is %s", queue, t.Address, log)
	return nil
}

var errLocked = errors.New("locked by another process")

const pollInterval = 50 * time.Millisecond

// Lock waits until it can lock a file, shared or exclusively.
func Lock(ctx context.Context, file string, alone bool) (*os.File, error) {
	for {
		f, err := lock(file, alone)
		if !errors.Is(err, errLocked) {
			return f, err
		}
		if err := runs.Sleep(ctx, pollInterval); err != nil {
			return nil, err
		}
	}
}
