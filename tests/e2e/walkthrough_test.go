package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weft/tests/harness"
	"weft/tests/programs"
)

// walksIn is the page whose walks are run: blocks of what people type, and see, in terminals.
//
//	[1]$ COMMAND      a command in terminal 1; what it prints follows
//	[1]               what it prints goes on, after something in another terminal
const walksIn = "../../starter/README.md"

// walkStep is what one terminal shows: of a command, or of one that goes on.
type walkStep struct{ terminal, command, want string }

var walkPrompt = regexp.MustCompile(`^\[(\d)\](\$ .*)?$`)

// walkNamed finds a walk on its page: where its text begins and ends, and its steps.
func walkNamed(t *testing.T, page, name string) (begin, end int, steps []walkStep) {
	t.Helper()
	head := "```console " + name + "\n"
	begin = strings.Index(page, head) + len(head)
	if begin < len(head) {
		t.Fatalf("%s has no walk %s", walksIn, name)
	}
	end = begin + strings.Index(page[begin:], "```")
	for _, line := range strings.SplitAfter(page[begin:end], "\n") {
		if m := walkPrompt.FindStringSubmatch(strings.TrimSuffix(line, "\n")); m != nil {
			steps = append(steps, walkStep{terminal: m[1], command: strings.TrimPrefix(m[2], "$ ")})
		} else if len(steps) > 0 {
			steps[len(steps)-1].want += line
		}
	}
	return begin, end, steps
}

// terminalShell is a shell that a walk types into.
type terminalShell struct {
	in  io.Writer
	mu  sync.Mutex
	out bytes.Buffer
	// shown is how much of out was compared; news is when something came last.
	shown int
	news  time.Time
	// busy says that a command's end was not seen yet.
	busy bool
}

// walkEnds is what a terminal prints behind a command.
const walkEnds = "\x1e"

func (s *terminalShell) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.news = time.Now()
	return s.out.Write(p)
}

// rest is what was not compared yet, and whether the command has ended.
func (s *terminalShell) rest() (text string, ended bool, quiet time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, _, ended = strings.Cut(s.out.String()[s.shown:], walkEnds)
	return text, ended, time.Since(s.news)
}

// take marks as compared what is there, with the mark of its end.
func (s *terminalShell) take(text string, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shown += len(text); ended {
		s.shown, s.busy = s.shown+len(walkEnds), false
	}
}

// begin types a command, once the one before it has ended.
func (s *terminalShell) begin(t *testing.T, command string) {
	t.Helper()
	for began := time.Now(); s.busy; time.Sleep(10 * time.Millisecond) {
		text, ended, _ := s.rest()
		if ended && text == "" {
			s.take(text, ended)
		} else if text != "" || time.Since(began) > time.Minute {
			t.Fatalf("before %q is typed the command before it still runs, and prints %q", command, text)
		}
	}
	s.busy = true
	fmt.Fprintf(s.in, "{ %s\n} </dev/null; printf '\\036'\n", command)
}

// walker runs walks.
type walker struct {
	dir string
	env []string
	// names are what stands on the page and what it stands for here.
	names []string
	// runs is how many runs were seen.
	runs int
	// hooks are commands that are only told: what happens elsewhere.
	hooks  map[string]func()
	shells map[string]*terminalShell
}

// runIDs stand for the random ends of runs' ids.
var runIDs = [8]string{"k3v9x0aa", "q7m2d4ze", "b5n8t1uc"}

// shell opens a terminal.
func (w *walker) shell(t *testing.T, name string) *terminalShell {
	t.Helper()
	if s := w.shells[name]; s != nil {
		return s
	}
	cmd := exec.Command("bash", "--norc", "--noprofile")
	cmd.Dir, cmd.Env = w.dir, w.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s := &terminalShell{in: in}
	cmd.Stdout, cmd.Stderr = s, s
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		time.AfterFunc(10*time.Second, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		_ = cmd.Wait()
	})
	w.shells[name] = s
	return s
}

// typed is a command as it is here.
func (w *walker) typed(command string) string {
	for i := len(w.names) - 2; i >= 0; i -= 2 {
		command = strings.ReplaceAll(command, w.names[i], w.names[i+1])
	}
	return command
}

