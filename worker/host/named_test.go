package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/specadapter/source"
)

// flowsDir creates a folder of flows, with a secret file next to it.
func flowsDir(t *testing.T) string {
	t.Helper()
	top := t.TempDir()
	dir := filepath.Join(top, "flows")
	if err := os.MkdirAll(filepath.Join(dir, "folder.json"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"../secret.json": "geheim", "echo.json": echo, "two.json": echo, "two.yaml": echo, "v1.2.yml": echo,
		"bad.json": "{", ".hidden.json": echo, "plain": echo, "long.json": strings.Repeat(" ", source.MaxBytes) + echo,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"agents/writer/agent.json": `{"name": "writer", "description": "Writes.", "capabilities": ["style"]}`, "agents/writer/agent.system-prompt.md": "You write.",
		"capabilities/style/capability.json": `{"name": "style", "description": "x"}`, "capabilities/style/capability.text.md": "Short.",
		"agents/typed/agent.json": `{"name": "typed", "description": "x", "system_prompt": "x", "parameters_schema": {"required": ["a"]}}`,
		"agents/leaky/agent.json": `{"name": "leaky", "description": "x"}`, "agents/echo/agent.json": "{}",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../../../secret.json", filepath.Join(dir, "agents", "leaky", "agent.system-prompt.md")); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"out.json": "../secret.json", "far.json": filepath.Join(top, "secret.json"), "in.json": "echo.json", "dangling.json": "nothing.json"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFlowsByName(t *testing.T) {
	compile := Compiler(load(t, "flows: {dir: "+flowsDir(t)+"}", fakeEnv{}))
	tests := map[string]struct {
		name string
		// at is the location of the node; err is a prefix of the failure's text, remedy a part of its remedy.
		at, err, remedy string
	}{
		"file and agent of the same name":     {name: "echo", err: `the flow name "echo" is ambiguous: echo.json and agents/echo/agent.json`, remedy: "with its extension"},
		"agent with a link out of the folder": {name: "leaky", err: `the flow "leaky": read agents/leaky/agent.system-prompt.md: path escapes from parent`},
		"with an extension":                   {name: "echo.json", at: "echo.json:5"},
		"name with a dot":                     {name: "v1.2", at: "v1.2.yml:5"},
		"link without its extension":          {name: "in", at: "in.json:5"},
		"link out of the folder":              {name: "out", err: `read the flow "out.json": path escapes from parent`, remedy: "links must not lead out"},
		"link with an absolute path":          {name: "far", err: `read the flow "far.json": path escapes from parent`},
		"dangling link":                       {name: "dangling", err: `read the flow "dangling.json": no such file`},
		"parent folder":                       {name: "../secret", err: `the flow name "../secret" is not a plain file name`, remedy: "with or without its extension"},
		"parent folder alone":                 {name: "..", err: `the flow name ".." is not a plain`},
		"absolute path":                       {name: "/etc/passwd", err: `the flow name "/etc/passwd" is not a plain`},
		"parent folder in Windows notation":   {name: `..\secret`, err: `the flow name "..\\secret" is not a plain`},
		"hidden file":                         {name: ".hidden", err: `the flow name ".hidden" is not a plain`},
		"name with a null byte":               {name: "echo.json\x00", err: `the flow name "echo.json\x00" is not a plain`},
		"very long name":                      {name: strings.Repeat("x", 5000), err: "the flow name "},
		"two files of the same name":          {name: "two", err: `the flow name "two" is ambiguous: two.json and two.yaml`, remedy: "with its extension"},
		"misspelt name":                       {name: "echoo", err: `flow "echoo" not found`, remedy: `did you mean "echo"?`},
		"unknown name":                        {name: "zzzzzz", err: `flow "zzzzzz" not found`, remedy: "use one of the 11 flows there"},
		"file without an extension":           {name: "plain", err: `flow "plain" not found`},
		"folder":                              {name: "folder", err: `"folder.json" in flows.dir is not a file`},
		"invalid document":                    {name: "bad", err: "the document has 1 error(s), the first: bad.json:1:", remedy: "starter validate"},
		"document too long":                   {name: "long", err: "the document has 1 error(s), the first: long.json"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := compile(contract.FlowRef{Name: tc.name})
			if tc.err == "" {
				if err != nil {
					t.Fatal(err)
				}
				if at := got.Source.At("nodes/echo"); at != tc.at || got.Plan.Name != "Echo" || got.Hash == "" {
					t.Errorf("plan = %q at %s, want Echo at %s", got.Plan.Name, at, tc.at)
				}
				return
			}
			var f *contract.Failure
			if !errors.As(err, &f) || f.Class != contract.ClassInvalidFlow || !strings.HasPrefix(f.Text, tc.err) || !strings.Contains(f.Remedy, tc.remedy) {
				t.Fatalf("error = %#v, want %q with remedy %q", err, tc.err, tc.remedy)
			}
			if strings.Contains(f.Error(), "geheim") || strings.Contains(f.Error(), os.TempDir()) {
				t.Errorf("the failure reveals files of the worker: %v", f)
			}
		})
	}
}

func TestAgentByName(t *testing.T) {
	got, err := Compiler(load(t, "flows: {dir: "+flowsDir(t)+"}", fakeEnv{}))(contract.FlowRef{Name: "writer"})
	if err != nil {
		t.Fatal(err)
	}
	if system := got.Plan.Nodes[0].Agent.System; system != "You write.\n\n---\n\nShort." || got.Plan.Dialect != "blueprint" {
		t.Errorf("system prompt = %q", system)
	}
}

func TestDocumentsAreRejected(t *testing.T) {
	dir := flowsDir(t)
	compile := Compiler(load(t, "flows: {dir: "+dir+", accept: named}", fakeEnv{}))
	_, err := compile(contract.FlowRef{Text: echo, Name: "echo.json"})
	var f *contract.Failure
	if !errors.As(err, &f) || f.Class != contract.ClassInvalidFlow || !strings.Contains(f.Text, "flows.accept: named") || f.Remedy == "" {
		t.Errorf("error = %#v", err)
	}
	if _, err := compile(contract.FlowRef{Name: "in"}); err != nil {
		t.Errorf("a named flow is rejected: %v", err)
	}
	_, err = Compiler(load(t, "", fakeEnv{}))(contract.FlowRef{Name: "echo"})
	if !errors.As(err, &f) || !strings.Contains(f.Text, "flows.dir is not set") || !strings.Contains(f.Remedy, "flows: {dir: ") {
		t.Errorf("error = %#v", err)
	}
}

func TestNewRejectsInvalidFlowsDir(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for settings, want := range map[string]string{
		"flows: {dir: /no/such/folder}": "flows.dir: stat /no/such/folder: no such file or directory",
		"flows: {dir: " + file + "}":    "flows.dir: " + file + " is not a directory",
		"flows: {accept: named}":        "flows.accept is named, but flows.dir is not set",
	} {
		if _, err := New(context.Background(), lazyClient(t), load(t, settings, fakeEnv{})); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error = %v, want %q", settings, err, want)
		}
	}
}
