package config

import (
	"os"
	"path/filepath"
	"testing"

	"weft/activities/tool"
)

// A command is allowed with the arguments that it was allowed with, until its file is removed.
func TestCommandsAreRememberedExactly(t *testing.T) {
	home := t.TempDir()
	own, err := OwnCommands(fakeEnv{"XDG_STATE_HOME": "relative", "HOME": home})
	if want := filepath.Join(home, ".local", "state", "weft", "commands"); err != nil || string(own) != want {
		t.Fatalf("the folder is %s, want %s: %v", own, want, err)
	}
	cmd := Command{Command: "npx", Args: []string{"-y", "server", "a b"}}
	if own.Allowed(cmd) {
		t.Error("nobody has allowed it yet")
	}
	if err := own.Allow(cmd); err != nil {
		t.Fatal(err)
	}
	if !own.Allowed(Command{Command: "npx", Args: []string{"-y", "server", "a b"}}) {
		t.Error("it was allowed")
	}
	for _, other := range []Command{{Command: "npx"}, {Command: "npx", Args: []string{"-y", "server", "a", "b"}}, {Command: "npx -y", Args: []string{"server", "a b"}}, {},
		{Command: "npx", Args: cmd.Args, Env: map[string]string{"A": "b"}}, {Command: "npx", Args: cmd.Args, Dir: "/"}} {
		if own.Allowed(other) {
			t.Errorf("%q was not allowed", other)
		}
	}
	if err := own.Allow(Command{Command: "ls", Args: []string{}}); err != nil || !own.Allowed(Command{Command: "ls", Args: nil}) {
		t.Errorf("no arguments are no arguments: %v", err)
	}
	files, err := os.ReadDir(string(own))
	if err != nil || len(files) != 2 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s can be read by others: %v", f.Name(), err)
		}
		if err := os.Remove(filepath.Join(string(own), f.Name())); err != nil {
			t.Fatal(err)
		}
	}
	if own.Allowed(cmd) {
		t.Error("the permission was taken back")
	}
	if _, err := OwnCommands(fakeEnv{}); err == nil {
		t.Error("there is no folder without a home")
	}
}

// The author's own worker asks what the author has allowed; a deployed one does not.
func TestOnlyTheAuthorsWorkerStartsWhatTheAuthorAllows(t *testing.T) {
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
				t.Error("a deployed worker reads what a user allows")
			}
			continue
		}
		if !tools.AllowCommand(tool.Connection{Command: "server", Args: []string{"x"}}) || tools.AllowCommand(tool.Connection{Command: "server"}) ||
			tools.AllowCommand(tool.Connection{Command: "server", Args: []string{"x"}, Env: map[string]string{"A": "b"}}) || tools.AllowCommand(tool.Connection{Command: "server", Args: []string{"x"}, Dir: "/"}) {
			t.Error("the author's worker does not do as the author allowed")
		}
	}
}
