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

// panics is starter with a defect: its environment panics when it is asked. The script
// defect.txtar runs it.
func panics() {
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, env: broken{config.OS}, quit: os.Exit}
	defer a.handlePanic()
	os.Exit(a.run(context.Background(), os.Args[1:]))
}

// broken is an environment with a defect.
type broken struct{ config.Env }

func (broken) LookupEnv(string) (string, bool) { panic("no such page\n\x1b[2J") }

func TestReportHasNoSecrets(t *testing.T) {
	tests := map[string]struct{ args, want string }{
		"flags with and without values": {"-flow secret.json --input=s3cret -detach -output json -max-steps=3", "starter -flow … -input … -detach -output json -max-steps 3"},
		"a command with an argument":    {"transcript secret-id thread -dev", "starter transcript … … -dev"},
		"a flag that is not there":      {"-api-key=s3cret list", "starter … list"},
		"a value that looks like one":   {"-input -flow -model m/x", "starter -input … -model m/x"},
		"a flag without its value":      {"-input", "starter -input …"},
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

// A panic beside the command ends the process as well.
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
		t.Errorf("stderr is %s", &stderr)
	}
}
