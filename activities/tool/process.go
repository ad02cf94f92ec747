package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"

	"weft/activities/contract"
)

const (
	// exitGrace is how long a command has to end by itself, and again after SIGTERM.
	exitGrace = time.Second
	// maxStderrQuoted bounds what is kept of a command's standard error.
	maxStderrQuoted = 4 << 10
)

// process is a command that serves MCP on its standard input and output. It belongs to the session, not to a
// call.
type process struct {
	cmd    *exec.Cmd
	in     *writeQueue
	out    *lineReader
	stderr *tail
	exited chan struct{}
}

// newStdioTransport starts the command of a target.
func newStdioTransport(at *target) (*mcpTransport, error) {
	lost, end := context.WithCancelCause(context.Background())
	p, err := startProcess(at, func() { end(errors.New("the command has ended")) })
	if err != nil {
		return nil, connectionFailure(at.secrets.text(fmt.Sprintf("connection %q: command %q does not start: %v", at.id, at.conn.Command, err)),
			"correct "+at.setting("command"))
	}
	tr := transport.NewIO(p.out, p.in, nil)
	return &mcpTransport{
		transport: rawTransport{tr},
		lost:      lost,
		restarts:  true,
		explain:   func(err error) error { return p.explain(at, err) },
		close: func() {
			end(errStopping)
			p.stop()
		},
	}, nil
}

func startProcess(at *target, lost func()) (*process, error) {
	path, err := lookUp(at.conn.Command, cmp.Or(at.conn.Env["PATH"], at.settings.BaseEnv["PATH"]), at.conn.Dir)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(at.conn.Dir); at.conn.Dir != "" && (err != nil || !info.IsDir()) {
		return nil, fmt.Errorf("its working directory %q is not a directory", at.conn.Dir)
	}
	p := &process{exited: make(chan struct{}), stderr: &tail{}}
	p.cmd = &exec.Cmd{
		Path: path, Args: append([]string{at.conn.Command}, at.conn.Args...), Env: environment(at.settings.BaseEnv, at.conn.Env),
		Dir: cmp.Or(at.conn.Dir, os.TempDir()), Stderr: p.stderr,
		WaitDelay: lossGrace, // what the command has started may hold its standard error open
	}
	setProcessGroup(p.cmd)
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, theirs, err := os.Pipe() // a StdoutPipe would be closed unread when the command ends
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout = theirs
	err = p.cmd.Start()
	theirs.Close()
	if err != nil {
		out.Close()
		return nil, err
	}
	p.in = newWriteQueue(in, at.settings.MaxMessageBytes)
	p.out = newLineReader(out, at.settings.MaxMessageBytes, lost)
	go p.reap(out)
	return p, nil
}

// reap waits for the command and ends what it leaves behind.
func (p *process) reap(out *os.File) {
	_ = p.cmd.Wait() // ProcessState has the outcome
	signalGroup(p.cmd, true)
	// What left the group may still hold the output: read what is there, then stop.
	_ = out.SetReadDeadline(time.Now().Add(lossGrace))
	p.in.Close()
	close(p.exited)
}

// stop ends the command: by closing its input, then by SIGTERM, then by SIGKILL, to its whole group.
func (p *process) stop() {
	p.in.Close()
	for _, force := range []bool{false, true} {
		select {
		case <-p.exited:
		case <-time.After(exitGrace):
			signalGroup(p.cmd, force)
			continue
		}
		break
	}
	<-p.exited
	p.out.finish()
}

// explain adds how the command ended to an error that its end caused.
func (p *process) explain(at *target, err error) error {
	var f *contract.Failure
	if errors.As(err, &f) || !errors.Is(err, transport.ErrTransportClosed) && !errors.Is(err, fs.ErrClosed) &&
		!errors.Is(err, errBacklog) && !errors.Is(err, errEnded) && !strings.Contains(err.Error(), "file already closed") {
		return err
	}
	if errors.Is(err, errBacklog) {
		return at.failure(contract.ClassUnavailable, errBacklog.Error(), "")
	}
	if p.out.over.Load() {
		return errTooLarge
	}
	text := "the command closed its output"
	select {
	case <-p.exited:
		text = "the command ended"
		if !p.cmd.ProcessState.Success() {
			text += " with " + p.cmd.ProcessState.String()
		}
	case <-time.After(3 * lossGrace):
	}
	if output := p.stderr.String(); output != "" {
		text += "; its last output: " + output
	}
	return at.failure(contract.ClassUnavailable, text, "")
}

// environment is all that a command gets: PATH and HOME of the worker, and its own variables.
func environment(base, own map[string]string) []string {
	env := maps.Clone(base)
	maps.Copy(env, own)
	var out []string
	for name, value := range env {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out
}

// lookUp finds a command in PATH as a shell would. A relative path with a slash is relative to dir.
func lookUp(command, path, dir string) (string, error) {
	if strings.ContainsRune(command, filepath.Separator) {
		if !filepath.IsAbs(command) && dir != "" {
			command = filepath.Join(dir, command)
		}
		return filepath.Abs(command)
	}
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) {
			continue
		}
		full := filepath.Join(d, command)
		if info, err := os.Stat(full); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return full, nil
		}
	}
	return "", fmt.Errorf("not found in PATH %q", path)
}

// tail keeps the end of a command's standard error, which must be drained.
type tail struct {
	// most is how much is kept; 0 means maxStderrQuoted.
	most int
	mu   sync.Mutex
	end  []byte
}

// Write keeps the end of what has been written.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p...)
	if extra := len(t.end) - cmp.Or(t.most, maxStderrQuoted); extra > 0 {
		t.end = append(t.end[:0], t.end[extra:]...)
	}
	return len(p), nil
}

// text is all that is kept.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.end)
}

// String is the end of the output, in one line, at most as long as an error may be.
func (t *tail) String() string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(t.text(), "")), " ")
	if extra := len(text) - longestText/2; extra > 0 {
		text = "..." + strings.ToValidUTF8(text[extra:], "")
	}
	return text
}
