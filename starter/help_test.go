package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"weft/starter/progress"
)

// TestHelpTexts checks that each command has a help text with examples, and parses these as command lines.
func TestHelpTexts(t *testing.T) {
	names := map[string]bool{"schedule": true}
	for _, c := range commands() {
		names[c.name] = true
		about, examples, _ := strings.Cut(helpText(c.name), "\n\nExamples:\n   ")
		if about == "" || examples == "" {
			t.Errorf("%s has no help text, or one without examples", c.name)
			continue
		}
		lines, own := strings.Split(examples, "\n   "), 0
		for i, line := range lines {
			if strings.HasPrefix(line, "#") != (i%2 == 0) && !strings.HasPrefix(lines[i-1], "starter ") {
				t.Errorf("%s: example %q: each command line must follow a line with #", c.name, line)
			}
			call, ok := strings.CutPrefix(line, "starter ")
			if !ok {
				continue
			}
			call, _, _ = strings.Cut(call, " > ")
			call, _, _ = strings.Cut(call, " | ")
			got, _, err := parse(&app{}, strings.Fields(strings.NewReplacer(`"the flow was withdrawn"`, "withdrawn", `"0 9 * * mon-fri"`, "@daily").Replace(call))...)
			if err != nil {
				t.Errorf("%s: example %q: %v", c.name, line, err)
			} else if got.name == c.name {
				own++
			}
		}
		if own == 0 {
			t.Errorf("%s: no example uses the command", c.name)
		}
	}
	files, err := helpTexts.ReadDir("help")
	if err != nil || len(files) != len(names) {
		t.Errorf("%d help texts, want %d; %v", len(files), len(names), err)
	}
}

// TestReadmeComplete checks that README.md mentions each command, event and exit code.
func TestReadmeComplete(t *testing.T) {
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, c := range commands() {
		want = append(want, "`starter "+strings.TrimPrefix(c.name, "run"))
	}
	for _, e := range []string{progress.EventRun, progress.EventRunModel, progress.EventStarted, progress.EventFinished, progress.EventText, progress.EventModel, progress.EventTool, progress.EventMessage, progress.EventJudge, progress.EventCall, progress.EventAttempt, progress.EventFailed, progress.EventWarning, progress.EventNote, progress.EventRequest, progress.EventAnswered} {
		want = append(want, "`"+e+"`")
	}
	for _, code := range []int{exitOK, exitFailed, exitBadInput, exitNoTemporal, exitCancelled, exitDefect, exitDetached} {
		want = append(want, fmt.Sprintf("| %d |", code))
	}
	for _, w := range want {
		if !strings.Contains(string(raw), w) {
			t.Errorf("README.md does not contain %s", w)
		}
	}
}

// TestBashCompletion runs the completion script in bash.
func TestBashCompletion(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	script, err := exec.Command("starter", "completion", "bash").Output()
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ words, want string }{
		"command":                                 {"starter tr", "transcript trace"},
		"subcommand":                              {"starter schedule c", "create"},
		"flags of a run":                          {"starter -fl", "-flow"},
		"flags of a command":                      {"starter terminate -r", "-reason"},
		"flag that the command does not have":     {"starter terminate -flo", ""},
		"values of -output":                       {"starter result x -output j", "json jsonl"},
		"values of -output of validate":           {"starter validate x -output s", "sarif"},
		"values of -status":                       {"starter list -status comp", "completed"},
		"flag of another command with two dashes": {"starter result x --rea", ""},
		"flags with two dashes":                   {"starter terminate x --rea", "--reason"},
		"files of -flow":                          {"starter -flow ./help", ""},
		"files of validate":                       {"starter validate ./help", ""},
		"shells":                                  {"starter completion z", "zsh"},
		"flags after a flag":                      {"starter -detach -fl", "-flow"},
		"commands for help":                       {"starter help vali", "validate"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			// If the script offers nothing, bash completes files itself (-o default).
			const call = "_comp_initialize() { :; }\nread -ra COMP_WORDS <<<\"$1\"; COMP_CWORD=$((${#COMP_WORDS[@]}-1)); __starter_bash_autocomplete; echo \"${COMPREPLY[*]}\"; complete -p starter >&2"
			cmd := exec.Command(bash, "-c", string(script)+"\n"+call, "bash", tc.words)
			var stdout, stderr strings.Builder
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Run(); err != nil || !strings.Contains(stderr.String(), "-o default") {
				t.Fatalf("%v: %s", err, &stderr)
			}
			if got := strings.TrimSpace(stdout.String()); got != tc.want {
				t.Errorf("completions = %q, want %q", got, tc.want)
			}
		})
	}
}

// TestCompletionSyntax checks the syntax of the completion scripts with those shells that are installed.
func TestCompletionSyntax(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script, err := exec.Command("starter", "completion", shell).Output()
		if err != nil || len(script) == 0 {
			t.Errorf("%s: %v", shell, err)
			continue
		}
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("%s is not installed", shell)
			continue
		}
		cmd := exec.Command(path, "-n")
		cmd.Stdin = bytes.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", shell, err, out)
		}
	}
}
