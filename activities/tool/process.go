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
	"sort"
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
	cmd     *exec.Cmd
	in      *writeQueue
	out     *lineReader
	stderr  *tail
	exited  chan struct{}
	drained chan struct{} // closed once stderr is read to its end
	state   error         // of Wait; after exited
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
	env := environment(at)
	path, err := lookUp(at.conn.Command, env["PATH"], at.conn.Dir)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(at.conn.Dir); at.conn.Dir != "" && (err != nil || !info.IsDir()) {
		return nil, fmt.Errorf("its working directory %q is not a directory", at.conn.Dir)
	}
	pipes, err := openPipes()
	if err != nil {
		return nil, err
	}
	p := &process{exited: make(chan struct{}), drained: make(chan struct{}), stderr: &tail{}}
	p.cmd = &exec.Cmd{
		Path: path, Args: append([]string{at.conn.Command}, at.conn.Args...), Env: assignments(env), Dir: at.conn.Dir,
		// Files, not writers: Wait must not wait for what the command has started.
		Stdin: pipes.inR, Stdout: pipes.outW, Stderr: pipes.errW,
	}
	if p.cmd.Dir == "" {
		p.cmd.Dir = os.TempDir()
	}
	setProcessGroup(p.cmd)
	if err := p.cmd.Start(); err != nil {
		pipes.close()
		return nil, err
	}
	pipes.closeTheirs()
	p.in = newWriteQueue(pipes.inW, at.settings.MaxMessageBytes)
	p.out = newLineReader(pipes.outR, at.settings.MaxMessageBytes, lost)
	go func() {
		defer close(p.drained)
		p.stderr.drain(pipes.errR)
	}()
	go p.reap(pipes)
	return p, nil
}

// reap waits for the command and ends what it leaves behind.
func (p *process) reap(pipes *pipes) {
	p.state = p.cmd.Wait()
	signalGroup(p.cmd, true)
	// What left the group may still hold the pipes: read what is there, then stop.
	soon := time.Now().Add(lossGrace)
	_ = pipes.outR.SetReadDeadline(soon)
	_ = pipes.errR.SetReadDeadline(soon)
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
	if p.out.tooLong() {
		return errTooLarge
	}
	text := "the command closed its output"
	select {
	case <-p.exited:
		text = "the command ended"
		if p.state != nil {
			text += " with " + p.state.Error()
		}
		select {
		case <-p.drained:
		case <-time.After(2 * lossGrace):
		}
	case <-time.After(2 * lossGrace):
	}
	if output := p.stderr.String(); output != "" {
		text += "; its last output: " + output
	}
	return at.failure(contract.ClassUnavailable, text, "")
}

// environment is all that a command gets: PATH and HOME of the worker, and its connection's variables.
func environment(at *target) map[string]string {
	env := maps.Clone(at.settings.BaseEnv)
	maps.Copy(env, at.conn.Env)
	return env
}

func assignments(env map[string]string) []string {
	var out []string
	for name, value := range env {
		out = append(out, name+"="+value)
	}
	sort.Strings(out)
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

// pipes connect a command; the second letter says which end.
type pipes struct{ inR, inW, outR, outW, errR, errW *os.File }

func openPipes() (*pipes, error) {
	p := &pipes{}
	for _, ends := range [][2]**os.File{{&p.inR, &p.inW}, {&p.outR, &p.outW}, {&p.errR, &p.errW}} {
		r, w, err := os.Pipe()
		if err != nil {
			p.close()
			return nil, err
		}
		*ends[0], *ends[1] = r, w
	}
	return p, nil
}

func (p *pipes) closeTheirs() { closeAll(p.inR, p.outW, p.errW) }

func (p *pipes) close() { closeAll(p.inR, p.inW, p.outR, p.outW, p.errR, p.errW) }

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
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

func (t *tail) drain(r *os.File) {
	defer r.Close()
	buf := make([]byte, 4<<10)
	for {
		n, err := r.Read(buf)
		_, _ = t.Write(buf[:n]) // never fails
		if err != nil {
			return
		}
	}
}

// String is the end of the output, in one line, at most as long as an error may be.
func (t *tail) String() string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(t.text(), "")), " ")
	if extra := len(text) - longestText/2; extra > 0 {
		text = "..." + strings.ToValidUTF8(text[extra:], "")
	}
	return text
}
