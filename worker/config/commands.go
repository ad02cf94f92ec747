package config

import (
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

// StateDir is the folder in which programs of this user keep what outlives them:
// $XDG_STATE_HOME/weft, or ~/.local/state/weft. It need not be there. It fails where the
// environment names neither.
func StateDir(env Env) (string, error) {
	base, _ := env.LookupEnv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) {
		// The specification of these folders says that a relative one counts as none.
		home, _ := env.LookupEnv("HOME")
		if home == "" {
			return "", errors.New("neither XDG_STATE_HOME nor HOME is set")
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "weft"), nil
}

// Command is a program with its arguments, the variables that are set for it and the folder in
// which it is started, as a flow writes them.
type Command struct {
	Command string            `json:"command"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Dir     string            `json:"dir,omitempty"`
}

// Equal reports whether two commands are the same, with all that belongs to them.
func (c Command) Equal(other Command) bool {
	return c.Command == other.Command && slices.Equal(c.Args, other.Args) && maps.Equal(c.Env, other.Env) && c.Dir == other.Dir
}

// Commands is the folder with the commands that a user lets flows start on this machine: a
// file for each, named by its hash. Removing a file takes the permission back.
type Commands string

// OwnCommands is the folder of the user whose environment this is.
func OwnCommands(env Env) (Commands, error) {
	dir, err := StateDir(env)
	return Commands(filepath.Join(dir, "commands")), err
}

// file is where a command stands, once it is allowed.
func (c Commands) file(cmd Command) (name string, content []byte) {
	if len(cmd.Args) == 0 {
		cmd.Args = nil
	}
	content, _ = json.Marshal(cmd) // texts alone
	sum := sha256.Sum256(content)
	return filepath.Join(string(c), hex.EncodeToString(sum[:12])+".json"), content
}

// Allowed reports whether the user has allowed the command with just these arguments.
func (c Commands) Allowed(cmd Command) bool {
	name, _ := c.file(cmd)
	raw, err := os.ReadFile(name)
	var kept Command
	return err == nil && json.Unmarshal(raw, &kept) == nil && kept.Equal(cmd)
}

// Allow remembers that the user allows a command.
func (c Commands) Allow(cmd Command) error {
	name, content := c.file(cmd)
	err := os.MkdirAll(string(c), 0o700)
	if err == nil {
		err = os.WriteFile(name, append(content, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("remember the command that is allowed: %w", err)
	}
	return nil
}
