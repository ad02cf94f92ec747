package main

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
	"weft/worker/config"
)

// devProgram finds weft-devserver, or builds it.
func (d *dev) devProgram(ctx context.Context) (string, error) {
	if d.program != "" {
		return d.program, nil
	}
	path, root := findDevServer(d.app.env)
	var err error
	if path == "" {
		path, err = d.build(ctx, root)
	}
	d.program = path
	return path, err
}

// findDevServer looks beside this program, in PATH, and where a checkout has it. Where it
// finds none, it gives the folder of a checkout, or "".
func findDevServer(env config.Env) (path, root string) {
	self, err := os.Executable()
	if err == nil {
		if path := filepath.Join(filepath.Dir(self), devServer); isProgram(path) {
			return path, ""
		}
	}
	if path := inPath(env, devServer); path != "" {
		return path, ""
	}
	here, _ := os.Getwd()
	if root = checkout(filepath.Dir(self)); root == "" {
		root = checkout(here)
	}
	if path := filepath.Join(root, "bin", devServer); root != "" && isProgram(path) {
		return path, ""
	}
	return "", root
}

// inPath finds a program in PATH, as absolute folders have it.
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

// build makes weft-devserver from a checkout.
func (d *dev) build(ctx context.Context, root string) (string, error) {
	compiler := inPath(d.app.env, "go")
	if root == "" || compiler == "" {
		return "", bad("-dev needs %s beside starter or in PATH; build it with: make build", devServer)
	}
	path := filepath.Join(root, "bin", devServer)
	d.app.say("dev: building %s; the first time this takes some minutes", path)
	// Ctrl-C is for this program alone: a compiler that it reached too would fail the build.
	ctx, stop := d.app.listening(ctx)
	defer stop()
	// Nobody may find half a program there.
	unfinished := path + ".unfinished"
	cmd := exec.CommandContext(ctx, compiler, "build", "-buildvcs=false", "-o", unfinished, ".")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = buildDelay
	aside(cmd)
	cmd.Dir = filepath.Join(root, "worker", "devserver")
	cmd.Env = d.app.env.Environ()
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		d.app.sayInterrupted()
		return "", coded(exitDetached)
	}
	if err != nil {
		text := string(bytes.TrimSpace(out))
		return "", fmt.Errorf("build %s in %s: %w: %s", devServer, cmd.Dir, err, plaintext.Line(text[max(0, len(text)-500):], 500))
	}
	if err := os.Rename(unfinished, path); err != nil {
		return "", fmt.Errorf("build %s: %w", devServer, err)
	}
	return path, nil
}