// What a run of a walk has of its own, and what stands on the page instead.
var walkOwn = []struct {
	own  *regexp.Regexp
	page string
}{
	{regexp.MustCompile(`(?m)^ +\d+\.\ds  `), "    0.5s  "},
	{regexp.MustCompile(`(?m)^(\S.*? )\d+\.\ds +`), "${1}0.5s   "},
	{regexp.MustCompile(`\b\d+\.\d s\b`), "0.5 s"},
	{regexp.MustCompile(`(/[a-z]+/[\d.]+(?:~\d+)?)-[0-9a-f]{8}\b`), "$1-9f86d081"},
	{regexp.MustCompile(`by [a-z0-9_-]+@[A-Za-z0-9_.-]+`), "by kim@laptop"},
	{regexp.MustCompile(`Web UI http://127\.0\.0\.1:\d+`), "Web UI http://127.0.0.1:41235"},
}

// walkPort is an address here.
var walkPort = regexp.MustCompile(`127\.0\.0\.1:\d{4,5}`)

var walkRun = regexp.MustCompile(`\brefund-([a-z2-7]{8})\b`)

// page is output as it stands on the page.
func (w *walker) page(text string) string {
	for _, m := range walkRun.FindAllStringSubmatch(text, -1) {
		if known := strings.Join(w.names, " "); !strings.Contains(known, m[1]) {
			w.names = append(w.names, runIDs[w.runs], m[1])
			w.runs++
		}
	}
	for i := 0; i < len(w.names); i += 2 {
		text = strings.ReplaceAll(text, w.names[i+1], w.names[i])
	}
	text = walkPort.ReplaceAllStringFunc(text, func(address string) string {
		if slices.Contains(w.names, address) {
			return address
		}
		return "127.0.0.1:41234"
	})
	for _, o := range walkOwn {
		text = o.own.ReplaceAllString(text, o.page)
	}
	return text
}

// run runs a walk step by step and gives it as it went.
func (w *walker) run(t *testing.T, steps []walkStep) string {
	t.Helper()
	update := os.Getenv("UPDATE") != ""
	w.shells = map[string]*terminalShell{}
	var went strings.Builder
	for i, step := range steps {
		fmt.Fprintf(&went, "[%s]", step.terminal)
		if step.command != "" {
			fmt.Fprintf(&went, "$ %s", step.command)
		}
		went.WriteByte('\n')
		if hook := w.hooks[step.command]; hook != nil {
			hook()
			continue
		}
		s := w.shell(t, step.terminal)
		if step.command != "" {
			s.begin(t, w.typed(step.command))
		}
		last := i == len(steps)-1 || steps[i+1].terminal == step.terminal
		began := time.Now()
		for {
			text, ended, quiet := s.rest()
			got := w.page(text)
			enough := !update && !last && sameLines(got, step.want) == ""
			if ended || enough || update && !last && time.Since(began) > 5*time.Second && quiet > 5*time.Second {
				s.take(text, ended)
				went.WriteString(got)
				if diff := sameLines(step.want, got); !update && diff != "" {
					t.Fatalf("[%s]$ %s (-on the page +here; UPDATE=1 writes what is here):\n%s", step.terminal, step.command, diff)
				}
				break
			}
			if time.Since(began) > 90*time.Second {
				t.Fatalf("[%s]$ %s does not end, or not so (-on the page +here):\n%s", step.terminal, step.command, cmp.Diff(step.want, got))
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return went.String()
}

// sameLines compares lines in any order: what happens at the same time has none. A line that
// comes again counts once: a client may ask before its answer has arrived.
func sameLines(want, got string) string {
	sorted := func(s string) []string { return slices.Compact(slices.Sorted(strings.SplitSeq(s, "\n"))) }
	return cmp.Diff(sorted(want), sorted(got))
}

// newWalker makes a folder like a checkout that is built, with nothing else in it.
func newWalker(t *testing.T) *walker {
	t.Helper()
	bin := filepath.Dir(programs.Path(t, "WEFT_DEVSERVER"))
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash here; the walks were not run")
	}
	w := &walker{dir: t.TempDir(), hooks: map[string]func(){}}
	tests, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"bin": bin, "tests": tests} {
		if err := os.Symlink(target, filepath.Join(w.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	w.env = append(programs.Clean(), "HOME="+w.dir, "XDG_STATE_HOME="+filepath.Join(w.dir, ".local/state"), "TEMPORAL_CONFIG_FILE="+filepath.Join(w.dir, "none.toml"))
	w.names = []string{"~", w.dir}
	return w
}

// walk runs a walk of the page. UPDATE=1 writes down how it went.
func (w *walker) walk(t *testing.T, name string) {
	t.Helper()
	page := harness.ReadFile(t, walksIn)
	begin, end, steps := walkNamed(t, page, name)
	went := w.run(t, steps)
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(walksIn, []byte(page[:begin]+went+page[end:]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
