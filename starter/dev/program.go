package dev

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"weft/starter/plaintext"
	"weft/starter/usage"
	"weft/worker/config"
)

func (d *Dev) serverProgram(ctx context.Context) (string, error) {
	if d.program != "" {
		return d.program, nil
	}
	path, root := findServer(d.Settings.Env)
	var err error
	if path == "" {
		path, err = d.build(ctx, root)
	}
	d.program = path
	return path, err
}

const serverName = "weft-devserver"

// findServer looks beside this program, in PATH, and in a checkout, whose folder it returns otherwise.
func findServer(env config.Env) (path, root string) {
	self, err := os.Executable()
	if err == nil {
		if path := filepath.Join(filepath.Dir(self), serverName); isProgram(path) {
			return path, ""
		}
	}
	if path := inPath(env, serverName); path != "" {
		return path, ""
	}
	here, _ := os.Getwd()
	if root = checkout(filepath.Dir(self)); root == "" {
		root = checkout(here)
	}
	if path := filepath.Join(root, "bin", serverName); root != "" && isProgram(path) {
		return path, ""
	}
	return "", root
}

func inPath(env config.Env, name string) string {
	dirs, _ := env.LookupEnv("PATH")
	for _, dir := range filepath.SplitList(dirs) {
		if path := filepath.Join(dir, name); filepath.IsAbs(dir) && isProgram(path) {
			return path
		}
	}
	return ""
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}

// checkout is the folder of this project's sources that holds a folder, or "".
func checkout(dir string) string {
	for dir != "" {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(mod), "module weft\n") {
			if _, err := os.Stat(filepath.Join(dir, "worker", "devserver", "main.go")); err == nil {
				return dir
			}
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
	return ""
}

// buildDelay is how long a compiler has to end when it is asked to.
const buildDelay = 5 * time.Second

func (d *Dev) build(ctx context.Context, root string) (string, error) {
	compiler := inPath(d.Settings.Env, "go")
	if root == "" || compiler == "" {
		return "", usage.Errorf("-dev needs %s beside starter or in PATH; build it with: make build", serverName)
	}
	path := filepath.Join(root, "bin", serverName)
	d.Say("dev: building %s; the first time this takes some minutes", path)
	// Ctrl-C is for this program alone: a compiler that it reached too would fail the build.
	ctx, stop := d.Interruptible(ctx)
	defer stop()
	// Nobody may find half a program there.
	unfinished := path + ".unfinished"
	cmd := exec.CommandContext(ctx, compiler, "build", "-buildvcs=false", "-o", unfinished, ".")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = buildDelay
	ownSession(cmd)
	cmd.Dir = filepath.Join(root, "worker", "devserver")
	cmd.Env = d.Settings.Env.Environ()
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return "", ErrInterrupted
	}
	if err != nil {
		text := string(bytes.TrimSpace(out))
		return "", fmt.Errorf("build %s in %s: %w: %s", serverName, cmd.Dir, err, plaintext.Line(text[max(0, len(text)-500):], 500))
	}
	if err := os.Rename(unfinished, path); err != nil {
		return "", fmt.Errorf("build %s: %w", serverName, err)
	}
	return path, nil
}
