// Package program runs programs from folders that a worker's operator trusts, and provides helpers for other commands of a worker.
package program

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// Programs run only from folders that the operator trusts. An untrusted plan names a script or an agent of a
// folder; the folder's files define the command.

const (
	// timeoutCode is the exit code of a program that timed out.
	timeoutCode = 124
	// maxStderr bounds the end of a program's standard error that is kept, in bytes.
	maxStderr = 64 << 10
	// keyVariable is the variable with the idempotency key of a program's run.
	keyVariable = "WEFT_IDEMPOTENCY_KEY"
	// uv runs scripts that are not executable, as the dialect's framework does.
	uv = "uv"
)

// Setting is the setting with the trusted folders.
const Setting = "agents.trusted"

// Programs runs programs of trusted folders.
type Programs struct {
	// Trusted are the paths of the folders.
	Trusted []string
	// BaseEnv holds PATH and HOME of the programs.
	BaseEnv map[string]string
	// MaxOutput is the maximum output in bytes; a program that prints more is terminated.
	MaxOutput int
}

var entryName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$`)

// Run runs a program to its end and returns its output. The program gets PATH, HOME and WEFT_IDEMPOTENCY_KEY,
// no input, and the trusted folder as its working directory. When ctx is done or the program times out, its process
// group is terminated.
//
// Errors are a *[contract.Failure], or ctx's own.
func (s *Programs) Run(ctx context.Context, p *plan.Program, key string) (*contract.ProgramResult, error) {
	words, dir, err := s.program(p)
	if err != nil {
		return nil, err
	}
	run, end := context.WithTimeout(ctx, time.Duration(p.Seconds)*time.Second)
	defer end()
	out := &output{limit: s.MaxOutput, full: end}
	last := &Tail{MaxBytes: maxStderr}
	cmd := exec.CommandContext(run, words[0])
	cmd.Args, cmd.Dir, cmd.Stdout, cmd.Stderr = append(words, p.Args...), dir, out, last
	cmd.Env = Environment(s.BaseEnv, map[string]string{keyVariable: key})
	SetGroup(cmd)
	cmd.Cancel = func() error { SignalGroup(cmd, false); return nil }
	cmd.WaitDelay = ExitGrace
	if err := cmd.Start(); err != nil {
		return nil, deniedFailure(fmt.Sprintf("the program %q does not start: %v", words[0], err), "correct the program, or make it executable")
	}
	failed := cmd.Wait()
	SignalGroup(cmd, true) // processes that it has left running
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case out.over:
		return nil, &contract.Failure{Class: contract.ClassTooLarge, Text: fmt.Sprintf("the program %q printed more than %d bytes and was terminated", words[0], out.limit),
			Remedy: "have it print less, or write a file and print its name"}
	}
	return programResult(cmd, failed, run.Err() != nil, out, last), nil
}

func programResult(cmd *exec.Cmd, failed error, late bool, out *output, last *Tail) *contract.ProgramResult {
	res := &contract.ProgramResult{Code: cmd.ProcessState.ExitCode()}
	if state, ok := errors.AsType[*exec.ExitError](failed); ok && res.Code < 0 {
		res.Code = signalCode(state)
	}
	if late && res.Code != 0 {
		res.Code, res.Late = timeoutCode, true
	}
	printed := bytes.TrimSpace(out.text.Bytes())
	var compact bytes.Buffer
	if len(printed) > 0 && plan.Depth(printed) <= maxPrinted && json.Compact(&compact, printed) == nil {
		res.Data = compact.Bytes()
		return res
	}
	res.Stdout = strings.ToValidUTF8(string(printed), "\uFFFD")
	res.Stderr = strings.TrimSpace(strings.ToValidUTF8(last.Text(), "\uFFFD"))
	return res
}

// maxPrinted is the maximum nesting of printed JSON; deeper JSON counts as text.
const maxPrinted = 500

// output collects the output of a program, up to a limit at which the program is terminated.
type output struct {
	text  bytes.Buffer
	limit int
	over  bool
	full  func()
}

func (o *output) Write(p []byte) (int, error) {
	if o.text.Len()+len(p) > o.limit {
		o.over = true
		o.full()
		return len(p), nil
	}
	return o.text.Write(p)
}

// program returns the command line and the working directory of a program.
func (s *Programs) program(p *plan.Program) (words []string, dir string, err error) {
	registry, name := "agents", p.Agent
	if p.Script != "" {
		registry, name = "scripts", p.Script
	}
	if !entryName.MatchString(name) {
		return nil, "", deniedFailure(fmt.Sprintf("%q is not a valid name of a folder in %s/", name, registry), "correct the name")
	}
	for _, dir := range s.Trusted {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, "", deniedFailure(fmt.Sprintf("the trusted folder %q cannot be read: %v", dir, withoutPath(err)), "correct "+Setting+" in the worker's weft.yaml")
		}
		words, err = s.commandLine(root, p, dir)
		root.Close()
		if !errors.Is(err, fs.ErrNotExist) {
			return words, dir, err
		}
	}
	trusted := cmp.Or(strings.Join(s.Trusted, ", "), "none")
	return nil, "", deniedFailure(fmt.Sprintf("%s/%s is not in a folder that this worker trusts; trusted: %s", registry, name, trusted),
		fmt.Sprintf("to allow it, set in the worker's weft.yaml: agents: {trusted: [/PATH/TO/FOLDER]} (the folder that has %s/%s)", registry, name))
}

// commandLine returns the command line of a program in a trusted folder, or [fs.ErrNotExist].
func (s *Programs) commandLine(root *os.Root, p *plan.Program, dir string) ([]string, error) {
	if p.Script == "" {
		var agent struct{ Command string }
		if err := readSetting(root, path.Join("agents", p.Agent, "agent.json"), &agent); err != nil {
			return nil, err
		}
		if agent.Command != p.Command {
			return nil, deniedFailure(fmt.Sprintf("the trusted folder %[2]q has another command for the agent %[1]q", p.Agent, dir), "start a new run, with the agent as it is there")
		}
		full, err := LookUp(p.Argv[0], s.BaseEnv["PATH"], dir)
		if err != nil {
			return nil, deniedFailure(fmt.Sprintf("the program %q is %v", p.Argv[0], err), "install it, or correct the command")
		}
		return append([]string{full}, p.Argv[1:]...), nil
	}
	var script struct {
		File string `json:"script_file"`
	}
	if err := readSetting(root, path.Join("scripts", p.Script, "script.json"), &script); err != nil {
		return nil, err
	}
	file := path.Join("scripts", p.Script, p.File)
	if script.File != p.File || !filepath.IsLocal(p.File) {
		return nil, deniedFailure(fmt.Sprintf("the script %q is the file %q in the trusted folder %q, not %q", p.Script, script.File, dir, p.File), "start a new run, with the script as it is there")
	}
	info, err := root.Stat(file)
	if err != nil || !info.Mode().IsRegular() {
		return nil, deniedFailure(fmt.Sprintf("the script's file %s cannot be read in the trusted folder %q", file, dir), "write the file, or correct script_file")
	}
	if text, err := root.ReadFile(file); p.SHA != "" && (err != nil || contract.SHA(text) != p.SHA) {
		return nil, deniedFailure(fmt.Sprintf("the script's file %s in the trusted folder %q has changed since the run was started", file, dir), "start a new run")
	}
	full := filepath.Join(dir, filepath.FromSlash(file))
	if info.Mode()&0o111 != 0 {
		return []string{full}, nil
	}
	runner, err := LookUp(uv, s.BaseEnv["PATH"], dir)
	if err != nil {
		return nil, deniedFailure(fmt.Sprintf("the script's file %s is not executable, and %s, which would run it, was not found", full, uv), "make it executable: chmod +x "+full)
	}
	return []string{runner, "run", "--script", full}, nil
}

func readSetting(root *os.Root, name string, into any) error {
	raw, err := root.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return fs.ErrNotExist
	}
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		return deniedFailure(fmt.Sprintf("read %s in the trusted folder %q: %v", name, root.Name(), withoutPath(err)), "correct the file")
	}
	return nil
}

// withoutPath removes the path from an error whose message names it.
func withoutPath(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err
	}
	return err
}

// deniedFailure returns the failure of a program that must not or cannot be run.
func deniedFailure(text, remedy string) *contract.Failure {
	return &contract.Failure{Class: contract.ClassDenied, Text: text, Remedy: remedy}
}
