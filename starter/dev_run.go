package main

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

	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"

	"weft/starter/plaintext"
	"weft/worker/config"
)

// address is where the embedded server is; it is started if it is not there.
func (d *dev) address(ctx context.Context) (string, error) {
	dir, building := d.dir, ctx // a build may take longer than a start
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
		d.app.say("dev: using the embedded Temporal at %s", address)
		return address, nil
	}
	path, err := d.devProgram(building)
	if err != nil {
		return "", err
	}
	log := filepath.Join(dir, "devserver.log")
	var address string
	for range 3 {
		address, err = d.start(ctx, path, "the embedded Temporal", ready, log, nil,
			"-db", filepath.Join(dir, "temporal.db"), "-port", "0", "-ui-port", "-1", "-users", filepath.Join(dir, "users"))
		if err == nil || !portTaken(log) {
			break
		}
	}
	if err == nil {
		d.app.say("dev: started an embedded Temporal at %s with a worker; data and log in %s", address, dir)
	}
	return address, err
}

// start runs weft-devserver until its ready file says where it is, or where it works.
func (d *dev) start(ctx context.Context, path, what, ready, log string, env []string, args ...string) (string, error) {
	if err := os.Remove(ready); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("prepare %s: %w", what, err)
	}
	args = append(args, "-ready-file", ready)
	if d.app.flags.config != "" {
		args = append(args, "-config", d.app.flags.config)
	}
	if d.app.flags.taskQueue != "" {
		env = append([]string{"WEFT_TASK_QUEUE=" + d.app.flags.taskQueue}, env...)
	}
	ended, err := aloof(path, args, append(d.app.env.Environ(), env...), log)
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
			return "", fmt.Errorf("%s did not answer within %v; its log is %s", what, devPatience, log)
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
			return "", fmt.Errorf("another weft-devserver has locked the data in %s but does not answer; stop it", dir)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return "", err
}

// aloof starts a program in a session of its own, so that Ctrl-C does not reach it.
func aloof(path string, args, env []string, log string) (ended chan struct{}, err error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(path, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, out, out
	aside(cmd)
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

// portTaken reports whether a program ended because another took a port that it had found free.
func portTaken(log string) bool {
	raw, err := os.ReadFile(log)
	return err == nil && bytes.Contains(raw, []byte("address already in use"))
}

// lastLine is the end of a log, for a message.
func lastLine(file string) string {
	raw, err := os.ReadFile(file)
	if err != nil {
		return "it left no log"
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return plaintext.Line(lines[len(lines)-1], 500)
}

// polled reports whether a worker takes the tasks of a queue. Those that -dev has started do
// not count here: whether they live, their locks say, at once.
func polled(ctx context.Context, t *config.Temporal, queue string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	d, err := t.Client.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
		Namespace: t.Namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: queue}, TaskQueueType: enumspb.TASK_QUEUE_TYPE_WORKFLOW,
	})
	if err != nil {
		return false, fmt.Errorf("ask for the workers of task queue %q at %s: %w", queue, t.Address, err)
	}
	for _, p := range d.GetPollers() {
		if time.Since(p.GetLastAccessTime().AsTime()) < pollEvery && !strings.HasPrefix(p.GetIdentity(), config.DevIdentity) {
			return true, nil
		}
	}
	return false, nil
}

// polls asks whether a worker polls. The embedded server's own is given time for its first
// poll.
func (d *dev) polls(ctx context.Context, t *config.Temporal, queue string) (is bool, err error) {
	for range 10 {
		if is, err = polled(ctx, t, queue); is || err != nil || !d.embedded {
			break
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
	return is, err
}

// pollEvery is how often a worker that lives asks again, at the latest.
const pollEvery = 70 * time.Second

// ensureWorker starts a worker for a task queue unless one polls it.
func (d *dev) ensureWorker(ctx context.Context, t *config.Temporal, queue string) error {
	building := ctx
	ctx, cancel := context.WithTimeout(ctx, devPatience)
	defer cancel()
	sum := sha256.Sum256([]byte(t.Address + "\x00" + t.Namespace + "\x00" + queue))
	base := filepath.Join(d.dir, "worker-"+hex.EncodeToString(sum[:6]))
	held, err := shareLock(ctx, base+".users")
	if err != nil {
		return err
	}
	d.held = append(d.held, held)
	starting, err := ownLock(ctx, base+".starting")
	if err != nil {
		return err
	}
	defer starting.Close()
	free, err := lock(base+".json.lock", true)
	switch {
	case errors.Is(err, errLocked):
		d.helped, d.ready = true, base+".json"
		return nil
	case err != nil:
		return err
	}
	free.Close()
	if is, err := d.polls(ctx, t, queue); is || err != nil {
		if d.embedded {
			d.ready = filepath.Join(d.dir, "ready.json")
		}
		return err
	}
	path, err := d.devProgram(building)
	if err != nil {
		return err
	}
	log := base + ".log"
	if _, err := d.start(ctx, path, "the worker", base+".json", log, []string{"WEFT_TASK_QUEUE=" + queue}, "-server=false", "-users", base+".users"); err != nil {
		return err
	}
	d.helped, d.ready = true, base+".json"
	d.app.say("dev: started a worker for task queue %q at %s; its log is %s", queue, t.Address, log)
	return nil
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
