package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestEveryCommandHasAPageWhoseExamplesAreRight reads each example as the command would.
func TestEveryCommandHasAPageWhoseExamplesAreRight(t *testing.T) {
	labels := map[string]bool{}
	for _, c := range commands() {
		labels[c.label()] = true
		p := pages[c.label()]
		if p.about == "" || p.examples == "" {
			t.Errorf("%s has no page, or one without text or examples", c.label())
		}
		lines, own := strings.Split(p.examples, "\n"), 0
		for i, line := range lines {
			if strings.HasPrefix(line, "#") != (i%2 == 0) && !strings.HasPrefix(lines[i-1], "starter ") {
				t.Errorf("%s: example %q: each command line wants a line with # before it", c.label(), line)
			}
			_, call, ok := strings.Cut(line, "starter ")
			if !ok || strings.HasPrefix(line, "#") {
				continue
			}
			call, _, _ = strings.Cut(call, " > ")
			words := strings.Fields(strings.NewReplacer(")", "", `"the flow was withdrawn"`, "withdrawn").Replace(call))
			got, _, err := (&app{}).parse(words)
			if err != nil {
				t.Errorf("%s: example %q: %v", c.label(), line, err)
			} else if got.label() == c.label() {
				own++
			}
		}
		if own == 0 {
			t.Errorf("%s: no example is about it", c.label())
		}
	}
	for label := range pages {
		if !labels[label] {
			t.Errorf("the page %q is of no command", label)
		}
	}
}

// TestReadmeHasEverything looks for each command, event and exit code in README.md.
func TestReadmeHasEverything(t *testing.T) {
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, c := range commands() {
		want = append(want, strings.TrimSpace("`starter "+c.name))
	}
	for _, e := range []string{eventRun, eventRunModel, eventStarted, eventFinished, eventText, eventModel, eventTool, eventJudge, eventCall, eventAttempt, eventFailed, eventWarning, eventNote, eventRequest, eventAnswered} {
		want = append(want, "`"+e+"`")
	}
	for _, code := range []int{exitOK, exitFailed, exitBadInput, exitNoTemporal, exitCancelled, exitDefect, exitDetached} {
		want = append(want, fmt.Sprintf("| %d |", code))
	}
	for _, w := range want {
		if !strings.Contains(string(raw), w) {
			t.Errorf("README.md has no %s", w)
		}
	}
}

// TestBashCompletes asks a real bash what it would offer.
func TestBashCompletes(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash here")
	}
	tests := map[string]struct{ words, want string }{
		"a command":                  {"starter tr", "transcript"},
		"commands and flags first":   {"starter -f", "-flow"},
		"a command's own flags":      {"starter terminate -r", "-reason"},
		"no other command's flags":   {"starter terminate -flo", ""},
		"values of -output":          {"starter result x -output j", "json jsonl"},
		"a command's own values":     {"starter validate x -output s", "sarif"},
		"also with two dashes":       {"starter result x --output t", "text"},
		"files where one is wanted":  {"starter -flow ./completion.b", "./completion.bash"},
		"files of validate":          {"starter validate ./completion.z", "./completion.zsh"},
		"files of test":              {"starter test ./completion.z", "./completion.zsh"},
		"folders of agents":          {"starter agents ./testda", "./testdata"},
		"no files of a run's id":     {"starter result ./completion.z", ""},
		"nothing where text is free": {"starter -input -f", ""},
		"a shell":                    {"starter completion z", "zsh"},
		"flags behind a flag":        {"starter -detach -fl", "-flow"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			script := bashCompletion() + "\nread -ra COMP_WORDS <<<\"$1\"; COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _starter; echo \"${COMPREPLY[*]}\""
			out, err := exec.Command(bash, "-c", script, "bash", tc.words).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if got := strings.TrimSpace(string(bytes.TrimSpace(out))); got != tc.want {
				t.Errorf("offers %q, want %q", got, tc.want)
			}
		})
	}
}

// TestCompletionScriptsParse lets each shell that is here read its script.
func TestCompletionScriptsParse(t *testing.T) {
	for shell, script := range map[string]string{"bash": bashCompletion(), "zsh": zshCompletion(), "fish": fishCompletion()} {
		if regexp.MustCompile("@[A-Z]+@").MatchString(script) {
			t.Errorf("%s: a place is not filled: %s", shell, script)
		}
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("there is no %s here", shell)
			continue
		}
		cmd := exec.Command(path, "-n")
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", shell, err, out)
		}
	}
}
