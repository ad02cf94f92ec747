package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// StateDir is the directory of this user's persistent state: $XDG_STATE_HOME/weft, or
// ~/.local/state/weft. It may not exist. The error is that neither variable is set.
func StateDir(env Env) (string, error) {
	base, _ := env.LookupEnv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) {
		// The XDG specification ignores relative paths.
		home, _ := env.LookupEnv("HOME")
		if home == "" {
			return "", errors.New("neither XDG_STATE_HOME nor HOME is set")
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "weft"), nil
}

// Command is a program with its arguments, environment variables and working directory, as a flow
// writes them.
type Command struct {
	Command string            `json:"command"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Dir     string            `json:"dir,omitempty"`
}

// Equal reports whether two commands are equal in all fields.
func (c Command) Equal(other Command) bool {
	return c.Command == other.Command && slices.Equal(c.Args, other.Args) && maps.Equal(c.Env, other.Env) && c.Dir == other.Dir
}

// Commands is the directory of the commands that a user allows flows to start on this machine: a
// file for each, named by its hash. Removing a file revokes the permission.
type Commands string

// OwnCommands returns the directory of the user with this environment.
func OwnCommands(env Env) (Commands, error) {
	dir, err := StateDir(env)
	return Commands(filepath.Join(dir, "commands")), err
}

func (c Commands) file(cmd Command) (name string, content []byte) {
	content, _ = json.Marshal(cmd) // texts alone
	sum := sha256.Sum256(content)
	return filepath.Join(string(c), hex.EncodeToString(sum[:12])+".json"), append(content, '\n')
}

// Allowed reports whether the user has allowed the command with exactly these arguments.
func (c Commands) Allowed(cmd Command) bool {
	name, content := c.file(cmd)
	stored, err := os.ReadFile(name)
	return err == nil && bytes.Equal(stored, content)
}

// Allow stores that the user allows a command.
func (c Commands) Allow(cmd Command) error {
	name, content := c.file(cmd)
	err := os.MkdirAll(string(c), 0o700)
	if err == nil {
		err = os.WriteFile(name, content, 0o600)
	}
	if err != nil {
		return fmt.Errorf("store the allowed command: %w", err)
	}
	return nil
}
