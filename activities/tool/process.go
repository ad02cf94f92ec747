package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"

	"weft/activities/contract"
	"weft/activities/program"
	"weft/activities/tool/lines"
	"weft/activities/tool/stream"
)

// process is a command that serves MCP on its standard input and output. It lives as long as the session.
type process struct {
	cmd    *exec.Cmd
	in     *lines.Queue
	out    *lines.Reader
	stderr *program.Tail
	exited chan struct{}
}

func newStdioTransport(at *target) (*mcpTransport, error) {
	lost, end := context.WithCancelCause(context.Background())
	p, err := startProcess(at, func() { end(errors.New("the command has ended")) })
	if err != nil {
		return nil, connectionFailure(at.secrets.mask(fmt.Sprintf("connection %q: command %q does not start: %v", at.id, at.conn.Command, err)),
			"correct "+at.settingName("command"))
	}
	tr, requests := transport.NewIO(p.out, p.in, nil), at.newServerRequests()
	return &mcpTransport{
		serverRequests:    requests,
		transport:         rawTransport{tr, requests},
		lost:              lost,
		restartOnTimeouts: true,
		explain:           func(err error) error { return p.explain(at, err) },
		close: func() {
			end(errStopping)
			p.stop()
		},
		respond: func(_ context.Context, message []byte) error {
			_, err := p.in.Write(append(message, '\n'))
			return err
		},
	}, nil
}

func startProcess(at *target, lost func()) (*process, error) {
	path, err := program.LookUp(at.conn.Command, cmp.Or(at.conn.Env["PATH"], at.settings.BaseEnv["PATH"]), at.conn.Dir)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(at.conn.Dir); at.conn.Dir != "" && (err != nil || !info.IsDir()) {
		return nil, fmt.Errorf("its working directory %q is not a directory", at.conn.Dir)
	}
	p := &process{exited: make(chan struct{}), stderr: &program.Tail{}}
	p.cmd = &exec.Cmd{
		Path: path, Args: append([]string{at.conn.Command}, at.conn.Args...), Env: program.Environment(at.settings.BaseEnv, at.conn.Env),
		Dir: cmp.Or(at.conn.Dir, os.TempDir()), Stderr: p.stderr,
		WaitDelay: lossGrace, // processes started by the command may hold its standard error open
	}
	program.SetGroup(p.cmd)
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, childOut, err := os.Pipe() // a StdoutPipe would be closed when the command ends, before it is read
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout = childOut
	err = p.cmd.Start()
	childOut.Close()
	if err != nil {
		out.Close()
		return nil, err
	}
	p.in = lines.NewQueue(in, at.settings.MaxMessageBytes)
	p.out = lines.NewReader(out, at.settings.MaxMessageBytes, lost)
	go p.reap(out)
	return p, nil
}

// reap waits for the command and then kills the remaining processes of its group.
func (p *process) reap(out *os.File) {
	_ = p.cmd.Wait() // ProcessState has the result
	program.SignalGroup(p.cmd, true)
	// Processes that left the group may still hold the output open: read the buffered data, then stop.
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
		case <-time.After(program.ExitGrace):
			program.SignalGroup(p.cmd, force)
			continue
		}
		break
	}
	<-p.exited
	p.out.Finish()
}

// explain adds the command's exit status and last output to an error that was caused by its end.
func (p *process) explain(at *target, err error) error {
	var f *contract.Failure
	if errors.As(err, &f) || !errors.Is(err, transport.ErrTransportClosed) && !errors.Is(err, fs.ErrClosed) &&
		!errors.Is(err, lines.ErrBacklog) && !errors.Is(err, lines.ErrEnded) && !strings.Contains(err.Error(), "file already closed") {
		return err
	}
	if errors.Is(err, lines.ErrBacklog) {
		return at.failure(contract.ClassUnavailable, lines.ErrBacklog.Error(), "")
	}
	if p.out.TooLong.Load() {
		return stream.ErrTooLarge
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
