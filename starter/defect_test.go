package main

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"weft/worker/config"
)

// panics runs starter with an environment that panics. The script defect.txtar runs it as
// starter-panics.
func panics() {
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, env: panickingEnv{config.OS}, quit: os.Exit}
	defer a.handlePanic()
	os.Exit(a.run(context.Background(), os.Args[1:]))
}

// panickingEnv is an environment whose lookups panic.
type panickingEnv struct{ config.Env }

func (panickingEnv) LookupEnv(string) (string, bool) { panic("no such page\n\x1b[2J") }

func TestReportRedacted(t *testing.T) {
	tests := map[string]struct{ args, want string }{
		"flags with and without values": {"-flow secret.json --input=s3cret -detach -output json -max-steps=3", "starter -flow … -input … -detach -output json -max-steps 3"},
		"command with arguments":        {"transcript secret-id thread -dev", "starter transcript … … -dev"},
		"unknown flag":                  {"-api-key=s3cret list", "starter … list"},
		"value that looks like a flag":  {"-input -flow -model m/x", "starter -input … -model m/x"},
		"flag without a value":          {"-input", "starter -input …"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := &app{args: strings.Fields(tc.args)}
			if got := a.redactedCommand(); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestPanicInAGoroutine checks that a panic outside of the main goroutine is reported and ends the process as well.
func TestPanicInAGoroutine(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()+"/missing")
	var stderr bytes.Buffer
	code := make(chan int, 1)
	a := &app{stderr: &stderr, args: []string{"follow", "x"}, quit: func(c int) { code <- c }}
	go func() {
		defer a.handlePanic()
		var none []int
		none[len(none)] = 1
	}()
	if got := <-code; got != exitDefect {
		t.Errorf("exit code %d, want %d", got, exitDefect)
	}
	want := `^starter: internal error of starter, not of your flow: runtime error: index out of range \[0\] with length 0
  version: weft \S.*
  system:  \w+/\w+, go.*
  command: starter follow …
  stack:
goroutine [\s\S]*TestPanicInAGoroutine[\s\S]*
  please report these lines, with the stack; a run that was started continues
$`
	if !regexp.MustCompile(want).MatchString(stderr.String()) {
		t.Errorf("stderr = %s, want match of %s", &stderr, want)
	}
}
