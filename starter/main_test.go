package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"starter": main, "starter-panics": panics})
}

// TestGoldenScripts runs the scripts in testdata/script, which compare the output of command lines.
// UPDATE=1 rewrites the expected output.
func TestGoldenScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       os.Getenv("UPDATE") == "1",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			// Nothing listens on port 1: no script may connect to a Temporal server of this machine.
			env.Setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
			env.Setenv("TEMPORAL_CONFIG_FILE", env.WorkDir+"/no-temporal.toml")
			env.Setenv("GORACE", os.Getenv("GORACE"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits runs starter and checks its exit code: exits CODE [--timeout SECONDS] ARGS... After the
// timeout, starter is killed and the code is 124.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exits CODE [--timeout SECONDS] ARGS...")
	}
	want, command := args[0], []string{"starter"}
	if len(args) > 2 && args[1] == "--timeout" {
		command, args = []string{"timeout", "-s", "KILL", args[2], "starter"}, args[2:]
	}
	// The shell reports the code; testscript itself only distinguishes zero from others.
	const check = `want=$1; shift; "$@"; got=$?; [ $got = 137 ] && got=124; [ "$got" = "$want" ] || { echo "exit code $got, want $want" >&2; exit 1; }`
	if err := ts.Exec("sh", append(append([]string{"-c", check, "sh", want}, command...), args[1:]...)...); err != nil {
		ts.Fatalf("%v", err)
	}
}

// TestTerminalOutputSanitized checks that model output is sanitized for terminals but not for files, also if it is written byte by byte.
func TestTerminalOutputSanitized(t *testing.T) {
	const text = "a\x1b[2J\x1b]52;c;YQ\a \u009b31m 分析\u202e\r\tb\n"
	for terminal, want := range map[bool]string{true: "a[2J]52;c;YQ 31m 分析\tb\n", false: text} {
		for _, step := range []int{1, len(text)} {
			var out bytes.Buffer
			c := &checked{Writer: &out, terminal: terminal}
			for i := 0; i < len(text); i += step {
				if n, err := c.Write([]byte(text[i : i+step])); n != step || err != nil {
					t.Fatal(n, err)
				}
			}
			if out.String() != want {
				t.Errorf("output with terminal %v = %q, want %q", terminal, out.String(), want)
			}
		}
	}
}
