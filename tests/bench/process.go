package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// process is a running program. Its stderr goes to a log file in the benchmark's folder.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
	log   string
	dead  bool
}

// launch starts a program whose stdin and stdout belong to the caller.
func launch(name, dir string, env []string, path string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(path, args...)}
	log, err := os.CreateTemp(dir, name+"-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.log = log.Name()
	p.cmd.Env, p.cmd.Dir, p.cmd.Stderr = env, dir, log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	p.lines = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the %s: %w", name, err)
	}
	return p, nil
}

// line waits for the next line of output with a prefix and returns the rest.
func (p *process) line(prefix string) (string, error) {
	for p.lines.Scan() {
		if rest, ok := strings.CutPrefix(p.lines.Text(), prefix); ok {
			return rest, nil
		}
	}
	return "", fmt.Errorf("%s ended without saying %q; it said: %s", filepath.Base(p.cmd.Path), prefix, p.tail())
}

// tail returns the end of the process's log.
func (p *process) tail() string {
	raw, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(raw[max(0, len(raw)-1000):]))
}

// kill kills the process, to simulate a crash.
func (p *process) kill() {
	if p.dead {
		return
	}
	p.dead = true
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// startServer runs the embedded server on a database file in dir.
func startServer(path, dir string, env []string) (*process, string, error) {
	p, err := launch("server", dir, env, path, "-worker=false", "-ui-port=0", "-port=0", "-db", filepath.Join(dir, "temporal.db"))
	if err != nil {
		return nil, "", err
	}
	raw, err := p.line("ready ")
	if err != nil {
		p.kill()
		return nil, "", err
	}
	var ready struct{ Address string }
	if err := json.Unmarshal([]byte(raw), &ready); err != nil {
		p.kill()
		return nil, "", fmt.Errorf("read the server's ready line %q: %w", raw, err)
	}
	return p, ready.Address, nil
}

// workerProcess is this program running as a worker.
type workerProcess struct{ *process }

// startWorker runs a worker for both sides in a separate process, with additional flags of [workAlone].
func (b *bench) startWorker(queue string, more ...string) (*workerProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append([]string{workerRole, "-address", b.address, "-queue", queue, "-tools", b.tools.url}, more...)
	p, err := launch("worker", b.dir, b.env, self, args...)
	if err != nil {
		return nil, err
	}
	if _, err := p.line("ready"); err != nil {
		p.kill()
		return nil, err
	}
	return &workerProcess{p}, nil
}

// heap is the worker's heap after a collection.
type heap struct {
	Bytes      int `json:"bytes"`
	Goroutines int `json:"goroutines"`
}

// heap makes the worker collect garbage and returns the size of its heap.
func (w *workerProcess) heap() (heap, error) {
	var h heap
	if _, err := fmt.Fprintln(w.in, "heap"); err != nil {
		return h, fmt.Errorf("ask the worker for its heap: %w", err)
	}
	raw, err := w.line("heap ")
	if err != nil {
		return h, err
	}
	return h, json.Unmarshal([]byte(raw), &h)
}

// errNoProc is returned on systems without /proc.
var errNoProc = errors.New("this system has no /proc")

// cpuOf returns the processor time that a process has used, in steps of 10 ms, or 0 if it is
// unknown.
func cpuOf(pid int) time.Duration {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// written returns the number of bytes that the server has written to disk, or 0 if it is unknown.
func (b *bench) written() int {
	if b.server == nil {
		return 0
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", b.server.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(raw), "\nwrite_bytes: ")
	n, _, _ := strings.Cut(rest, "\n")
	bytes, _ := strconv.Atoi(n)
	return bytes
}

// residentOf returns the resident memory of a process in bytes.
func residentOf(pid int) (int, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, errNoProc
	}
	fields := strings.Fields(string(raw))
	if len(fields) < 2 {
		return 0, errNoProc
	}
	pages, err := strconv.Atoi(fields[1])
	return pages * os.Getpagesize(), err
}

// peakOf returns the peak resident memory of a process in bytes, or 0 if it is unknown.
func peakOf(pid int) int {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(raw), "VmHWM:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kilobytes, _ := strconv.Atoi(fields[0])
	return kilobytes << 10
}

// loadAverage returns the machine's load average of the last minute.
func loadAverage() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(raw), " ")
	return first
}
