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

// walkthroughPage is the document whose walkthroughs are run: blocks of commands and their output in terminals.
//
//	[1]$ COMMAND      a command in terminal 1; its output follows
//	[1]               further output of that command, after a step in another terminal
const walkthroughPage = "../../starter/README.md"

// walkStep is a command and its output in a terminal, or, without a command, further output of the previous one.
type walkStep struct{ terminal, command, want string }

var walkPrompt = regexp.MustCompile(`^\[(\d)\](\$ .*)?$`)

// findWalkthrough returns the steps of a walkthrough, and where it begins and ends in page.
func findWalkthrough(t *testing.T, page, name string) (begin, end int, steps []walkStep) {
	t.Helper()
	head := "```console " + name + "\n"
	begin = strings.Index(page, head) + len(head)
	if begin < len(head) {
		t.Fatalf("%s has no walkthrough %s", walkthroughPage, name)
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

// terminalShell is the shell of one terminal.
type terminalShell struct {
	in  io.Writer
	mu  sync.Mutex
	out bytes.Buffer
	// compared is the length of the part of out that has been compared; lastWrite is the time of the last output.
	compared  int
	lastWrite time.Time
	// busy is set until the end of the current command has been seen.
	busy bool
}

// endMark is printed after each command.
const endMark = "\x1e"

func (s *terminalShell) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastWrite = time.Now()
	return s.out.Write(p)
}

// pending returns the output that has not been compared, whether the command has ended, and the time since the last
// output.
func (s *terminalShell) pending() (text string, ended bool, quiet time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, _, ended = strings.Cut(s.out.String()[s.compared:], endMark)
	return text, ended, time.Since(s.lastWrite)
}

// advance marks text as compared, and the end mark if the command has ended.
func (s *terminalShell) advance(text string, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.compared += len(text); ended {
		s.compared, s.busy = s.compared+len(endMark), false
	}
}

// begin enters a command when the previous one has ended.
func (s *terminalShell) begin(t *testing.T, command string) {
	t.Helper()
	for began := time.Now(); s.busy; time.Sleep(10 * time.Millisecond) {
		text, ended, _ := s.pending()
		if ended && text == "" {
			s.advance(text, ended)
		} else if text != "" || time.Since(began) > time.Minute {
			t.Fatalf("before %q: the previous command has not ended, unexpected output %q", command, text)
		}
	}
	s.busy = true
	fmt.Fprintf(s.in, "{ %s\n} </dev/null; printf '\\036'\n", command)
}

// walker runs walkthroughs.
type walker struct {
	dir string
	env []string
	// replacements are pairs of a text on the page and the text that replaces it in this test.
	replacements []string
	// runs is the number of runs seen so far.
	runs int
	// hooks are called instead of executing the command.
	hooks  map[string]func()
	shells map[string]*terminalShell
}

// runIDs are the suffixes of run ids on the page, in order.
var runIDs = [8]string{"k3v9x0aa", "q7m2d4ze", "b5n8t1uc"}

// shell returns the shell of a terminal; it starts it if necessary.
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

// localize replaces texts of the page in a command.
func (w *walker) localize(command string) string {
	for i := len(w.replacements) - 2; i >= 0; i -= 2 {
		command = strings.ReplaceAll(command, w.replacements[i], w.replacements[i+1])
	}
	return command
}

// variableOutput is the output that differs from run to run, and the text of the page that replaces it.
var variableOutput = []struct {
	pattern *regexp.Regexp
	page    string
}{
	{regexp.MustCompile(`(?m)^ +\d+\.\ds  `), "    0.5s  "},
	{regexp.MustCompile(`(?m)^(\S.*? )\d+\.\ds +`), "${1}0.5s   "},
	{regexp.MustCompile(`\b\d+\.\d s\b`), "0.5 s"},
	{regexp.MustCompile(`(/[a-z]+/[\d.]+(?:~\d+)?)-[0-9a-f]{8}\b`), "$1-9f86d081"},
	{regexp.MustCompile(`by [a-z0-9_-]+@[A-Za-z0-9_.-]+`), "by kim@laptop"},
	{regexp.MustCompile(`Web UI http://127\.0\.0\.1:\d+`), "Web UI http://127.0.0.1:41235"},
}

var walkPort = regexp.MustCompile(`127\.0\.0\.1:\d{4,5}`)

var walkRun = regexp.MustCompile(`\brefund-([a-z2-7]{8})\b`)

// normalize replaces what differs from run to run in output by the texts of the page.
func (w *walker) normalize(text string) string {
	for _, m := range walkRun.FindAllStringSubmatch(text, -1) {
		if known := strings.Join(w.replacements, " "); !strings.Contains(known, m[1]) {
			w.replacements = append(w.replacements, runIDs[w.runs], m[1])
			w.runs++
		}
	}
	for i := 0; i < len(w.replacements); i += 2 {
		text = strings.ReplaceAll(text, w.replacements[i+1], w.replacements[i])
	}
	text = walkPort.ReplaceAllStringFunc(text, func(address string) string {
		if slices.Contains(w.replacements, address) {
			return address
		}
		return "127.0.0.1:41234"
	})
	for _, o := range variableOutput {
		text = o.pattern.ReplaceAllString(text, o.page)
	}
	return text
}

// run executes the steps and returns the walkthrough with the actual output.
func (w *walker) run(t *testing.T, steps []walkStep) string {
	t.Helper()
	update := os.Getenv("UPDATE") != ""
	w.shells = map[string]*terminalShell{}
	var transcript strings.Builder
	for i, step := range steps {
		fmt.Fprintf(&transcript, "[%s]", step.terminal)
		if step.command != "" {
			fmt.Fprintf(&transcript, "$ %s", step.command)
		}
		transcript.WriteByte('\n')
		if hook := w.hooks[step.command]; hook != nil {
			hook()
			continue
		}
		s := w.shell(t, step.terminal)
		if step.command != "" {
			s.begin(t, w.localize(step.command))
		}
		last := i == len(steps)-1 || steps[i+1].terminal == step.terminal
		began := time.Now()
		for {
			text, ended, quiet := s.pending()
			got := w.normalize(text)
			enough := !update && !last && diffLines(got, step.want) == ""
			if ended || enough || update && !last && time.Since(began) > 5*time.Second && quiet > 5*time.Second {
				s.advance(text, ended)
				transcript.WriteString(got)
				if diff := diffLines(step.want, got); !update && diff != "" {
					t.Fatalf("[%s]$ %s (-page +got; UPDATE=1 updates the page):\n%s", step.terminal, step.command, diff)
				}
				break
			}
			if time.Since(began) > 90*time.Second {
				t.Fatalf("[%s]$ %s did not end as expected (-page +got):\n%s", step.terminal, step.command, cmp.Diff(step.want, got))
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return transcript.String()
}

// diffLines compares lines in any order, since concurrent events have none, and ignores repeated lines, since a client
// may print an open request again before its answer has arrived.
func diffLines(want, got string) string {
	sorted := func(s string) []string { return slices.Compact(slices.Sorted(strings.SplitSeq(s, "\n"))) }
	return cmp.Diff(sorted(want), sorted(got))
}

// newWalker creates a directory with the programs and tests of a checkout.
func newWalker(t *testing.T) *walker {
	t.Helper()
	bin := filepath.Dir(programs.Path(t, "WEFT_DEVSERVER"))
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
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
	w.env = append(programs.CleanEnv(), "HOME="+w.dir, "XDG_STATE_HOME="+filepath.Join(w.dir, ".local/state"), "TEMPORAL_CONFIG_FILE="+filepath.Join(w.dir, "none.toml"))
	w.replacements = []string{"~", w.dir}
	return w
}

// walk runs a walkthrough of the page. UPDATE=1 writes the actual output to the page.
func (w *walker) walk(t *testing.T, name string) {
	t.Helper()
	page := harness.ReadFile(t, walkthroughPage)
	begin, end, steps := findWalkthrough(t, page, name)
	transcript := w.run(t, steps)
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(walkthroughPage, []byte(page[:begin]+transcript+page[end:]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
