package config

import (
	"os"
	"path/filepath"
	"testing"

	"weft/activities/tool"
)

// TestCommandPermissions checks that a permission covers exactly one command with its arguments, until its file is removed.
func TestCommandPermissions(t *testing.T) {
	home := t.TempDir()
	own, err := OwnCommands(fakeEnv{"XDG_STATE_HOME": "relative", "HOME": home})
	if want := filepath.Join(home, ".local", "state", "weft", "commands"); err != nil || string(own) != want {
		t.Fatalf("OwnCommands() = %s, want %s: %v", own, want, err)
	}
	cmd := Command{Command: "npx", Args: []string{"-y", "server", "a b"}}
	if own.Allowed(cmd) {
		t.Error("a command is allowed before Allow")
	}
	if err := own.Allow(cmd); err != nil {
		t.Fatal(err)
	}
	if !own.Allowed(Command{Command: "npx", Args: []string{"-y", "server", "a b"}}) {
		t.Error("a command is not allowed after Allow")
	}
	for _, other := range []Command{{Command: "npx"}, {Command: "npx", Args: []string{"-y", "server", "a", "b"}}, {Command: "npx -y", Args: []string{"server", "a b"}}, {},
		{Command: "npx", Args: cmd.Args, Env: map[string]string{"A": "b"}}, {Command: "npx", Args: cmd.Args, Dir: "/"}} {
		if own.Allowed(other) {
			t.Errorf("%q is allowed without a permission", other)
		}
	}
	if err := own.Allow(Command{Command: "ls", Args: []string{}}); err != nil || !own.Allowed(Command{Command: "ls", Args: nil}) {
		t.Errorf("nil and empty arguments differ: %v", err)
	}
	files, err := os.ReadDir(string(own))
	if err != nil || len(files) != 2 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s is readable by others: %v", f.Name(), err)
		}
		if err := os.Remove(filepath.Join(string(own), f.Name())); err != nil {
			t.Fatal(err)
		}
	}
	if own.Allowed(cmd) {
		t.Error("a command is allowed after its file was removed")
	}
	if _, err := OwnCommands(fakeEnv{}); err == nil {
		t.Error("OwnCommands() without HOME: no error")
	}
}

// TestAuthorPermissions checks that the author's own worker uses the author's permissions, and that a deployed worker does not.
func TestAuthorPermissions(t *testing.T) {
	t.Chdir(t.TempDir())
	env := fakeEnv{"XDG_STATE_HOME": t.TempDir()}
	own, err := OwnCommands(env)
	if err != nil {
		t.Fatal(err)
	}
	if err := own.Allow(Command{Command: "server", Args: []string{"x"}}); err != nil {
		t.Fatal(err)
	}
	for _, author := range []bool{true, false} {
		cfg, err := Load(Options{Env: env, Author: author})
		if err != nil {
			t.Fatal(err)
		}
		tools, err := cfg.Tool()
		if err != nil {
			t.Fatal(err)
		}
		if !author {
			if tools.AllowCommand != nil {
				t.Error("a deployed worker uses a user's permissions")
			}
			continue
		}
		if !tools.AllowCommand(tool.Connection{Command: "server", Args: []string{"x"}}) || tools.AllowCommand(tool.Connection{Command: "server"}) ||
			tools.AllowCommand(tool.Connection{Command: "server", Args: []string{"x"}, Env: map[string]string{"A": "b"}}) || tools.AllowCommand(tool.Connection{Command: "server", Args: []string{"x"}, Dir: "/"}) {
			t.Error("AllowCommand does not match the author's permissions")
		}
	}
}
