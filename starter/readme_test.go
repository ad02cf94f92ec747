package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/specadapter"
	"weft/specadapter/source"
	"weft/tests/programs"
	"weft/worker/config"
)

// codeBlocks returns the fenced code blocks of a language in a Markdown file.
func codeBlocks(t *testing.T, page, language string) []string {
	t.Helper()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(raw), -1) {
		out = append(out, m[1])
	}
	if len(out) == 0 {
		t.Fatalf("%s has no code block of %s", page, language)
	}
	return out
}

// commandLines returns the command lines in the sh blocks of a page, without comments.
func commandLines(t *testing.T, page string) [][]string {
	t.Helper()
	var out [][]string
	for _, block := range codeBlocks(t, page, "sh") {
		for _, line := range strings.Split(strings.ReplaceAll(block, "\\\n", " "), "\n") {
			line, _, _ = strings.Cut(line, "  #")
			if args := splitWords(t, line); len(args) > 0 {
				out = append(out, args)
			}
		}
	}
	return out
}

// splitWords splits a line as a shell does.
func splitWords(t *testing.T, line string) []string {
	t.Helper()
	raw, err := exec.Command("sh", "-c", `printf '%s\0' `+line).Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	out := strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")
	if out[0] == "" {
		return nil
	}
	return out
}

// TestReadmeCommands runs those command lines of the READMEs that need no server, and parses the
// others.
func TestReadmeCommands(t *testing.T) {
	targets, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	var lines [][]string
	for _, page := range []string{"../README.md", "README.md"} {
		lines = append(lines, commandLines(t, page)...)
	}
	readmeFlows(t)
	ran := 0
	for _, args := range lines {
		line := strings.Join(args, " ")
		switch filepath.Base(args[0]) {
		case "make":
			if !strings.Contains(string(targets), "\n"+args[1]+":") {
				t.Errorf("%s: the Makefile has no such target", line)
			}
		case "starter":
			ran++
			var stdout, stderr bytes.Buffer
			a := &app{stdout: &stdout, stderr: &stderr, env: mapEnv{}}
			if args[1] == "validate" || args[1] == "graph" {
				if code := a.run(t.Context(), args[1:]); code != exitOK || stdout.Len() == 0 {
					t.Errorf("%s: exit code %d\n%s", line, code, stderr.String())
				}
			} else if _, _, err := parse(a, args[1:]...); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
	if ran < 8 {
		t.Errorf("found %d command lines of starter, want at least 8", ran)
	}
}

// TestReadmeSettings loads the settings in README.md.
func TestReadmeSettings(t *testing.T) {
	connections, confirm := 0, 0
	for _, block := range codeBlocks(t, "../README.md", "yaml") {
		if strings.HasPrefix(block, "agentspec_version") {
			continue
		}
		file := filepath.Join(t.TempDir(), "weft.yaml")
		if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(config.Options{File: file, Env: mapEnv{"SEARCH_TOKEN": "x"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cfg.Tool(); err != nil {
			t.Error(err)
		}
		connections, confirm = connections+len(cfg.Connections), confirm+len(cfg.Confirm)
	}
	if connections != 2 || confirm != 1 {
		t.Errorf("%d connections, %d confirm rules, want 2 and 1", connections, confirm)
	}
}

// readmeFlows changes to a new folder with the flows of README.md, the first one as flow.json, and a link to tests. It returns
// the names of the files.
func readmeFlows(t *testing.T) []string {
	t.Helper()
	var blocks, names []string
	blocks = append(codeBlocks(t, "../README.md", "json"), codeBlocks(t, "../README.md", "yaml")...)
	tests, err := filepath.Abs("../tests")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.Symlink(tests, "tests"); err != nil {
		t.Fatal(err)
	}
	for _, block := range blocks {
		doc, diags := source.Parse("flow.yaml", []byte(block))
		if doc == nil {
			t.Fatal(diags)
		}
		d := specadapter.Recognize(doc, "")
		if d == nil {
			continue
		}
		name := "flow.json"
		if len(names) > 0 {
			name = d.Name() + map[bool]string{true: ".json", false: ".yaml"}[strings.HasPrefix(block, "{")]
		}
		if err := os.WriteFile(name, []byte(block), 0o600); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if diff := cmp.Diff([]string{"flow.json", "koog.json", "blueprint.json", "agentspec.yaml"}, names); diff != "" {
		t.Fatalf("flows of README.md (-want +got):\n%s", diff)
	}
	return names
}

// TestReadmeFlows validates the flows of README.md, without warnings.
func TestReadmeFlows(t *testing.T) {
	for _, name := range readmeFlows(t) {
		var stdout, stderr bytes.Buffer
		a := &app{stdout: &stdout, stderr: &stderr, env: mapEnv{}}
		if code := a.run(t.Context(), []string{"validate", name}); code != exitOK || stderr.Len() > 0 {
			t.Errorf("%s: exit code %d\n%s", name, code, stderr.String())
		}
	}
}

// TestEndToEndReadme runs the command of README.md that starts a run, and the other flows of README.md.
func TestEndToEndReadme(t *testing.T) {
	path := programs.Path(t, "WEFT_DEVSERVER")
	address := devserver(t, path)
	lines := commandLines(t, "../README.md")
	names := readmeFlows(t)
	started := slices.DeleteFunc(lines, func(args []string) bool {
		return args[0] != "bin/starter" || len(args) < 4 || !strings.Contains(strings.Join(args, " "), " -flow ")
	})
	if len(started) != 1 {
		t.Errorf("README.md starts %d runs, want 1", len(started))
	}
	for _, name := range names[1:] {
		started = append(started, []string{"bin/starter", "-dev", "-flow", name, "-input", "Move to Oslo", "-model", "script"})
	}
	for _, args := range started {
		var stdout, stderr bytes.Buffer
		a := &app{stdout: &stdout, stderr: &stderr, env: mapEnv{"TEMPORAL_ADDRESS": address, "TEMPORAL_CONFIG_FILE": "none.toml", "XDG_STATE_HOME": t.TempDir()}}
		if code := a.run(t.Context(), args[1:]); code != exitOK || !strings.Contains(stdout.String(), "[script]") || strings.Contains(stderr.String(), "warning") {
			t.Errorf("%q: exit code %d, %s\n%s", args, code, stdout.String(), stderr.String())
		}
	}
}
