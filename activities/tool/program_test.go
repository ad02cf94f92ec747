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

// trusted is a folder with one script, and an agent with a command.
func trusted(t *testing.T, script string) string {
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
		"JSON":                   {`echo '{"a": [1, "ü"]}'`, contract.ProgramResult{Data: []byte(`{"a":[1,"ü"]}`)}},
		"a number":               {`echo 42`, contract.ProgramResult{Data: []byte(`42`)}},
		"text":                   {`echo " hello "; echo " sorry " >&2`, contract.ProgramResult{Stdout: "hello", Stderr: "sorry"}},
		"nothing":                {`:`, contract.ProgramResult{}},
		"JSON and a code":        {`echo '{}'; exit 3`, contract.ProgramResult{Data: []byte(`{}`), Code: 3}},
		"text and a code":        {`echo no; exit 7`, contract.ProgramResult{Stdout: "no", Code: 7}},
		"a signal":               {`kill -9 $$`, contract.ProgramResult{Code: -9}},
		"two values":             {`echo 1; echo 2`, contract.ProgramResult{Stdout: "1\n2"}},
		"bytes that are no text": {`printf 'a\377'`, contract.ProgramResult{Stdout: "a\uFFFD"}},
		"arguments":              {`printf '%s|' "$@"`, contract.ProgramResult{Stdout: "--n|a b|"}},
		"nothing to read":        {`cat; echo end`, contract.ProgramResult{Stdout: "end"}},
		"left behind":            {`sleep 600 & echo done`, contract.ProgramResult{Stdout: "done"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.Trusted = []string{trusted(t, tc.script)} })
			got, err := tools.Programs.Run(soon(t, time.Minute), script("--n", "a b"), "k")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A program runs in the trusted folder with PATH, HOME and its key, without the worker's environment.
func TestProgramEnvironment(t *testing.T) {
	t.Setenv("WEFT_TEST_SECRET", "hush")
	dir := trusted(t, `pwd; env | grep -v '^\(_\|SHLVL\|PWD\|OLDPWD\)=' | sort`)
	tools := open(t, Connection{URL: "http://x"}, func(s *Settings) {
		s.Trusted, s.BaseEnv = []string{dir}, map[string]string{"PATH": "/usr/bin:/bin", "HOME": "/h", "OTHER": "x"}
	})
	for _, p := range []*plan.Program{script(), {Agent: "a", Command: "/bin/sh scripts/s/run.sh first", Argv: []string{"/bin/sh", "scripts/s/run.sh", "first"}, Seconds: 60}} {
		got, err := tools.Programs.Run(soon(t, time.Minute), p, "run-1/a#1")
		if err != nil {
			t.Fatal(err)
		}
		if want := dir + "\nHOME=/h\nPATH=/usr/bin:/bin\nWEFT_IDEMPOTENCY_KEY=run-1/a#1"; got.Stdout != want {
			t.Errorf("got %q, want %q; %s", got.Stdout, want, got.Stderr)
		}
	}
}

func TestProgramEnds(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "pid")
	endless := `sleep 600 & echo $! > ` + mark + `; echo so far; wait`
	tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.Trusted = []string{trusted(t, endless)} })
	p := script()
	p.Seconds = 1
	got, err := tools.Programs.Run(soon(t, time.Minute), p, "k")
	if err != nil || got.Code != 124 || !got.Late || got.Stdout != "so far" {
		t.Errorf("at its limit: %+v, %v", got, err)
	}
	ended(t, mark)
	ctx, cancel := context.WithCancel(soon(t, time.Minute))
	time.AfterFunc(time.Second, cancel)
	if _, err := tools.Programs.Run(ctx, script(), "k"); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
	ended(t, mark)
	chatty := open(t, Connection{URL: "http://x"}, func(s *Settings) {
		s.Trusted, s.MaxResultBytes = []string{trusted(t, `while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done`)}, 10_000
	})
	_, err = chatty.Programs.Run(soon(t, time.Minute), script(), "k")
	fails(t, err, contract.ClassTooLarge, "printed more than 10000 bytes")
}

// ended waits until the process whose id is in a file has exited.
func ended(t *testing.T, file string) {
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

// Only programs of the trusted folder run, and only if unchanged since the run was started.
func TestProgramsRefused(t *testing.T) {
	dir := trusted(t, "echo x")
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
		"nothing trusted":     {script(), nil, []string{"trusted: none", "agents: {trusted: [/PATH/TO/FOLDER]}", "scripts/s"}},
		"of no folder":        {&plan.Program{Script: "t", File: "run.sh"}, []string{dir}, []string{"scripts/t is not in a folder that this worker trusts", dir}},
		"a path as a name":    {&plan.Program{Script: "../s", File: "run.sh"}, []string{dir}, []string{"is not a valid name"}},
		"another file":        {&plan.Program{Script: "s", File: "../../../bin/sh"}, []string{dir}, []string{`is the file "run.sh"`}},
		"a link out":          {&plan.Program{Script: "s", File: "link"}, []string{dir}, []string{`is the file "run.sh"`}},
		"a file that changed": {changed, []string{dir}, []string{"has changed since the run was started"}},
		"another command":     {&plan.Program{Agent: "a", Command: "/bin/sh -c id", Argv: []string{"/bin/sh", "-c", "id"}}, []string{dir}, []string{"has another command for the agent"}},
		"no such folder":      {script(), []string{dir + "/no"}, []string{"cannot be read", "agents.trusted"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.Trusted = tc.trusted })
			_, err := tools.Programs.Run(soon(t, time.Minute), tc.program, "k")
			fails(t, err, contract.ClassDenied, tc.want...)
		})
	}
	if _, err := Open(Settings{Trusted: []string{"config"}}); err == nil || !strings.Contains(err.Error(), `agents.trusted: "config" is not an absolute path`) {
		t.Errorf("a relative folder: %v", err)
	}
}
