//go:build unix

package tool

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// trustedFolder creates a folder with one script, and one agent with a command.
func trustedFolder(t *testing.T, script string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"scripts/s/script.json": `{"name":"s","description":"d","script_file":"run.sh"}`, "scripts/s/run.sh": "#!/bin/sh\n" + script,
		"agents/a/agent.json": `{"name":"a","description":"d","type":"procedural","command":"/bin/sh scripts/s/run.sh first"}`,
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func script(args ...string) *plan.Program {
	return &plan.Program{Script: "s", File: "run.sh", Args: args, Seconds: 60}
}

func TestProgramResults(t *testing.T) {
	tests := map[string]struct {
		script string
		want   contract.ProgramResult
	}{
		"JSON":                  {`echo '{"a": [1, "ü"]}'`, contract.ProgramResult{Data: []byte(`{"a":[1,"ü"]}`)}},
		"number":                {`echo 42`, contract.ProgramResult{Data: []byte(`42`)}},
		"text":                  {`echo " hello "; echo " sorry " >&2`, contract.ProgramResult{Stdout: "hello", Stderr: "sorry"}},
		"no output":             {`:`, contract.ProgramResult{}},
		"JSON and an exit code": {`echo '{}'; exit 3`, contract.ProgramResult{Data: []byte(`{}`), Code: 3}},
		"text and an exit code": {`echo no; exit 7`, contract.ProgramResult{Stdout: "no", Code: 7}},
		"killed by a signal":    {`kill -9 $$`, contract.ProgramResult{Code: -9}},
		"two JSON values":       {`echo 1; echo 2`, contract.ProgramResult{Stdout: "1\n2"}},
		"invalid UTF-8":         {`printf 'a\377'`, contract.ProgramResult{Stdout: "a\uFFFD"}},
		"arguments":             {`printf '%s|' "$@"`, contract.ProgramResult{Stdout: "--n|a b|"}},
		"empty stdin":           {`cat; echo end`, contract.ProgramResult{Stdout: "end"}},
		"background process":    {`sleep 600 & echo done`, contract.ProgramResult{Stdout: "done"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.Trusted = []string{trustedFolder(t, tc.script)} })
			got, err := tools.Programs.Run(withTimeout(t, time.Minute), script("--n", "a b"), "k")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestProgramEnvironment checks that a program gets only PATH, HOME and its idempotency key, and runs in the trusted folder.
func TestProgramEnvironment(t *testing.T) {
	t.Setenv("WEFT_TEST_SECRET", "hush")
	dir := trustedFolder(t, `pwd; env | grep -v '^\(_\|SHLVL\|PWD\|OLDPWD\)=' | sort`)
	tools := open(t, Connection{URL: "http://x"}, func(s *Settings) {
		s.Trusted, s.BaseEnv = []string{dir}, map[string]string{"PATH": "/usr/bin:/bin", "HOME": "/h", "OTHER": "x"}
	})
	for _, p := range []*plan.Program{script(), {Agent: "a", Command: "/bin/sh scripts/s/run.sh first", Argv: []string{"/bin/sh", "scripts/s/run.sh", "first"}, Seconds: 60}} {
		got, err := tools.Programs.Run(withTimeout(t, time.Minute), p, "run-1/a#1")
		if err != nil {
			t.Fatal(err)
		}
		if want := dir + "\nHOME=/h\nPATH=/usr/bin:/bin\nWEFT_IDEMPOTENCY_KEY=run-1/a#1"; got.Stdout != want {
			t.Errorf("got %q, want %q; %s", got.Stdout, want, got.Stderr)
		}
	}
}

func TestProgramLimits(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	endless := `sleep 600 & echo $! > ` + pidFile + `; echo so far; wait`
	tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.Trusted = []string{trustedFolder(t, endless)} })
	p := script()
	p.Seconds = 1
	got, err := tools.Programs.Run(withTimeout(t, time.Minute), p, "k")
	if err != nil || got.Code != 124 || !got.Late || got.Stdout != "so far" {
		t.Errorf("at the timeout: got %+v, %v", got, err)
	}
	waitForExitOf(t, pidFile)
	ctx, cancel := context.WithCancel(withTimeout(t, time.Minute))
	time.AfterFunc(time.Second, cancel)
	if _, err := tools.Programs.Run(ctx, script(), "k"); err != context.Canceled {
		t.Errorf("after cancellation: %v", err)
	}
	waitForExitOf(t, pidFile)
	chatty := open(t, Connection{URL: "http://x"}, func(s *Settings) {
		s.Trusted, s.MaxResultBytes = []string{trustedFolder(t, `while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done`)}, 10_000
	})
	_, err = chatty.Programs.Run(withTimeout(t, time.Minute), script(), "k")
	wantFailure(t, err, contract.ClassTooLarge, "printed more than 10000 bytes")
}

// waitForExitOf waits until the process whose id is stored in a file has exited.
func waitForExitOf(t *testing.T, file string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	waitForExit(t, pid)
}

// TestProgramsRefused checks that only programs of the trusted folder run, and only if unchanged since the run was started.
func TestProgramsRefused(t *testing.T) {
	dir := trustedFolder(t, "echo x")
	if err := os.Symlink("/bin/sh", filepath.Join(dir, "scripts", "s", "link")); err != nil {
		t.Fatal(err)
	}
	changed := script()
	changed.SHA = strings.Repeat("0", 64)
	tests := map[string]struct {
		program *plan.Program
		trusted []string
		want    []string
	}{
		"no trusted folder":               {script(), nil, []string{"trusted: none", "agents: {trusted: [/PATH/TO/FOLDER]}", "scripts/s"}},
		"script not in a trusted folder":  {&plan.Program{Script: "t", File: "run.sh"}, []string{dir}, []string{"scripts/t is not in a folder that this worker trusts", dir}},
		"path as name":                    {&plan.Program{Script: "../s", File: "run.sh"}, []string{dir}, []string{"is not a valid name"}},
		"unlisted file":                   {&plan.Program{Script: "s", File: "../../../bin/sh"}, []string{dir}, []string{`is the file "run.sh"`}},
		"symbolic link out of the folder": {&plan.Program{Script: "s", File: "link"}, []string{dir}, []string{`is the file "run.sh"`}},
		"changed file":                    {changed, []string{dir}, []string{"has changed since the run was started"}},
		"changed command":                 {&plan.Program{Agent: "a", Command: "/bin/sh -c id", Argv: []string{"/bin/sh", "-c", "id"}}, []string{dir}, []string{"has another command for the agent"}},
		"missing folder":                  {script(), []string{dir + "/no"}, []string{"cannot be read", "agents.trusted"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.Trusted = tc.trusted })
			_, err := tools.Programs.Run(withTimeout(t, time.Minute), tc.program, "k")
			wantFailure(t, err, contract.ClassDenied, tc.want...)
		})
	}
	if _, err := Open(Settings{Trusted: []string{"config"}}); err == nil || !strings.Contains(err.Error(), `agents.trusted: "config" is not an absolute path`) {
		t.Errorf("relative folder: %v", err)
	}
}
